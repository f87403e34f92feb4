import assert from 'node:assert/strict';
import test from 'node:test';
import { timeTicks } from '../src/model/load.ts';
import { Fitter, show } from '../src/text.ts';
import { axisText, count, deltaPercent, deltaText, durationText, numberText, percentText, plural } from '../src/words.ts';

test('durations read as they do in Python', () => {
  const told = [NaN, 0, 0.01, 0.4, 840, 12_400, 185_000, 7_620_000, 200_000_000].map((ms) => durationText(ms));
  assert.deepEqual(told, ['–', '0 ms', '< 0.1 ms', '0.4 ms', '840 ms', '12.4 s', '3 min 05 s', '2 h 07 min', '2 d 08 h']);
});

test('differences have a sign, shares a percent', () => {
  assert.deepEqual([120, -1_200, 0.01].map(deltaText), ['+120 ms', '−1.2 s', '±0 ms']);
  assert.deepEqual(
    [
      [100, 150],
      [100, 50],
      [0, 5],
      [1, 60],
    ].map(([a, b]) => deltaPercent(a!, b!)),
    ['+50 %', '−50 %', '–', '×60'],
  );
  assert.deepEqual(
    [percentText(1, 3), percentText(1, 1_000), percentText(999, 1_000), percentText(0, 0)],
    ['33 %', '< 1 %', '> 99 %', '–'],
  );
  assert.equal(plural(5_000, 'call'), '5,000 calls');
  assert.deepEqual([999, 1_000, 1_234_567].map(count), ['999', '1,000', '1,234,567']);
  assert.deepEqual([0.12345, 1_234.56, -5, 1e300, NaN].map(numberText), ['0.123', '1,234.6', '-5', '1e+300', '–']);
});

test('an axis keeps to one unit', () => {
  assert.deepEqual(
    [0, 250].map((ms) => axisText(ms, 250, 1_000)),
    ['0 ms', '250 ms'],
  );
  assert.deepEqual(
    [0, 2_500].map((ms) => axisText(ms, 500, 12_000)),
    ['0.0 s', '2.5 s'],
  );
  assert.equal(axisText(90_000, 30_000, 600_000), '1:30 min');
  assert.equal(axisText(7_500_000, 300_000, 9_000_000), '2:05 h');
});

test('what cannot be seen is made visible, and nothing else is touched', () => {
  assert.equal(
    show('a\u202eb\u0000c\u001b[31m\u200b\u2028\ud800'),
    'a\\u{202e}b\\u{0000}c\\u{001b}[31m\\u{200b}\\u{2028}\\u{d800}',
  );
  assert.equal(show('größer 🎼 <b>'), 'größer 🎼 <b>');
});

test('texts are cut to the room there is', () => {
  const fitter = new Fitter((text) => 10 * Array.from(text).length);
  assert.equal(fitter.fit('abcdef', 60), 'abcdef');
  assert.equal(fitter.fit('abcdef', 40), 'abc…');
  assert.equal(fitter.fit('🎼🎼🎼', 20), '🎼…');
  assert.equal(fitter.fit('abc', 5), '');
});

test('an axis of many days counts days', () => {
  const day = 86_400_000;
  const { values, step } = timeTicks(0, 10 * day, 5);
  assert.deepEqual(
    values.map((value) => axisText(value, step, 10 * day)),
    ['0 d', '2 d', '4 d', '6 d', '8 d', '10 d'],
  );
  assert.equal(axisText(20_000 * day, 20_000 * day, 100_000 * day), '20,000 d');
});
