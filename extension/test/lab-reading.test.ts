import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableFromArrays, tableToIPC } from '@uwdata/flechette';
import { Table } from '../src/data/table.ts';
import { FrameReader, type Event } from '../src/lab/frames.ts';
import { Reading, type Wish } from '../src/lab/reading.ts';

const FILE: Wish = { paths: ['a'], compare: false };
const PAIR: Wish = { paths: ['a', 'b'], compare: true };
const UNKNOWN = { kind: 'cassette', rows: null, line: null, changed: false, problem: null } as const;
const NOTHING = new Uint8Array(0);

function frame(event: object, data: Uint8Array = NOTHING): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(event));
  const bytes = new Uint8Array(8 + text.length + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, text.length, true);
  view.setUint32(4, data.length, true);
  bytes.set(text, 8);
  bytes.set(data, 8 + text.length);
  return bytes;
}

/** A stream of its own without its end: what the first page of a table is. */
function page(keys: readonly string[]): Uint8Array {
  const stream = tableToIPC(tableFromArrays({ call_key: [...keys], sequence: keys.map((_, row) => row) }), {
    format: 'stream',
  })!;
  return stream.subarray(0, stream.length - 8);
}

/** What a further page is: rows alone. */
function nextPage(keys: readonly string[]): Uint8Array {
  const whole = page(keys);
  const head = 8 + new DataView(whole.buffer, whole.byteOffset).getInt32(4, true);
  return whole.subarray(head);
}

function state(source: string, word: string, more: object = {}): Event {
  return { event: 'state', source, state: word, words: word, ...UNKNOWN, ...more } as Event;
}

function told(reading: Reading, source: string, pages: readonly Uint8Array[], rows: number): void {
  reading.take(state(source, 'verifying', { rows: 0 }), NOTHING);
  for (const each of pages) reading.take({ event: 'page', table: 'calls', rows, total_rows: rows }, each);
}

function keys(bytes: Uint8Array | undefined): (string | null)[] {
  const table = Table.read(bytes ?? NOTHING);
  return Array.from({ length: table.rows }, (_, row) => table.text('call_key', row));
}

test('frames come whole out of whatever pieces arrive', () => {
  const whole = [
    frame({ event: 'begin', bodies: false }),
    frame({ event: 'page' }, new Uint8Array([1, 2, 3])),
    frame({ event: 'end' }),
  ];
  const bytes = new Uint8Array(whole.flatMap((each) => [...each]));
  for (const size of [1, 7, 19, bytes.length]) {
    const found: [string, number[]][] = [];
    const reader = new FrameReader(({ event }, data) => found.push([event, [...data]]));
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    assert.deepEqual(found, [
      ['begin', []],
      ['page', [1, 2, 3]],
      ['end', []],
    ]);
    assert.equal(reader.isTorn, false);
  }
});

test('a torn frame is not told, and what is no JSON throws', () => {
  const reader = new FrameReader(() => assert.fail('nothing is whole'));
  reader.push(frame({ event: 'end' }).subarray(0, 12));
  assert.equal(reader.isTorn, true);
  const other = frame({});
  other[8] = 0x78;
  assert.throws(() => {
    new FrameReader(() => undefined).push(other);
  });
});

test('rows are shown while they are verified, and said to be', () => {
  const reading = new Reading(FILE, 1_000);
  told(reading, 'a', [page(['x', 'y'])], 2);
  reading.take({ event: 'progress', done: 5, total: 10, words: 'verified up to line 3' }, NOTHING);
  const shown = reading.shown();
  assert.deepEqual(shown.trust, { state: 'verifying', words: 'verifying: verified up to line 3' });
  assert.equal(shown.progress, 0.5);
  assert.deepEqual(keys(shown.tables['calls']), ['x', 'y']);
  told(reading, 'a', [nextPage(['z'])], 1);
  reading.take(state('a', 'verified', { words: 'chain verified', rows: 3 }), NOTHING);
  reading.take({ event: 'end', left_out: {}, complete: true }, NOTHING);
  assert.deepEqual(keys(reading.shown().tables['calls']), ['x', 'y', 'z']);
  assert.deepEqual(reading.shown().trust, { state: 'verified', words: 'chain verified' });
  assert.equal(reading.shown().progress, null);
});

test('rows that turn out not to be verified go', () => {
  const reading = new Reading(FILE, 1_000);
  told(reading, 'a', [page(['x', 'y']), nextPage(['z', 'x'])], 2);
  const problem = { code: 'DUPLICATE', message: 'the call is there twice', file: 'a', line: 5, field: 'callKey' };
  reading.take(state('a', 'partial', { words: 'verified up to line 4', rows: 3, line: 4, problem }), NOTHING);
  reading.take({ event: 'end', left_out: {}, complete: true }, NOTHING);
  const { tables, problem: said, trust } = reading.shown();
  assert.deepEqual(keys(tables['calls']), ['x', 'y', 'z']);
  assert.deepEqual([...Table.read(tables['calls']!).numbers('sequence')], [0, 1, 0]);
  assert.equal(said, 'a, line 5, callKey: the call is there twice');
  assert.equal(trust.state, 'partial');
});

test('two recordings are told apart when both are there', () => {
  const reading = new Reading(PAIR, 1_000);
  told(reading, 'a', [page(['x', 'y'])], 2);
  reading.take(state('a', 'verified', { words: 'chain verified', rows: 2 }), NOTHING);
  assert.deepEqual(reading.shown().tables, {});
  assert.equal(reading.shown().trust.state, 'verifying');
  told(reading, 'b', [nextPage(['y', 'z', 'z'])], 3);
  reading.take(state('b', 'partial', { words: 'verified up to line 3', rows: 2 }), NOTHING);
  reading.take({ event: 'end', left_out: {}, complete: true }, NOTHING);
  const shown = reading.shown();
  assert.equal(shown.isDiff, true);
  assert.deepEqual(keys(shown.tables['expected']), ['x', 'y']);
  assert.deepEqual(keys(shown.tables['actual']), ['y', 'z']);
  assert.equal(shown.diff.comparable, false);
  assert.deepEqual(shown.trust, { state: 'partial', words: 'a: chain verified · b: verified up to line 3' });
});

test('logs are not compared call by call, and that is said', () => {
  const reading = new Reading(PAIR, 1_000);
  reading.take(state('', 'verified', { kind: 'session', words: '2 files read' }), NOTHING);
  reading.take({ event: 'end', left_out: {}, complete: true }, NOTHING);
  assert.equal(reading.shown().isDiff, false);
  assert.match(reading.shown().problem ?? '', /only cassettes are compared call by call/);
});

test('an answer that ends too early, and limits, are said', () => {
  const cutOff = new Reading(FILE, 1_000);
  told(cutOff, 'a', [page(['x'])], 1);
  cutOff.close(null);
  assert.deepEqual(cutOff.shown().trust, { state: 'broken', words: 'not read to its end' });
  assert.match(cutOff.shown().problem ?? '', /cut off/);
  const limited = new Reading(FILE, 2);
  told(limited, 'a', [page(['x', 'y']), nextPage(['z', 'x'])], 2);
  limited.take(state('a', 'verified', { words: 'chain verified', rows: 4 }), NOTHING);
  limited.take({ event: 'end', left_out: { calls: 7 }, complete: true }, NOTHING);
  assert.deepEqual(keys(limited.shown().tables['calls']), ['x', 'y']);
  assert.match(limited.shown().problem ?? '', /7 rows of calls were not sent.*2 rows of calls are not shown/);
});
