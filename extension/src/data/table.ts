/**
 * One table of the lab, read from Arrow IPC bytes: columns become typed arrays when they are first asked for.
 *
 * Unknown is `NaN` in numbers, `-1` in codes, `null` in values. A column that is not there is unknown in every row, so that
 * views also draw tables of which only some columns were sent.
 */
import { tableFromIPC, type Column, type Table as ArrowTable } from '@uwdata/flechette';
import { known } from './batches.ts';
import { Interner } from './interner.ts';

/** Words that repeat: row `r` has the word `words[codes[r]]`, or none where the code is -1. */
export interface Words {
  readonly codes: Int32Array;
  readonly words: readonly string[];
}

export class Table {
  readonly rows: number;
  readonly #arrow: ArrowTable | null;
  readonly names: readonly string[];
  readonly #places: ReadonlyMap<string, number>;
  readonly #numbers = new Map<string, Float64Array>();
  readonly #words = new Map<string, Words>();

  private constructor(arrow: ArrowTable | null) {
    this.#arrow = arrow;
    this.rows = arrow?.numRows ?? 0;
    this.names = arrow?.schema.fields.map((field) => field.name) ?? [];
    this.#places = new Map(this.names.map((name, place) => [name, place]));
  }

  /** The table in these bytes (an IPC stream or file); no bytes are a table without rows. Throws for what is not Arrow. */
  static read(bytes: Uint8Array): Table {
    return new Table(bytes.length === 0 ? null : tableFromIPC(bytes));
  }

  static readonly empty = new Table(null);

  column(name: string): Column<unknown> | null {
    const place = this.#places.get(name);
    return place === undefined ? null : (this.#arrow?.getChildAt<unknown>(place) ?? null);
  }

  /** What the schema says of a column: `doc` and `unit`. */
  about(name: string, what: 'doc' | 'unit'): string {
    // The library's types do not say so, but a field without metadata has null there.
    const metadata = this.#arrow?.schema.fields.find((field) => field.name === name)?.metadata as
      Map<string, string> | null | undefined;
    return metadata?.get(what) ?? '';
  }

  /** Whether values of the column are numbers (times are, too). */
  isNumeric(name: string): boolean {
    const column = this.column(name);
    if (column === null || column.length === 0) return false;
    return (
      column.data.every((batch) => ArrayBuffer.isView(batch.values) && !('dictionary' in batch)) &&
      typeof first(column) === 'number'
    );
  }

  /** A numeric or boolean column; times are milliseconds since 1970. */
  numbers(name: string): Float64Array {
    const read = this.#numbers.get(name);
    if (read !== undefined) return read;
    const made = new Float64Array(this.rows).fill(NaN);
    let at = 0;
    for (const batch of this.column(name)?.data ?? []) {
      const { values, nullCount, length } = batch;
      if (values instanceof Float64Array && nullCount === 0) {
        made.set(values.subarray(0, length), at);
      } else if (values instanceof BigInt64Array && nullCount === 0) {
        // Whole numbers as two halves: a quarter of the time that BigInt takes.
        const halves = new Int32Array(values.buffer, values.byteOffset, 2 * length);
        for (let i = 0; i < length; i++) made[at + i] = halves[2 * i + 1]! * 0x1_0000_0000 + (halves[2 * i]! >>> 0);
      } else {
        for (let i = 0; i < length; i++) {
          if (known(batch, i)) made[at + i] = Number(batch.value(i));
        }
      }
      at += length;
    }
    this.#numbers.set(name, made);
    return made;
  }

  /** A text column as codes; each different word is decoded once. */
  words(name: string): Words {
    const read = this.#words.get(name);
    if (read !== undefined) return read;
    const column = this.column(name);
    const made =
      column?.data.some((batch) => 'dictionary' in batch) === true ? dictionaryWords(column, this.rows) : this.#texts(column);
    this.#words.set(name, made);
    return made;
  }

  #texts(column: Column<unknown> | null): Words {
    const interner = new Interner();
    const codes = interner.ids(column, this.rows);
    return { codes, words: Array.from({ length: interner.size }, (_, id) => interner.text(id)) };
  }

  /** One value as it is: text, number, boolean, list; null for unknown. */
  value(name: string, row: number): unknown {
    const column = this.column(name);
    if (column === null) return null;
    const { offsets, data } = column;
    let place = 0;
    while (place + 1 < data.length && offsets[place + 1]! <= row) place++;
    const batch = data[place];
    const inside = row - (offsets[place] ?? 0);
    if (batch === undefined || !known(batch, inside)) return null;
    // A whole number too large for a double is shown all the same, rounded.
    return batch.values instanceof BigInt64Array ? Number(batch.values[inside]) : batch.value(inside);
  }

  /** One value that is text; null for anything else. */
  text(name: string, row: number): string | null {
    const value = this.value(name, row);
    return typeof value === 'string' ? value : null;
  }
}

function first(column: Column<unknown>): unknown {
  for (const batch of column.data) {
    if (batch.length > 0) return batch.value(0);
  }
  return undefined;
}

/** Codes of a dictionary-encoded column; its batches may have dictionaries of their own. */
function dictionaryWords(column: Column<unknown>, rows: number): Words {
  const codes = new Int32Array(rows).fill(-1);
  const words: string[] = [];
  const places = new Map<string, number>();
  let at = 0;
  for (const batch of column.data) {
    const { dictionary } = batch as { dictionary?: Column<unknown> };
    const entries = Array.from({ length: dictionary?.length ?? 0 }, (_, i) => {
      const word = dictionary?.at(i);
      if (typeof word !== 'string') return -1;
      if (!places.has(word)) places.set(word, words.push(word) - 1);
      return places.get(word) ?? -1;
    });
    for (let i = 0; i < batch.length; i++) {
      if (known(batch, i)) codes[at + i] = entries[batch.values[i] as number] ?? -1;
    }
    at += batch.length;
  }
  return { codes, words };
}
