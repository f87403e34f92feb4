/** How much ran at once: a profile over a stretch of time, from starts and ends. Typed arrays in, typed arrays out. */

export interface Load {
  /** Times at which something began, and at which something ended, each sorted. */
  readonly starts: Float64Array;
  readonly ends: Float64Array;
}

/** Prepare intervals; those without a known start or length are left out. */
export function loadOf(start: Float64Array, duration: Float64Array, counts: (node: number) => boolean): Load {
  const starts = new Float64Array(start.length);
  const ends = new Float64Array(start.length);
  let count = 0;
  for (let node = 0; node < start.length; node++) {
    if (!counts(node) || !(duration[node]! > 0) || Number.isNaN(start[node]!)) continue;
    starts[count] = start[node]!;
    ends[count++] = start[node]! + duration[node]!;
  }
  return { starts: starts.slice(0, count).sort(), ends: ends.slice(0, count).sort() };
}

/** The most that ran at once in each of `bins` equal parts of `from … to`. */
export function profile(load: Load, from: number, to: number, bins: number): Float64Array {
  const most = new Float64Array(bins);
  const { starts, ends } = load;
  const width = (to - from) / bins;
  if (!(width > 0)) return most;
  let begun = firstAfter(starts, from);
  let ended = firstAfter(ends, from);
  let running = begun - ended;
  for (let bin = 0; bin < bins; bin++) {
    const until = bin === bins - 1 ? to : from + (bin + 1) * width;
    let peak = running;
    while (begun < starts.length && starts[begun]! < until) {
      while (ended < ends.length && ends[ended]! <= starts[begun]!) {
        ended++;
        running--;
      }
      begun++;
      running++;
      if (running > peak) peak = running;
    }
    while (ended < ends.length && ends[ended]! <= until) {
      ended++;
      running--;
    }
    most[bin] = peak;
  }
  return most;
}

/** How many values of a sorted array are at most `limit`. */
function firstAfter(sorted: Float64Array, limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Ticks of an axis: about `wanted` round numbers from `from` to `to`. */
export function ticks(from: number, to: number, wanted: number): { values: number[]; step: number } {
  const span = to - from;
  if (!(span > 0) || wanted < 1) return { values: [], step: 1 };
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
  return ticksBy(from, to, step);
}

/** Ticks of a time axis in milliseconds: seconds, minutes, hours and days have round numbers of their own. */
export function timeTicks(from: number, to: number, wanted: number): { values: number[]; step: number } {
  const rough = (to - from) / wanted;
  if (rough < 10_000 || Number.isNaN(rough)) return ticks(from, to, wanted);
  if (to >= 4 * 86_400_000) {
    const days = ticks(from / 86_400_000, to / 86_400_000, wanted);
    return { values: days.values.map((day) => 86_400_000 * day), step: 86_400_000 * days.step };
  }
  const round = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400].map((s) => 1_000 * s);
  const step = round.find((each) => each >= rough);
  return step === undefined ? ticks(from, to, wanted) : ticksBy(from, to, step);
}

function ticksBy(from: number, to: number, step: number): { values: number[]; step: number } {
  const values = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9 && values.length < 100; n++)
    values.push(n * step + 0);
  return { values, step };
}
