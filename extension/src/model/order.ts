/**
 * Trees as typed arrays. Nodes are numbered parents first, so that everything under node `n` is the range `n + 1 … end[n]`:
 * folding skips it, a selected subtree is it, and a sum over it is a loop.
 */

export interface Tree {
  /** The node that was number `order[n]` in what was given. */
  readonly order: Int32Array;
  /** -1 at the top. */
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  /** One past the last node under `n`. */
  readonly end: Int32Array;
  /** How many nodes are right under `n`. */
  readonly children: Int32Array;
}

/**
 * Number nodes depth first; siblings stand in the order of `rank`, equal ranks as they were given. Nodes that name each other
 * as parents are put at the top rather than lost.
 */
export function treeOrder(parents: Int32Array, rank: Float64Array): Tree {
  const size = parents.length;
  const byRank = rankOrder(rank);
  const firstChild = new Int32Array(size).fill(-1);
  const next = new Int32Array(size).fill(-1);
  let firstTop = -1;
  for (let i = size - 1; i >= 0; i--) {
    const node = byRank[i]!;
    const parent = parents[node]!;
    if (parent < 0 || parent >= size || parent === node) {
      next[node] = firstTop;
      firstTop = node;
    } else {
      next[node] = firstChild[parent]!;
      firstChild[parent] = node;
    }
  }
  const tree = {
    order: new Int32Array(size),
    parent: new Int32Array(size).fill(-1),
    depth: new Int32Array(size),
    end: new Int32Array(size),
    children: new Int32Array(size),
  };
  const placed = new Int32Array(size).fill(-1);
  let count = 0;
  const walk = (top: number): void => {
    const above: number[] = [];
    for (let node = top; node >= 0;) {
      const place = count++;
      const parent = above.length > 0 ? placed[above[above.length - 1]!]! : -1;
      placed[node] = place;
      tree.order[place] = node;
      tree.parent[place] = parent;
      tree.depth[place] = above.length;
      if (parent >= 0) tree.children[parent]!++;
      let following = unplaced(firstChild[node]!);
      if (following >= 0) {
        above.push(node);
      } else {
        tree.end[place] = count;
        following = above.length > 0 ? unplaced(next[node]!) : -1;
        while (following < 0 && above.length > 0) {
          const done = above.pop()!;
          tree.end[placed[done]!] = count;
          following = above.length > 0 ? unplaced(next[done]!) : -1;
        }
      }
      node = following;
    }
  };
  const unplaced = (node: number): number => {
    while (node >= 0 && placed[node]! >= 0) node = next[node]!;
    return node;
  };
  for (let top = firstTop; top >= 0; top = next[top]!) walk(top);
  for (let i = 0; i < size; i++) {
    const node = byRank[i]!;
    if (placed[node]! < 0) walk(node);
  }
  return tree;
}

function rankOrder(rank: Float64Array): Int32Array {
  const order = new Int32Array(rank.length);
  for (let i = 0; i < order.length; i++) order[i] = i;
  let sorted = true;
  for (let i = 1; i < rank.length && sorted; i++) sorted = rank[i - 1]! <= rank[i]!;
  return sorted ? order : order.sort((a, b) => compare(rank[a]!, rank[b]!) || a - b);
}

/** Unknown ranks come last. */
function compare(a: number, b: number): number {
  if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
  return Number.isNaN(b) ? -1 : a - b;
}

/** The nodes that are to be seen, from top to bottom: not under a folded one, and in the mask where there is one. */
export function visibleNodes(end: Int32Array, folded: Uint8Array, mask: Uint8Array | null): Int32Array {
  const seen = new Int32Array(end.length);
  let count = 0;
  for (let node = 0; node < end.length;) {
    if (mask !== null && mask[node] === 0) {
      // Of a node that is out everything under it is out, too: what matches keeps what stands above it.
      node = end[node]!;
      continue;
    }
    seen[count++] = node;
    node = folded[node] === 1 ? end[node]! : node + 1;
  }
  return seen.subarray(0, count);
}

export const OUT = 0;
/** Not meant itself, but something under it is. */
export const ABOVE = 1;
export const MATCH = 2;

/** Which nodes a search or filter leaves: 2 for those that `matches` names, 1 for those above them, 0 for the others. */
export function filterMask(parent: Int32Array, matches: (node: number) => boolean): Uint8Array {
  const mask = new Uint8Array(parent.length);
  for (let node = parent.length - 1; node >= 0; node--) {
    if (matches(node)) mask[node] = MATCH;
    if (mask[node] !== OUT) {
      const above = parent[node]!;
      if (above >= 0 && mask[above] === OUT) mask[above] = ABOVE;
    }
  }
  return mask;
}
