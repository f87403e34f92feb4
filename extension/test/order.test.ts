import assert from 'node:assert/strict';
import test from 'node:test';
import { filterMask, treeOrder, visibleNodes } from '../src/model/order.ts';

//  a        b
//  ├ c      └ f
//  │ └ e
//  └ d
const parents = Int32Array.of(-1, -1, 0, 0, 2, 1);
const rank = Float64Array.of(1, 2, 3, 4, 5, 6);

test('nodes are numbered depth first, so that a subtree is a range', () => {
  const tree = treeOrder(parents, rank);
  assert.deepEqual([...tree.order], [0, 2, 4, 3, 1, 5]);
  assert.deepEqual([...tree.parent], [-1, 0, 1, 0, -1, 4]);
  assert.deepEqual([...tree.depth], [0, 1, 2, 1, 0, 1]);
  assert.deepEqual([...tree.end], [4, 3, 3, 4, 6, 6]);
  assert.deepEqual([...tree.children], [2, 1, 0, 0, 1, 0]);
});

test('siblings stand by rank, unknown ranks last, equal ones as given', () => {
  const tree = treeOrder(Int32Array.of(-1, -1, -1, -1), Float64Array.of(NaN, 2, 1, 2));
  assert.deepEqual([...tree.order], [2, 1, 3, 0]);
});

test('nodes that name each other as parents, or a parent that is not there, are not lost', () => {
  const tree = treeOrder(Int32Array.of(1, 0, 2, 9), Float64Array.of(1, 2, 3, 4));
  assert.deepEqual([...tree.order].sort(), [0, 1, 2, 3]);
  assert.deepEqual(
    [...tree.end].filter((end) => end === 0),
    [],
  );
});

test('a tree of a hundred thousand levels is walked without a stack', () => {
  const deep = Int32Array.from({ length: 100_000 }, (_, i) => i - 1);
  const tree = treeOrder(deep, Float64Array.from(deep));
  assert.equal(tree.depth[99_999], 99_999);
  assert.equal(tree.end[0], 100_000);
});

test('what is folded hides what is under it, and a mask what is not meant', () => {
  const tree = treeOrder(parents, rank);
  const folded = new Uint8Array(6);
  assert.deepEqual([...visibleNodes(tree.end, folded, null)], [0, 1, 2, 3, 4, 5]);
  folded[1] = 1;
  assert.deepEqual([...visibleNodes(tree.end, folded, null)], [0, 1, 3, 4, 5]);
  const mask = filterMask(tree.parent, (node) => node === 2);
  assert.deepEqual([...mask], [1, 1, 2, 0, 0, 0]);
  assert.deepEqual([...visibleNodes(tree.end, new Uint8Array(6), mask)], [0, 1, 2]);
});
