/** The server's answer as it comes: frames of JSON and bytes behind their lengths, put together from whatever pieces arrive. */

/** What the server tells, as described in the Python package `cassette_lab.server.jupyter`. */
export type Event =
  | { readonly event: 'begin'; readonly bodies: boolean }
  | { readonly event: 'header'; readonly source: string }
  | { readonly event: 'page'; readonly table: string; readonly rows: number; readonly total_rows: number }
  | { readonly event: 'progress'; readonly done: number; readonly total: number; readonly words: string }
  | ({ readonly event: 'state' } & State)
  | ({ readonly event: 'diff' } & Verdict)
  | { readonly event: 'end'; readonly left_out: Readonly<Record<string, number>>; readonly complete: boolean };

export interface State {
  readonly source: string;
  readonly kind: string | null;
  readonly state: 'verifying' | 'verified' | 'partial' | 'unverified' | 'broken';
  readonly words: string;
  readonly rows: number | null;
  readonly line: number | null;
  readonly changed: boolean;
  readonly problem: Problem | null;
}

export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly file: string;
  readonly line: number | null;
  readonly field: string | null;
}

export interface Verdict {
  readonly verdict: string;
  readonly comparable: boolean;
  readonly issues: readonly string[];
  readonly policy_changes: readonly string[];
  readonly expected: string;
  readonly actual: string;
}

const LENGTHS = 8;

export class FrameReader {
  #rest = new Uint8Array(0);
  #have = 0;

  constructor(private readonly tell: (event: Event, data: Uint8Array) => void) {}

  /** The next bytes of the answer. Throws for what is no frame. */
  push(bytes: Uint8Array): void {
    this.#append(bytes);
    let at = 0;
    while (this.#have - at >= LENGTHS) {
      const lengths = new DataView(this.#rest.buffer, at, LENGTHS);
      const text = lengths.getUint32(0, true);
      const end = at + LENGTHS + text + lengths.getUint32(4, true);
      if (end > this.#have) break;
      const head = this.#rest.subarray(at + LENGTHS, at + LENGTHS + text);
      this.tell(JSON.parse(new TextDecoder().decode(head)) as Event, this.#rest.slice(at + LENGTHS + text, end));
      at = end;
    }
    this.#rest.copyWithin(0, at, this.#have);
    this.#have -= at;
  }

  /** Whether the answer ended in the middle of a frame. */
  get isTorn(): boolean {
    return this.#have > 0;
  }

  #append(bytes: Uint8Array): void {
    const wanted = this.#have + bytes.length;
    if (wanted > this.#rest.length) {
      const larger = new Uint8Array(Math.max(wanted, 2 * this.#rest.length));
      larger.set(this.#rest.subarray(0, this.#have));
      this.#rest = larger;
    }
    this.#rest.set(bytes, this.#have);
    this.#have = wanted;
  }
}
