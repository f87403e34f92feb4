/** Tables for tests, encoded and read again as a front end would. */
import { tableFromArrays, tableToIPC } from '@uwdata/flechette';
import { Table } from '../src/data/table.ts';

export function table(columns: Record<string, unknown[]>): Table {
  return Table.read(tableToIPC(tableFromArrays(columns), {})!);
}

/** Calls: each is `[key, parent key, start, duration, more]`. */
export function calls(rows: readonly (readonly [string, string, number, number, Record<string, unknown>?])[]): Table {
  const column = (name: string, fallback: unknown): unknown[] =>
    rows.map((row) => (name in (row[4] ?? {}) ? row[4]![name] : fallback));
  return table({
    sequence: rows.map((_, i) => i + 1),
    call_key: rows.map(([key]) => key),
    parent_key: rows.map(([, parent]) => parent),
    label: rows.map(([key]) => key.split('/').at(-1)!),
    started_at: rows.map(([, , start]) => start),
    duration_ms: rows.map(([, , , duration]) => duration),
    outcome_kind: column('outcome_kind', 'result'),
    stop_reason: column('stop_reason', 'completed'),
    start_latency_ms: column('start_latency_ms', null),
    error_code: column('error_code', null),
    redactions: column('redactions', 0),
    source: column('source', 'run'),
    parent_context_fingerprint: column('context', 'c'),
    request_fingerprint: rows.map(([key]) => key),
    occurrence: column('occurrence', 1),
    outcome_fingerprint: column('outcome', 'o'),
    published: column('published', true),
    local: column('local', true),
  });
}
