/** How many ended how, and how much time that took, by group. Typed arrays in, typed arrays out. */
import { COUNTED } from './categories.ts';

export interface Tally {
  readonly groups: number;
  /** `counts[group * COUNTED + category]`. */
  readonly counts: Float64Array;
  /** Milliseconds, in the same places. */
  readonly times: Float64Array;
}

/** Count the nodes that `counts` admits; group -1 is left out. */
export function tally(
  group: Int32Array,
  groups: number,
  category: Uint8Array,
  duration: Float64Array,
  counts: (node: number) => boolean,
): Tally {
  const made = { groups, counts: new Float64Array(groups * COUNTED), times: new Float64Array(groups * COUNTED) };
  for (let node = 0; node < group.length; node++) {
    if (group[node]! < 0 || category[node]! >= COUNTED || !counts(node)) continue;
    const place = group[node]! * COUNTED + category[node]!;
    made.counts[place]!++;
    if (duration[node]! > 0) made.times[place]! += duration[node]!;
  }
  return made;
}

export function groupSum(values: Float64Array, group: number): number {
  let sum = 0;
  for (let category = 0; category < COUNTED; category++) sum += values[group * COUNTED + category]!;
  return sum;
}

/** Groups that occur, those with most first; equal ones as they are numbered. */
export function groupOrder(values: Float64Array, groups: number): Int32Array {
  const sums = Float64Array.from({ length: groups }, (_, group) => groupSum(values, group));
  const order = Int32Array.from({ length: groups }, (_, group) => group).filter((group) => sums[group]! > 0);
  return order.sort((a, b) => sums[b]! - sums[a]! || a - b);
}
