/** Two recordings as one tree of calls, with what changed in each. */
import { Interner } from '../data/interner.ts';
import type { Table } from '../data/table.ts';
import { ADDED, align, BOUNDARY, merge, OUTCOME, REMOVED, type Identity } from './align.ts';
import { callCategory } from './categories.ts';
import { treeOrder, type Tree } from './order.ts';
import { parentRows } from './read.ts';

/** One recording: times by row, from its first call. */
export interface Side {
  readonly table: Table;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly latency: Float64Array;
  readonly category: Uint8Array;
}

export interface Comparison extends Tree {
  readonly size: number;
  readonly expected: Side;
  readonly actual: Side;
  /** Rows by node, -1 where that side has not the call. */
  readonly expectedRow: Int32Array;
  readonly actualRow: Int32Array;
  /** `OUTCOME`, `BOUNDARY`, `ADDED`, `REMOVED`, added up; 0 where nothing changed. */
  readonly change: Uint8Array;
  /** Actual minus expected duration; NaN where only one side has the call. */
  readonly delta: Float64Array;
  readonly total: number;
}

export function compare(expectedTable: Table, actualTable: Table): Comparison {
  const [expected, actual] = [side(expectedTable), side(actualTable)];
  const interner = new Interner();
  const alignment = align(identity(interner, expectedTable), identity(interner, actualTable));
  const merged = merge(
    alignment,
    parentRows(expectedTable, new Uint8Array(expectedTable.rows)),
    parentRows(actualTable, new Uint8Array(actualTable.rows)),
  );
  const tree = treeOrder(merged.parent, ranks(merged.expected, merged.actual, expectedTable, actualTable));
  const expectedRow = tree.order.map((place) => merged.expected[place]!);
  const actualRow = tree.order.map((place) => merged.actual[place]!);
  const outcomes = ids(interner, 'outcome_fingerprint', expectedTable, actualTable);
  const boundaries = ['published', 'local'].map((name) => [expectedTable.numbers(name), actualTable.numbers(name)] as const);
  const change = Uint8Array.from(tree.order, (_, node) => {
    const [old, now] = [expectedRow[node]!, actualRow[node]!];
    if (old < 0) return ADDED;
    if (now < 0) return REMOVED;
    const outcome = expected.category[old] !== actual.category[now] || outcomes[0][old] !== outcomes[1][now];
    const boundary = boundaries.some(([before, after]) => !Object.is(before[old], after[now]));
    return (outcome ? OUTCOME : 0) + (boundary ? BOUNDARY : 0);
  });
  const delta = Float64Array.from(tree.order, (_, node) =>
    expectedRow[node]! < 0 || actualRow[node]! < 0
      ? NaN
      : actual.duration[actualRow[node]!]! - expected.duration[expectedRow[node]!]!,
  );
  return {
    ...tree,
    size: tree.order.length,
    expected,
    actual,
    expectedRow,
    actualRow,
    change,
    delta,
    total: Math.max(end(expected), end(actual), 1),
  };
}

function identity(interner: Interner, table: Table): Identity {
  return {
    parent: interner.ids(table.column('parent_key'), table.rows),
    context: interner.ids(table.column('parent_context_fingerprint'), table.rows),
    request: interner.ids(table.column('request_fingerprint'), table.rows),
    occurrence: table.numbers('occurrence'),
  };
}

function ids(interner: Interner, name: string, expected: Table, actual: Table): [Int32Array, Int32Array] {
  return [interner.ids(expected.column(name), expected.rows), interner.ids(actual.column(name), actual.rows)];
}

function side(table: Table): Side {
  const moments = table.numbers('started_at');
  const zero = moments.reduce((least, moment) => (moment < least ? moment : least), Infinity);
  const [kinds, reasons] = [table.words('outcome_kind'), table.words('stop_reason')];
  return {
    table,
    start: moments.map((moment) => (Number.isNaN(moment) ? 0 : moment - zero)),
    duration: table.numbers('duration_ms'),
    latency: table.numbers('start_latency_ms'),
    category: Uint8Array.from(moments, (_, row) =>
      callCategory(kinds.words[kinds.codes[row]!] ?? null, reasons.words[reasons.codes[row]!] ?? null),
    ),
  };
}

/** Calls stand as the expected recording admitted them; an added one after the call that was admitted before it. */
function ranks(expectedRow: Int32Array, actualRow: Int32Array, expected: Table, actual: Table): Float64Array {
  const [before, after] = [expected.numbers('sequence'), actual.numbers('sequence')];
  const rank = Float64Array.from(expectedRow, (row) => (row < 0 ? NaN : before[row]!));
  const byAdmission = Int32Array.from(expectedRow.keys()).filter((place) => actualRow[place]! >= 0);
  byAdmission.sort((a, b) => after[actualRow[a]!]! - after[actualRow[b]!]! || a - b);
  let last = 0;
  for (const place of byAdmission) {
    if (Number.isNaN(rank[place]!)) rank[place] = last + 0.5;
    else last = rank[place]!;
  }
  return rank;
}

function end(one: Side): number {
  return one.start.reduce(
    (latest, start, row) => Math.max(latest, start + (one.duration[row]! > 0 ? one.duration[row]! : 0)),
    0,
  );
}

/** How many calls changed in each way. */
export function changeCounts(change: Uint8Array): { added: number; removed: number; outcomes: number; boundaries: number } {
  const of = (bit: number): number => change.reduce((sum, each) => sum + ((each & bit) === 0 ? 0 : 1), 0);
  return { added: of(ADDED), removed: of(REMOVED), outcomes: of(OUTCOME), boundaries: of(BOUNDARY) };
}
