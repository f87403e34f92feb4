/** Rows by what they are, not by where they stand: so that they are found again in another reading of the same file. */
import { Table } from '../data/table.ts';
import type { RowsByTable } from '../mount.ts';

type Tables = Readonly<Record<string, Uint8Array>>;

const NAMES = ['source', 'call_key', 'session_id', 'turn', 'step', 'attempt', 'call_id', 'record_id'];

/** What the rows are, by table. */
export function namesOf(tables: Tables, rows: RowsByTable): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, ReadonlySet<string>>();
  for (const [name, picked] of Object.entries(rows)) {
    const bytes = tables[name];
    if (bytes === undefined || picked.length === 0) continue;
    const table = Table.read(bytes);
    found.set(name, new Set(picked.filter((row) => row < table.rows).map((row) => nameOfRow(table, row))));
  }
  return found;
}

/** Where those rows stand now. */
export function matching(tables: Tables, names: ReadonlyMap<string, ReadonlySet<string>>): RowsByTable {
  const rows: Record<string, number[]> = {};
  for (const [name, wanted] of names) {
    const table = Table.read(tables[name] ?? new Uint8Array(0));
    const here: number[] = [];
    for (let row = 0; row < table.rows && here.length < wanted.size; row++)
      if (wanted.has(nameOfRow(table, row))) here.push(row);
    if (here.length > 0) rows[name] = here;
  }
  return rows;
}

function nameOfRow(table: Table, row: number): string {
  return JSON.stringify(NAMES.map((name) => table.value(name, row)));
}
