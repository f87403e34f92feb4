import assert from 'node:assert/strict';
import test from 'node:test';
import { loadOf, profile, ticks, timeTicks } from '../src/model/load.ts';

const all = (): boolean => true;

test('a profile counts what runs at once in each part', () => {
  const load = loadOf(Float64Array.of(0, 2, 4, NaN), Float64Array.of(6, 4, 1, 3), all);
  assert.deepEqual([...profile(load, 0, 8, 8)], [1, 1, 2, 2, 3, 2, 0, 0]);
});

test('what ends as another begins is not at once with it', () => {
  const load = loadOf(Float64Array.of(0, 5), Float64Array.of(5, 5), all);
  assert.deepEqual([...profile(load, 0, 10, 1)], [1]);
});

test('a part of the time knows what began before it', () => {
  const load = loadOf(Float64Array.of(0, 1, 2), Float64Array.of(100, 100, 1), all);
  assert.deepEqual([...profile(load, 50, 60, 2)], [2, 2]);
  assert.deepEqual([...profile(load, 10, 10, 3)], [0, 0, 0]);
});

test('a profile agrees with counting one by one', () => {
  let seed = 7;
  const draw = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const start = Float64Array.from({ length: 300 }, () => draw() * 1000);
  const duration = Float64Array.from({ length: 300 }, () => draw() * 90);
  const most = profile(loadOf(start, duration, all), 0, 1100, 11);
  for (let bin = 0; bin < 11; bin++) {
    const moments = [bin * 100, ...start.filter((at) => at >= bin * 100 && at < (bin + 1) * 100)];
    const counted = Math.max(
      ...moments.map((at) => start.reduce((sum, from, i) => sum + (from <= at && at < from + duration[i]! ? 1 : 0), 0)),
    );
    assert.equal(most[bin], counted);
  }
});

test('ticks are round numbers, of time in its own units', () => {
  assert.deepEqual(ticks(0, 10, 5).values, [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(timeTicks(0, 3_600_000, 6).values, [0, 600_000, 1_200_000, 1_800_000, 2_400_000, 3_000_000, 3_600_000]);
  assert.equal(timeTicks(0, 90_000, 6).step, 15_000);
  assert.deepEqual(ticks(5, 5, 4).values, []);
});
