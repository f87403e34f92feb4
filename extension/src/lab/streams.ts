/**
 * Pieces of Arrow IPC streams: told apart by the source of their rows, put together again, cut where rows may not be shown.
 * Only what frames a message is read here; flechette reads what is in it.
 */
import { columnFromValues, tableFromColumns, tableFromIPC, tableToIPC, type Column } from '@uwdata/flechette';

const RECORDS = 3;

interface Piece {
  /** Whose rows these are; null for what stands before rows: the schema, dictionaries. */
  readonly source: string | null;
  readonly bytes: Uint8Array;
}

/** The pages of one table. */
export class Pages {
  readonly #pieces: Piece[] = [];
  readonly #rows = new Map<string, number>();
  rows = 0;

  /** One more page, with rows of `source`. */
  add(bytes: Uint8Array, source: string, rows: number): void {
    for (const [start, end, type] of messages(bytes))
      this.#pieces.push({ source: type === RECORDS ? source : null, bytes: bytes.subarray(start, end) });
    this.#rows.set(source, (this.#rows.get(source) ?? 0) + rows);
    this.rows += rows;
  }

  /** The rows of `source`, or of all. `limits` says how many of a source may be shown, where that is known. */
  bytes(limits: ReadonlyMap<string, number>, source?: string): Uint8Array {
    const sources = source === undefined ? [...this.#rows.keys()] : [source];
    const isWhole = sources.every((each) => (limits.get(each) ?? Infinity) >= (this.#rows.get(each) ?? 0));
    if (isWhole) return this.#joined(source);
    // A row too many is rare, and the end of a recording: then each source is written anew.
    return cut(sources.map((each) => [this.#joined(each), limits.get(each) ?? Infinity]));
  }

  #joined(source?: string): Uint8Array {
    return joined(
      this.#pieces
        .filter((piece) => piece.source === null || source === undefined || piece.source === source)
        .map((piece) => piece.bytes),
    );
  }
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The first rows of each stream, in one. */
function cut(streams: readonly (readonly [Uint8Array, number])[]): Uint8Array {
  const tables = streams.map(([bytes, limit]) => ({ table: tableFromIPC(bytes, { useBigInt: true }), limit }));
  const fields = tables[0]?.table.schema.fields ?? [];
  const columns = fields.map(({ name, type }, place) => {
    const values = tables.flatMap(({ table, limit }) => {
      const column = table.getChildAt<unknown>(place);
      return Array.from({ length: Math.min(limit, table.numRows) }, (_, row) => column.at(row));
    });
    return [name, columnFromValues(values, type)] as [string, Column<unknown>];
  });
  const table = tableFromColumns(columns);
  table.schema.fields.forEach((field, place) => {
    const metadata = fields[place]?.metadata;
    if (metadata !== undefined) field.metadata = metadata;
  });
  return tableToIPC(table, { format: 'stream' }) ?? new Uint8Array(0);
}

/** Start, end and type of each whole message of a stream. */
function* messages(bytes: Uint8Array): Generator<[number, number, number]> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  while (at + 8 <= bytes.length) {
    const length = view.getInt32(at + 4, true);
    if (view.getInt32(at, true) !== -1 || length === 0) return;
    const head = at + 8;
    // A table of a flatbuffer: its place, then where its fields stand from there; 6 is the type of a message, 10 its body's length.
    const table = head + view.getInt32(head, true);
    const fields = table - view.getInt32(table, true);
    const known = view.getUint16(fields, true);
    const place = (field: number): number => (field < known ? view.getUint16(fields + field, true) : 0);
    const type = place(6) === 0 ? 0 : view.getUint8(table + place(6));
    const body = place(10) === 0 ? 0 : Number(view.getBigInt64(table + place(10), true));
    const end = head + length + body;
    if (end > bytes.length) throw new Error('a page of the answer is not whole');
    yield [at, end, type];
    at = end;
  }
}
