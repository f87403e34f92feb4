/**
 * One table of the lab, read from Arrow IPC bytes: columns become typed arrays when they are first asked for.
 *
 * Unknown is `NaN` in numbers, `-1` in codes, `null` in values. A column that is not there is unknown in every row, so that
 * views also draw tables of which only some columns were sent.
 */
import { tableFromIPC, type Batch as ArrowBatch, type Column, type Table as ArrowTable } from '@uwdata/flechette';

type Batch = ArrowBatch<unknown>;

/** Words that repeat: row `r` has the word `words[codes[r]]`, or none where the code is -1. */
export interface Words {
  readonly codes: Int32Array;
  readonly words: readonly string[];
}

export class Table {
  readonly rows: number;
  readonly #arrow: ArrowTable | null;
  readonly #numbers = new Map<string, Float64Array>();
  readonly #words = new Map<string, Words>();

  private constructor(arrow: ArrowTable | null) {
    this.#arrow = arrow;
    this.rows = arrow?.numRows ?? 0;
  }

  /** The table in these bytes (an IPC stream or file); no bytes are a table without rows. Throws for what is not Arrow. */
  static read(bytes: Uint8Array): Table {
    return new Table(bytes.length === 0 ? null : tableFromIPC(bytes));
  }

  static readonly empty = new Table(null);

  get names(): string[] {
    return this.#arrow?.schema.fields.map((field) => field.name) ?? [];
  }

  column(name: string): Column<unknown> | null {
    const place = this.names.indexOf(name);
    return place < 0 ? null : (this.#arrow?.getChildAt<unknown>(place) ?? null);
  }

  /** What the schema says of a column: `doc` and `unit`. */
  about(name: string, what: 'doc' | 'unit'): string {
    // The library's types do not say so, but a field without metadata has null there.
    const metadata = this.#arrow?.schema.fields.find((field) => field.name === name)?.metadata as Map<string, string> | null | undefined;
    return metadata?.get(what) ?? '';
  }

  /** Whether values of the column are numbers (times are, too). */
  isNumeric(name: string): boolean {
    const column = this.column(name);
    if (column === null || column.length === 0) return false;
    return column.data.every((batch) => ArrayBuffer.isView(batch.values) && !('dictionary' in batch)) && typeof first(column) === 'number';
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

  /** A text column as codes; dictionary-encoded ones are not decoded row by row. */
  words(name: string): Words {
    const read = this.#words.get(name);
    if (read !== undefined) return read;
    const codes = new Int32Array(this.rows).fill(-1);
    const words: string[] = [];
    const places = new Map<string, number>();
    const place = (word: string): number => {
      let code = places.get(word);
      if (code === undefined) {
        code = words.push(word) - 1;
        places.set(word, code);
      }
      return code;
    };
    let at = 0;
    for (const batch of this.column(name)?.data ?? []) {
      const entries = dictionary(batch)?.map((word) => (typeof word === 'string' ? place(word) : -1));
      for (let i = 0; i < batch.length; i++) {
        if (!known(batch, i)) continue;
        codes[at + i] = entries === undefined ? place(String(batch.value(i))) : (entries[batch.values[i] as number] ?? -1);
      }
      at += batch.length;
    }
    const made = { codes, words };
    this.#words.set(name, made);
    return made;
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

/** Whether there is a value; a batch without nulls has no bitmap to ask. */
export function known(batch: Batch, i: number): boolean {
  if (batch.nullCount === 0) return true;
  // A column of nothing but nulls has none either, whatever the library's types say.
  return (batch.validity as Uint8Array | undefined) !== undefined && batch.isValid(i);
}

function first(column: Column<unknown>): unknown {
  for (const batch of column.data) {
    if (batch.length > 0) return batch.value(0);
  }
  return undefined;
}

function dictionary(batch: object): unknown[] | undefined {
  const column = (batch as { dictionary?: Column<unknown> }).dictionary;
  return column === undefined ? undefined : Array.from({ length: column.length }, (_, i) => column.at(i));
}
