/**
 * What is known of the files so far: events come in, what a view is to show comes out. Knows no server and no page.
 *
 * Rows of a recording are shown as far as they are verified. Until then the head says that they are being verified, and when
 * fewer turn out to be verified than had come, the others go.
 */
import { Table } from '../data/table.ts';
import type { DiffFacts, Trust } from '../mount.ts';
import { count, plural } from '../words.ts';
import type { Event, Problem, State, Verdict } from './frames.ts';
import { Pages } from './streams.ts';

/** What is asked for, by paths of the contents API. */
export interface Wish {
  readonly paths: readonly string[];
  readonly compare: boolean;
}

/** What a view is to show. */
export interface Shown {
  readonly tables: Readonly<Record<string, Uint8Array>>;
  readonly isDiff: boolean;
  readonly trust: Trust;
  readonly bodies: boolean;
  readonly progress: number | null;
  readonly problem: string | null;
  readonly diff: DiffFacts;
  readonly changed: boolean;
}

const MOST_PROBLEMS = 5;
const WORST = ['broken', 'unverified', 'partial', 'verifying', 'verified'] as const;

export class Reading {
  readonly #pages = new Map<string, Pages>();
  readonly #states = new Map<string, State>();
  readonly #limits = new Map<string, number>();
  readonly #unshown = new Map<string, number>();
  #source = '';
  #bodies = false;
  #progress: { readonly share: number; readonly words: string } | null = null;
  #verdict: Verdict | null = null;
  #leftOut: Readonly<Record<string, number>> = {};
  #failure: string | null = null;
  #isDone = false;

  /** `mostRows` of each table are kept for showing. */
  constructor(
    private readonly wish: Wish,
    private readonly mostRows: number,
  ) {}

  /** Rows of all tables that are kept. */
  get rows(): number {
    let rows = 0;
    for (const pages of this.#pages.values()) rows += pages.rows;
    return rows;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  take(event: Event, data: Uint8Array): void {
    switch (event.event) {
      case 'begin':
        this.#bodies = event.bodies;
        break;
      case 'page':
        this.#page(event.table, event.rows, data);
        break;
      case 'progress':
        this.#progress = { share: event.total > 0 ? event.done / event.total : 0, words: event.words };
        break;
      case 'state':
        this.#state(event);
        break;
      case 'diff':
        this.#verdict = event;
        break;
      case 'end':
        this.#leftOut = event.left_out;
        this.#isDone = true;
        break;
      default: // a header says nothing that a view shows; later servers may tell more
    }
  }

  /** The answer is over, with its end or without; `reason` says why it did not come to it. */
  close(reason: string | null): void {
    if (this.#isDone && reason === null) return;
    this.#failure = reason ?? 'the answer was cut off; open it again';
    this.#isDone = true;
  }

  shown(): Shown {
    const states = [...this.#states.values()];
    const isDiff = this.wish.compare && this.#isDone && states.length > 0 && states.every((each) => each.kind === 'cassette');
    const tables = isDiff ? this.#sides() : this.#tables();
    return { ...this.said(), tables, isDiff, bodies: this.#bodies, diff: isDiff ? this.#facts(states) : {} };
  }

  /** What stands above the rows. */
  said(): Pick<Shown, 'trust' | 'progress' | 'problem' | 'changed'> {
    const states = [...this.#states.values()];
    return {
      trust: this.#trust(states),
      progress: this.#isDone ? null : (this.#progress?.share ?? 0),
      problem: this.#problem(states),
      changed: states.some((each) => each.changed),
    };
  }

  #page(name: string, rows: number, data: Uint8Array): void {
    let pages = this.#pages.get(name);
    if (pages === undefined) {
      pages = new Pages();
      this.#pages.set(name, pages);
    }
    if (pages.rows > 0 && pages.rows + rows > this.mostRows) {
      this.#unshown.set(name, (this.#unshown.get(name) ?? 0) + rows);
      return;
    }
    pages.add(data, this.#source, rows);
  }

  #state(state: State): void {
    this.#states.set(state.source, state);
    this.#source = state.source;
    if (state.state === 'verifying') return;
    if (state.kind === 'cassette') this.#limits.set(state.source, state.rows ?? 0);
  }

  #tables(): Record<string, Uint8Array> {
    const made: Record<string, Uint8Array> = {};
    // Two recordings are told call by call when both are there; until then rows of one would look like half of the calls.
    if (this.wish.compare && !this.#isDone) return made;
    const none = new Map<string, number>();
    for (const [name, pages] of this.#pages) made[name] = pages.bytes(name === 'calls' ? this.#limits : none);
    return made;
  }

  #sides(): Record<string, Uint8Array> {
    const [expected, actual] = [...this.#states.keys()];
    const pages = this.#pages.get('calls');
    const side = (source: string | undefined): Uint8Array =>
      pages === undefined || source === undefined ? new Uint8Array(0) : pages.bytes(this.#limits, source);
    return { expected: side(expected), actual: side(actual) };
  }

  #facts(states: readonly State[]): DiffFacts {
    const [expected, actual] = states.map((each) => each.source);
    const sides = { ...(expected === undefined ? {} : { expected }), ...(actual === undefined ? {} : { actual }) };
    if (this.#verdict !== null) {
      const { verdict, comparable, issues, policy_changes } = this.#verdict;
      return { ...sides, verdict, comparable, issues, policy_changes };
    }
    const bad = states.filter((each) => each.state !== 'verified').map((each) => `${each.source}: ${each.words}`);
    return { ...sides, verdict: 'not compared: only what could be verified is shown', comparable: false, issues: bad };
  }

  #trust(states: readonly State[]): Trust {
    if (this.#failure !== null) return { state: 'broken', words: 'not read to its end' };
    const wanted = this.wish.compare ? 2 : 1;
    const state = WORST.find((word) => states.some((each) => each.state === word)) ?? 'verifying';
    if (!this.#isDone && (state === 'verifying' || states.length < wanted || state === 'verified'))
      return { state: 'verifying', words: ['verifying', this.#progress?.words ?? ''].filter((part) => part !== '').join(': ') };
    const words = new Set(states.map((each) => each.words));
    if (words.size === 1) return { state, words: [...words].join('') };
    return { state, words: states.map((each) => `${nameOf(each.source)}: ${each.words}`).join(' · ') };
  }

  #problem(states: readonly State[]): string | null {
    const parts = states.flatMap((each) => (each.problem === null ? [] : [sentence(each.problem)]));
    if (this.#failure !== null) parts.push(this.#failure);
    if (this.#isDone && !states.some((each) => each.kind === 'cassette' || each.problem !== null))
      parts.push(...this.#problems());
    if (this.wish.compare && this.#isDone && parts.length === 0 && states.some((each) => each.kind !== 'cassette'))
      parts.push('only cassettes are compared call by call; these are shown together');
    for (const [name, rows] of Object.entries(this.#leftOut))
      parts.push(`${plural(rows, 'row')} of ${name} were not sent: the server has a limit (c.CassetteLab.max_rows)`);
    if (this.#isDone)
      for (const [name, rows] of this.#unshown)
        parts.push(`${plural(rows, 'row')} of ${name} are not shown: more than the viewer's setting for rows`);
    return parts.length === 0 ? null : parts.join(' · ');
  }

  /** What is wrong with single files of a folder. */
  #problems(): string[] {
    const pages = this.#pages.get('problems');
    if (pages === undefined) return [];
    const table = Table.read(pages.bytes(new Map()));
    const lines = Array.from({ length: Math.min(MOST_PROBLEMS, table.rows) }, (_, row) =>
      sentence({
        code: '',
        message: table.text('message', row) ?? '',
        file: table.text('source', row) ?? '',
        line: (table.value('line', row) as number | null) ?? null,
        field: null,
      }),
    );
    return table.rows > MOST_PROBLEMS ? [...lines, `and ${count(table.rows - MOST_PROBLEMS)} more`] : lines;
  }
}

/** `runs/a.cassette.jsonl, line 31, hash: the hash is not that of the record`. */
export function sentence({ file, line, field, message }: Problem): string {
  const place = [file, line === null ? '' : `line ${count(line)}`, field ?? ''].filter((part) => part !== '').join(', ');
  return place === '' ? message : `${place}: ${message}`;
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
