/**
 * Text from files, made fit to be seen. The twin of `show` in the Python package: characters of the categories Cc, Cf, Zl, Zp
 * and lone surrogates become `\u{xxxx}`, so that nothing can hide or turn around what stands beside it.
 */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

export function show(text: string): string {
  return text.replace(UNSEEN, (character) => `\\u{${character.codePointAt(0)!.toString(16).padStart(4, '0')}}`);
}

/** What an error says, fit to be seen. */
export function reasonOf(error: unknown): string {
  return show(error instanceof Error ? error.message : String(error));
}

/** Texts that fit into so many pixels, cut with `…`; remembered, since every frame asks again. */
export class Fitter {
  readonly #widths = new Map<string, number>();
  readonly #fitted = new Map<string, string>();

  constructor(private readonly measure: (text: string) => number) {}

  width(text: string): number {
    let width = this.#widths.get(text);
    if (width === undefined) {
      if (this.#widths.size > 20_000) this.#widths.clear();
      width = this.measure(text);
      this.#widths.set(text, width);
    }
    return width;
  }

  fit(text: string, pixels: number): string {
    if (pixels <= 0) return '';
    if (this.width(text) <= pixels) return text;
    const key = `${Math.floor(pixels)} ${text}`;
    const known = this.#fitted.get(key);
    if (known !== undefined) return known;
    const characters = Array.from(text.length > 400 ? text.slice(0, 400) : text);
    let low = 0;
    let high = characters.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.measure(`${characters.slice(0, middle).join('').trimEnd()}…`) <= pixels) low = middle;
      else high = middle - 1;
    }
    const fitted = low === 0 ? (this.measure('…') <= pixels ? '…' : '') : `${characters.slice(0, low).join('').trimEnd()}…`;
    if (this.#fitted.size > 20_000) this.#fitted.clear();
    this.#fitted.set(key, fitted);
    return fitted;
  }
}
