import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Table } from '../src/data/table.ts';
import { matching, namesOf } from '../src/lab/keeping.ts';
import { isCassette, isOurs } from '../src/lab/kinds.ts';
import { hindrance, MOST_BYTES, readText } from '../src/lab/local.ts';
import { fromFolder, literal, pythonCells } from '../src/lab/python.ts';

interface Expected {
  readonly text: string;
  readonly table: string;
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

// What Python reads in the same files; a test there holds the fixture to that.
const FILES = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'test', 'local-tables.json'), 'utf8')) as Record<
  string,
  Expected
>;

for (const [name, { text, table, rows }] of Object.entries(FILES))
  test(`${name} is read as in Python, and marked as not verified`, () => {
    const shown = readText(name, text);
    assert.deepEqual(Object.keys(shown.tables), [table]);
    const read = Table.read(shown.tables[table]!);
    const columns = Object.keys(rows[0]!);
    const found = rows.map((_, row) => Object.fromEntries(columns.map((column) => [column, read.value(column, row) ?? null])));
    assert.deepEqual(found, rows);
    assert.equal(read.rows, rows.length);
    assert.deepEqual(shown.trust, { state: 'unverified', words: 'not verified here' });
    assert.match(shown.problem ?? '', /jupyter server extension enable cassette_lab\.server\.jupyter/);
  });

test('a damaged file names the line, and shows what stands before it', () => {
  const { text } = FILES['mixed.cassette.jsonl']!;
  const lines = text.split('\n');
  const torn = readText('runs/x.cassette.jsonl', [...lines.slice(0, 4), '{"kind": "cassette/inter'].join('\n'));
  assert.match(torn.problem ?? '', /runs\/x\.cassette\.jsonl, line 5: this is no recorded call/);
  assert.equal(Table.read(torn.tables['calls']!).rows, 3);
  for (const [bad, reason] of [
    ['', /the file is empty/],
    ['[]\n', /line 1: this is no header/],
    [lines[1]!, /line 1: this is no header/],
  ] as const) {
    const shown = readText('x.cassette.jsonl', bad);
    assert.equal(shown.trust.state, 'broken');
    assert.match(shown.problem ?? '', reason);
  }
  assert.equal(readText('x.flight.json', '{"records": 1}').trust.state, 'broken');
});

test('what the browser does not read is said', () => {
  assert.match(hindrance('session.jsonl', 10) ?? '', /read by the server half/);
  assert.match(hindrance('a.cassette.jsonl', MOST_BYTES + 1) ?? '', /more than 20,971,520 bytes/);
  assert.equal(hindrance('a.flight.json', MOST_BYTES), null);
});

test('names tell which files are ours', () => {
  const ours = ['a.cassette.jsonl', 'session.jsonl', 'session.v4.jsonl', 'session-1.jsonl.zstd', 'x.flight.json'];
  assert.deepEqual(ours.filter(isOurs), ours);
  assert.deepEqual(['a.jsonl', 'my-session.jsonl', 'flight.json', 'session.json'].filter(isOurs), []);
  assert.equal(isCassette('session.cassette.jsonl'), true);
});

test('rows are found again by what they are', () => {
  const lines = FILES['mixed.cassette.jsonl']!.text.split('\n');
  const before = readText('a.cassette.jsonl', lines.join('\n')).tables;
  const after = readText('a.cassette.jsonl', [lines[0]!, ...lines.slice(3)].join('\n')).tables;
  assert.deepEqual(matching(after, namesOf(before, { calls: [1, 4] })), { calls: [2] });
});

test('the Python of a view', () => {
  const scene = { compare: false, view: 'timeline', selection: {}, bodies: false, isWhole: true } as const;
  assert.deepEqual(pythonCells({ ...scene, paths: ['a "b".jsonl'], selection: { calls: [3, 5] } }), [
    'import cassette_lab as cl\n\nlab = cl.load("a \\"b\\".jsonl")\nlab',
    'cl.timeline(lab)',
    'lab.calls.take([3, 5])',
  ]);
  const partial = pythonCells({ ...scene, paths: ['..'], view: 'table', bodies: true, isWhole: false });
  assert.deepEqual(partial, [
    'import cassette_lab as cl\n\nlab = cl.load("..", bodies=True, on_error="collect")\nlab.problems',
    'lab.to_pandas()',
  ]);
  const [first, second, third] = pythonCells({
    ...scene,
    paths: ['x', '../y'],
    compare: true,
    selection: { actual: [7], expected: [] },
  });
  assert.match(first!, /expected = "x"\nactual = "\.\.\/y"\ncl\.diff\(expected, actual\)/);
  assert.equal(second, 'cl.side_by_side(expected, actual)');
  assert.equal(third, 'cl.load(actual).calls.take([7])');
});

test('texts are Python literals, and paths start from the notebook', () => {
  assert.equal(literal('a\\b\n\u202e"\u{e0001}\ud800'), '"a\\\\b\\u000a\\u202e\\"\\U000e0001\\ud800"');
  assert.equal(fromFolder('runs/a', 'runs'), 'a');
  assert.equal(fromFolder('runs/a', 'runs/x/y'), '../../a');
  assert.equal(fromFolder('runs', 'runs'), '.');
  assert.equal(fromFolder('other/b', ''), 'other/b');
});
