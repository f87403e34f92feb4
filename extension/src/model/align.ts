/**
 * Which calls of two recordings are the same call: equal parent key, parent context, request and occurrence, nothing else; as
 * the lab's own diff has it. Typed arrays in, typed arrays out.
 */

/** What makes a call the call it is: numbers that are equal where the texts are equal, over both sides. */
export interface Identity {
  readonly parent: Int32Array;
  readonly context: Int32Array;
  readonly request: Int32Array;
  readonly occurrence: Float64Array;
}

/** Row of the other side for each row, -1 for a call that only one side has. */
export interface Alignment {
  readonly toActual: Int32Array;
  readonly toExpected: Int32Array;
}

export function align(expected: Identity, actual: Identity): Alignment {
  const rows = new Map<string, number>();
  for (let row = expected.parent.length - 1; row >= 0; row--) rows.set(key(expected, row), row);
  const toActual = new Int32Array(expected.parent.length).fill(-1);
  const toExpected = new Int32Array(actual.parent.length).fill(-1);
  for (let row = 0; row < toExpected.length; row++) {
    const other = rows.get(key(actual, row));
    if (other === undefined || toActual[other]! >= 0) continue;
    toExpected[row] = other;
    toActual[other] = row;
  }
  return { toActual, toExpected };
}

function key(side: Identity, row: number): string {
  return `${side.parent[row]!} ${side.context[row]!} ${side.request[row]!} ${side.occurrence[row]!}`;
}

export const SAME = 0;
export const OUTCOME = 1;
export const BOUNDARY = 2;
export const ADDED = 4;
export const REMOVED = 8;

export interface Merged {
  /** Row on each side, -1 where that side has not the call. */
  readonly expected: Int32Array;
  readonly actual: Int32Array;
  /** Place of the parent among the merged calls, -1 at the top. */
  readonly parent: Int32Array;
}

/**
 * Both sides as one list: the expected calls, then those that only the actual side has. A call stands under its parent's
 * place, whichever side that comes from. `parentRow` gives the row of a call's parent on its own side, or -1.
 */
export function merge(alignment: Alignment, expectedParent: Int32Array, actualParent: Int32Array): Merged {
  const { toActual, toExpected } = alignment;
  const added = toExpected.reduce((sum, row) => sum + (row < 0 ? 1 : 0), 0);
  const size = toActual.length + added;
  const expected = new Int32Array(size).fill(-1);
  const actual = new Int32Array(size).fill(-1);
  const placeOfActual = new Int32Array(toExpected.length);
  for (let row = 0; row < toActual.length; row++) {
    expected[row] = row;
    actual[row] = toActual[row]!;
  }
  let place = toActual.length;
  for (let row = 0; row < toExpected.length; row++) {
    if (toExpected[row]! >= 0) {
      placeOfActual[row] = toExpected[row]!;
    } else {
      placeOfActual[row] = place;
      actual[place++] = row;
    }
  }
  const parent = Int32Array.from({ length: size }, (_, i) => {
    if (expected[i]! >= 0) return expectedParent[expected[i]!]!;
    const above = actualParent[actual[i]!]!;
    return above < 0 ? -1 : placeOfActual[above]!;
  });
  return { expected, actual, parent };
}
