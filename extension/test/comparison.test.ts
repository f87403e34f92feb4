import assert from 'node:assert/strict';
import test from 'node:test';
import { ADDED, BOUNDARY, OUTCOME, REMOVED } from '../src/model/align.ts';
import { changeCounts, compare } from '../src/model/comparison.ts';
import { groupOrder, tally } from '../src/model/tally.ts';
import { csvOf, sortRows } from '../src/views/grid.ts';
import { calls, table } from './tables.ts';

const expected = calls([
  ['root/a', 'root', 0, 100],
  ['root/a/b', 'root/a', 10, 50],
  ['root/c', 'root', 20, 70],
  ['root/d', 'root', 30, 70],
]);
const actual = calls([
  ['root/a', 'root', 1_000, 150],
  ['root/a/b', 'root/a', 1_010, 40, { outcome: 'other' }],
  ['root/a/new', 'root/a', 1_020, 5],
  ['root/d', 'root', 1_030, 70, { local: false }],
]);

test('calls are aligned by identity; the rest is added or removed, in its parent’s place', () => {
  const both = compare(expected, actual);
  const label = (node: number): string =>
    (both.expectedRow[node]! >= 0
      ? expected.text('label', both.expectedRow[node]!)
      : actual.text('label', both.actualRow[node]!))!;
  assert.deepEqual(
    Array.from({ length: both.size }, (_, node) => label(node)),
    ['a', 'b', 'new', 'c', 'd'],
  );
  assert.deepEqual([...both.change], [0, OUTCOME, ADDED, REMOVED, BOUNDARY]);
  assert.deepEqual([...both.delta], [50, -10, NaN, NaN, 0]);
  assert.deepEqual([...both.parent], [-1, 0, 0, -1, -1]);
  assert.deepEqual(changeCounts(both.change), { added: 1, removed: 1, outcomes: 1, boundaries: 1 });
  assert.equal(both.total, 150);
});

test('equal recordings have no change', () => {
  assert.ok(compare(expected, expected).change.every((change) => change === 0));
});

test('a tally counts by group and category, and puts the largest first', () => {
  const made = tally(Int32Array.of(0, 1, 1, -1), 2, Uint8Array.of(0, 0, 4, 0), Float64Array.of(5, 6, NaN, 9), () => true);
  assert.equal(made.counts[0], 1);
  assert.equal(made.counts[9 + 4], 1);
  assert.equal(made.times[9], 6);
  assert.deepEqual([...groupOrder(made.counts, 2)], [1, 0]);
});

test('tables sort with the unknown last, and save as values that no spreadsheet runs', () => {
  const rows = table({ label: ['=1+1', 'b,"c"', null], duration_ms: [3, null, 1], started_at: [0, 1, 2] });
  const order = Int32Array.of(0, 1, 2);
  sortRows(order, rows, 'duration_ms', true);
  assert.deepEqual([...order], [0, 2, 1]);
  assert.equal(csvOf(rows, ['label', 'duration_ms'], [0, 1, 2]), 'label,duration_ms\r\n\'=1+1,3\r\n"b,""c""",\r\n,1\r\n');
});
