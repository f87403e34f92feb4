/**
 * Everything that ran, as one forest: files with their calls, sessions with turns, steps, model calls and tools, subagents'
 * sessions under the step in which they began, and the requests that flight recorders saw.
 *
 * Columns of numbers by node, parents first (`order.ts`). Times are milliseconds from the beginning of the tree that a node
 * stands in: each file, and each session that no other began, has its own zero.
 */
import { CALL, FILE, UNPLACED, type Tables } from './kinds.ts';
import { Raw, readCalls, readFlights, readSessions } from './read.ts';
import { treeOrder, type Tree } from './order.ts';

export interface Forest extends Tree {
  readonly size: number;
  readonly kind: Uint8Array;
  /** Place in `TABLES`, and the row there; a file has the row -1. */
  readonly table: Uint8Array;
  readonly row: Int32Array;
  readonly category: Uint8Array;
  readonly flags: Uint8Array;
  readonly start: Float64Array;
  /** What a bar spans; of what is still open, up to the last thing on record under it. */
  readonly span: Float64Array;
  /** As it is on record: NaN while something is open. */
  readonly duration: Float64Array;
  readonly latency: Float64Array;
  readonly firstChunk: Float64Array;
  /** From the start of the node, as the two before. */
  readonly abortedAt: Float64Array;
  readonly disposedAt: Float64Array;
  /** End of the attempt before this one: from there to the start the loop waited. */
  readonly retryFrom: Float64Array;
  /** The latest end. */
  readonly total: number;
  readonly sources: readonly string[];
  /** Place in `sources`. */
  readonly source: Int32Array;
  readonly tables: Tables;
}

/** Build the forest of these tables. */
export function buildForest(tables: Tables): Forest {
  const raw = new Raw(tables);
  readCalls(raw);
  readSessions(raw);
  readFlights(raw);
  const tree = treeOrder(raw.parent.subarray(0, raw.size), raw.rank.subarray(0, raw.size));
  const { order } = tree;
  const pick = (values: Float64Array): Float64Array => gather(order, values, new Float64Array(order.length));
  const bytes = (values: Uint8Array): Uint8Array => gather(order, values, new Uint8Array(order.length));
  const start = pick(raw.start);
  const duration = pick(raw.duration);
  const flags = bytes(raw.flags);
  const kind = bytes(raw.kind);
  const source = gather(order, raw.source, new Int32Array(order.length));
  const total = settle(tree, kind, source, start, duration, flags);
  const span = spans(tree, start, duration);
  return {
    ...tree,
    size: raw.size,
    kind,
    table: bytes(raw.table),
    row: gather(order, raw.row, new Int32Array(order.length)),
    category: bytes(raw.category),
    flags,
    start,
    span,
    duration,
    latency: pick(raw.latency),
    firstChunk: pick(raw.firstChunk),
    abortedAt: pick(raw.abortedAt),
    disposedAt: pick(raw.disposedAt),
    retryFrom: retries(pick(raw.retryFrom), start),
    total: Math.max(total, spanEnd(start, span)),
    sources: raw.sources,
    source,
    tables,
  };
}

/** Values in another order. A plain loop: `from` with a callback takes ten times as long. */
function gather<T extends Float64Array | Int32Array | Uint8Array>(order: Int32Array, values: T, made: T): T {
  for (let node = 0; node < order.length; node++) made[node] = values[order[node]!]!;
  return made;
}

/** Turn moments into times from the zero of each file or outermost session; returns the latest end. */
function settle(
  tree: Tree,
  kind: Uint8Array,
  source: Int32Array,
  start: Float64Array,
  duration: Float64Array,
  flags: Uint8Array,
): number {
  let total = 0;
  // Calls of one file that stand at the top have one clock.
  const fileZero = new Map<number, number>();
  for (let top = 0; top < start.length; top = tree.end[top]!) {
    if (kind[top] === CALL)
      fileZero.set(source[top]!, Math.min(fileZero.get(source[top]!) ?? Infinity, earliest(start, top, tree.end[top]!)));
  }
  for (let top = 0; top < start.length; top = tree.end[top]!) {
    const zero = (kind[top] === CALL ? fileZero.get(source[top]!) : undefined) ?? earliest(start, top, tree.end[top]!);
    let latest = 0;
    for (let node = top; node < tree.end[top]!; node++) {
      if (Number.isNaN(start[node]!)) {
        if (kind[node] !== FILE) flags[node]! |= UNPLACED;
        start[node] = tree.parent[node]! < 0 ? 0 : start[tree.parent[node]!]!;
      } else {
        start[node]! -= zero;
      }
      const end = start[node]! + (duration[node]! > 0 ? duration[node]! : 0);
      if (end > latest) latest = end;
    }
    if (kind[top] === FILE) duration[top] = latest;
    if (latest > total) total = latest;
  }
  return total;
}

function earliest(start: Float64Array, from: number, to: number): number {
  let least = Infinity;
  for (let node = from; node < to; node++) if (start[node]! < least) least = start[node]!;
  return least;
}

/** Moments of earlier attempts are on the same clock as the starts were: keep only how long before the start they lie. */
function retries(waits: Float64Array, start: Float64Array): Float64Array {
  const from = new Float64Array(waits.length);
  for (let node = 0; node < waits.length; node++) from[node] = waits[node]! > 0 ? start[node]! - waits[node]! : NaN;
  return from;
}

function spans(tree: Tree, start: Float64Array, duration: Float64Array): Float64Array {
  const span = new Float64Array(start.length);
  const latest = new Float64Array(start.length);
  for (let node = start.length - 1; node >= 0; node--) {
    span[node] = Number.isNaN(duration[node]!) ? Math.max(0, latest[node]! - start[node]!) : duration[node]!;
    const parent = tree.parent[node]!;
    const end = Math.max(start[node]! + span[node]!, latest[node]!);
    if (parent >= 0 && end > latest[parent]!) latest[parent] = end;
  }
  return span;
}

function spanEnd(start: Float64Array, span: Float64Array): number {
  let end = 0;
  for (let node = 0; node < start.length; node++) end = Math.max(end, start[node]! + span[node]!);
  return end;
}
