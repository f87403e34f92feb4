import assert from 'node:assert/strict';
import test from 'node:test';
import { Interner } from '../src/data/interner.ts';
import { barMarks, pixelOf, timeOf } from '../src/draw/marks.ts';
import { CATEGORIES } from '../src/model/categories.ts';
import { buildForest, type Forest } from '../src/model/forest.ts';
import { KINDS, REDACTED } from '../src/model/kinds.ts';
import { labelOf, outcomeOf, sentenceOf } from '../src/model/names.ts';
import { asPython, State } from '../src/views/state.ts';
import { calls, table } from './tables.ts';

const run = calls([
  ['root/a', 'root', 1_000, 900, { start_latency_ms: 100, redactions: 2 }],
  ['root/a/b', 'root/a', 1_100, 200, { outcome_kind: 'result-error', stop_reason: null, error_code: '429' }],
  ['root/c', 'root', 1_500, 300, { stop_reason: 'max-tokens' }],
]);

const names = (forest: Forest): string[] => Array.from({ length: forest.size }, (_, node) => labelOf(forest, node));
const categories = (forest: Forest): string[] => Array.from(forest.category, (number) => CATEGORIES[number]!.name);

test('calls stand under the calls that made them, on the clock of their file', () => {
  const forest = buildForest({ calls: run });
  assert.deepEqual(names(forest), ['a', 'b', 'c']);
  assert.deepEqual([...forest.parent], [-1, 0, -1]);
  assert.deepEqual([...forest.start], [0, 100, 500]);
  assert.deepEqual([...forest.row], [0, 1, 2]);
  assert.equal(forest.total, 900);
  assert.deepEqual(categories(forest), ['completed', 'result-error', 'max-tokens']);
  assert.equal(forest.flags[0], REDACTED);
  assert.equal(outcomeOf(forest, 1), '429');
  assert.match(sentenceOf(forest, 0), /^a, call, completed, 900 ms, at 0 ms, start latency 100 ms, 1 below, redacted$/);
});

test('several files stand under a node each, with clocks of their own', () => {
  const two = calls([
    ['root/a', 'root', 5_000, 10, { source: 'one' }],
    ['root/a', 'root', 9_000, 30, { source: 'two' }],
    ['root/a/b', 'root/a', 9_005, 5, { source: 'two' }],
  ]);
  const forest = buildForest({ calls: two });
  assert.deepEqual(names(forest), ['one', 'a', 'two', 'a', 'b']);
  assert.deepEqual([...forest.start], [0, 0, 0, 0, 5]);
  assert.deepEqual([...forest.parent], [-1, 0, -1, 2, 3]);
  assert.deepEqual([forest.duration[0], forest.duration[2]], [10, 30]);
});

test('sessions hold turns, steps, model calls and tools; a subagent stands in the step that it began in', () => {
  const where = { source: ['x', 'x'], session_id: ['s', 's'], turn: [1, 1], step: [1, 1] };
  const forest = buildForest({
    sessions: table({
      source: ['x', 'y'],
      session_id: ['s', 'child'],
      parent_session: [null, 's'],
      started_at: [1_000, 1_250],
      duration_ms: [800, 100],
      end_kind: ['completed', 'aborted'],
      open: [false, false],
    }),
    turns: table({
      source: ['x'],
      session_id: ['s'],
      turn: [1],
      started_at: [1_000],
      duration_ms: [700],
      end_kind: ['completed'],
      inherited: [false],
    }),
    steps: table({
      source: ['x'],
      session_id: ['s'],
      turn: [1],
      step: [1],
      started_at: [1_000],
      duration_ms: [600],
      inherited: [false],
    }),
    model_calls: table({
      ...where,
      attempt: [1, 2],
      model: ['m', 'm'],
      started_at: [1_000, 1_080],
      duration_ms: [30, 60],
      first_chunk_ms: [null, 20],
      finish_kind: ['error', 'stop'],
      error_code: ['SERVER', null],
      interrupted: [false, false],
      inherited: [false, false],
    }),
    tool_calls: table({
      ...where,
      call_id: ['t', 'u'],
      parent_call_id: [null, 't'],
      name: ['run', 'read'],
      started_at: [1_200, 1_210],
      duration_ms: [50, null],
      is_error: [true, null],
      error_code: ['ABORTED', null],
      inherited: [false, false],
    }),
  });
  const shape = Array.from(
    { length: forest.size },
    (_, node) => `${'·'.repeat(forest.depth[node]!)}${KINDS[forest.kind[node]!]!} ${labelOf(forest, node)}`,
  );
  assert.deepEqual(shape, [
    'session s',
    '·turn turn 1',
    '··step step 1',
    '···model call m',
    '···model call m ~2',
    '···tool call run',
    '····tool call read',
    '···session child',
  ]);
  assert.deepEqual(categories(forest), ['completed', 'completed', 'none', 'error', 'completed', 'aborted', 'open', 'aborted']);
  assert.equal(forest.retryFrom[4], 30, 'the second attempt waited from the end of the first');
  assert.equal(forest.start[4], 80);
  assert.equal(forest.firstChunk[4], 20);
  assert.equal(forest.start[7], 250);
});

test('a subagent stands under the tool call that started it, where a log says which', () => {
  const forest = buildForest({
    sessions: table({
      source: ['x', 'y'],
      session_id: ['s', 'child'],
      parent_session: [null, 's'],
      started_at: [0, 30],
      duration_ms: [90, 10],
      end_kind: ['completed', 'completed'],
      open: [false, false],
    }),
    tool_calls: table({
      source: ['x', 'x'],
      session_id: ['s', 's'],
      call_id: ['t', 'u'],
      name: ['subagent', 'subagent'],
      started_at: [10, 20],
      duration_ms: [70, 60],
      is_error: [false, false],
      inherited: [false, false],
      child_session_id: [null, 'child'],
    }),
    compactions: table({
      source: ['x'],
      session_id: ['s'],
      started_at: [80],
      duration_ms: [5],
      failed: [true],
      inherited: [false],
      model: ['m'],
    }),
  });
  assert.deepEqual(names(forest), ['s', 'subagent', 'subagent', 'child', 'compaction']);
  assert.equal(forest.parent[3], 2);
  assert.deepEqual(categories(forest).slice(3), ['completed', 'error']);
});

test('tables with few columns, or none, are drawn all the same', () => {
  const forest = buildForest({ calls: table({ call_key: ['root/a'], duration_ms: [5] }) });
  assert.equal(labelOf(forest, 0), '(no label)');
  assert.deepEqual([forest.start[0], forest.span[0]], [0, 5]);
  assert.equal(buildForest({}).size, 0);
});

test('bars say where their parts are', () => {
  const forest = buildForest({ calls: run });
  const scale = { from: 0, to: 1_000, left: 100, right: 1_100 };
  assert.equal(timeOf(scale, pixelOf(scale, 321)), 321);
  const marks = barMarks(forest, 0, scale, 5, 12);
  assert.deepEqual(
    marks.map(({ part, x, width }) => [part, x, width]),
    [
      ['latency', 100, 100],
      ['bar', 200, 800],
    ],
  );
  assert.deepEqual(barMarks(forest, 1, { ...scale, from: 500 }, 5, 12), [], 'nothing of it is in sight');
});

test('a selection names rows of tables, with what is under them, and Python can take them', () => {
  const state = new State(buildForest({ calls: run }));
  state.choose([0]);
  assert.deepEqual(state.selection, { picked: { calls: [0] }, rows: { calls: [0, 1] }, range: null });
  state.choose([], [450, 600]);
  assert.deepEqual(state.selection.rows, { calls: [0, 2] });
  assert.deepEqual(state.nodesOf({ calls: [2] }), [2]);
  assert.equal(asPython({ calls: [0, 2] }), 'lab.calls.take([0, 2])');
  assert.equal(asPython({ calls: [4, 5, 6, 7], turns: [1] }, 'mine'), 'mine.calls.slice(4, 4)\nmine.turns.take([1])');
});

test('rows of a part of a table are called by their places in the whole one', () => {
  const part = table({ call_key: ['root/a', 'root/b'], parent_key: ['root', 'root'], started_at: [0, 1], row: [7, 41] });
  const state = new State(buildForest({ calls: part }));
  state.choose([1]);
  assert.deepEqual(state.selection.picked, { calls: [41] });
  assert.deepEqual(state.nodesOf({ calls: [7, 1] }), [0]);
});

test('a search keeps what it finds and what stands above it', () => {
  const state = new State(buildForest({ calls: run }));
  state.fold(0, true);
  assert.deepEqual([...state.visible], [0, 2]);
  state.setFilter({ ...state.filter, text: '429' });
  assert.deepEqual([...state.visible], [0, 1], 'found by its error, and unfolded');
  assert.equal(state.matches, 1);
});

test('keys of any length and number are told apart, and equal ones found', () => {
  const keys = Array.from({ length: 5_000 }, (_, i) => 'x'.repeat(i % 37) + String(i % 2_500));
  const interner = new Interner();
  const ids = interner.ids(table({ key: keys }).column('key'), keys.length);
  assert.equal(interner.size, new Set(keys).size);
  assert.deepEqual(
    Array.from(ids, (id) => interner.text(id)),
    keys,
  );
  assert.equal(interner.id(keys[4_321]!), ids[4_321]);
});

test('a chain of twenty thousand calls, all of them picked, is selected at once', () => {
  const size = 20_000;
  const key = (i: number): string => (i < 0 ? 'root' : `k${i}`);
  const rows = Array.from({ length: size }, (_, i) => [key(i), key(i - 1), i, 1] as const);
  const state = new State(buildForest({ calls: calls(rows) }));
  assert.equal(state.forest.depth[size - 1], size - 1);
  const start = performance.now();
  state.choose(state.nodesOf({ calls: Array.from({ length: size }, (_, i) => i) }));
  assert.ok(performance.now() - start < 2_000);
  assert.equal(state.selection.rows['calls']?.length, size);
});
