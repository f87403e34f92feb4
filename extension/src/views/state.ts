/**
 * What linked views share: the forest, what is folded and filtered, what is selected. A view changes it here and draws when
 * told; nobody calls another view.
 */
import { Table, type Words } from '../data/table.ts';
import { isNotCompleted } from '../model/categories.ts';
import type { Forest } from '../model/forest.ts';
import { CALL, INHERITED, MODEL_CALL, REQUEST, TABLES, TOOL_CALL, TURN } from '../model/kinds.ts';
import { keyOf, labelOf, modelOf, NO_LABEL, outcomeOf } from '../model/names.ts';
import { show } from '../text.ts';
import { filterMask, MATCH, visibleNodes } from '../model/order.ts';

/** Rows by table: `{calls: [0, 4]}`. */
export type RowsByTable = Record<string, number[]>;

/** What a front end is told, and may say: rows of the tables that the view was given, counted from 0. */
export interface Selection {
  /** What was clicked. */
  readonly picked: RowsByTable;
  /** That and everything under it, or everything that ran in the range. */
  readonly rows: RowsByTable;
  /** Brushed stretch of time in milliseconds from each tree's zero. */
  readonly range: readonly [number, number] | null;
}

export const NOTHING: Selection = { picked: {}, rows: {}, range: null };

export interface Filter {
  readonly text: string;
  /** Place in `CATEGORIES`; -1 for any, -2 for anything but completed. */
  readonly category: number;
  /** A label as shown; empty for any. */
  readonly label: string;
  /** Deepest level shown, from 1; 0 for all. */
  readonly depth: number;
}

export const NO_FILTER: Filter = { text: '', category: -1, label: '', depth: 0 };
export const ANY = -1;
export const NOT_COMPLETED = -2;

export type Change = 'rows' | 'selection' | 'hover';

export class State {
  readonly folded: Uint8Array;
  /** Kinds whose endings are counted, in the order in which one asks for them. */
  readonly countedKinds: readonly number[];
  filter: Filter = NO_FILTER;
  /** What the filter leaves; null without one. */
  mask: Uint8Array | null = null;
  visible: Int32Array = new Int32Array(0);
  picked: number[] = [];
  #isPicked = new Set<number>();
  range: readonly [number, number] | null = null;
  /** 1 for every node that is selected; null when nothing is. */
  chosen: Uint8Array | null = null;
  hover = -1;
  /** Whether what is selected was taken from among the counts, which then go on to show all of them. */
  only = false;
  readonly #rowOf: Int32Array;
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #labels = new Map<number, string>();
  #calls: Words | null = null;
  #callLabels: string[] | null = null;

  constructor(readonly forest: Forest) {
    this.folded = new Uint8Array(forest.size);
    this.countedKinds = [CALL, MODEL_CALL, TURN, TOOL_CALL, REQUEST].filter((kind) => forest.kind.includes(kind));
    this.#rowOf = new Int32Array(forest.size);
    this.refresh();
  }

  listen(listener: (change: Change) => void): void {
    this.#listeners.add(listener);
  }

  tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }

  /** A node's label, remembered. */
  label(node: number): string {
    let label = this.#labels.get(node);
    if (label === undefined) {
      if (this.#labels.size > 50_000) this.#labels.clear();
      label = labelOf(this.forest, node);
      this.#labels.set(node, label);
    }
    return label;
  }

  /** The row that a node stands in, -1 while it is folded away or filtered out. */
  rowOf(node: number): number {
    return this.#rowOf[node] ?? -1;
  }

  /** Whether a node is counted: it ended in some way, and is not a parent session's. */
  counts(node: number): boolean {
    return (this.forest.flags[node]! & INHERITED) === 0;
  }

  refresh(): void {
    this.visible = visibleNodes(this.forest.end, this.folded, this.mask);
    this.#rowOf.fill(-1);
    for (let row = 0; row < this.visible.length; row++) this.#rowOf[this.visible[row]!] = row;
    this.tell('rows');
  }

  fold(node: number, folded: boolean): void {
    if (this.forest.children[node] === 0) return;
    this.folded[node] = folded ? 1 : 0;
    this.refresh();
  }

  foldAll(folded: boolean): void {
    for (let node = 0; node < this.forest.size; node++) this.folded[node] = folded && this.forest.children[node]! > 0 ? 1 : 0;
    this.refresh();
  }

  /** Fold everything from a level on (1: only what is at the top stays). */
  foldFrom(depth: number): void {
    for (let node = 0; node < this.forest.size; node++) {
      this.folded[node] = this.forest.depth[node]! + 1 >= depth && this.forest.children[node]! > 0 ? 1 : 0;
    }
    this.refresh();
  }

  /** Unfold what stands above a node. */
  reveal(node: number): void {
    let changed = false;
    for (let above = this.forest.parent[node]!; above >= 0; above = this.forest.parent[above]!) {
      if (this.folded[above] === 1) {
        this.folded[above] = 0;
        changed = true;
      }
    }
    if (changed) this.refresh();
  }

  setFilter(filter: Filter): void {
    this.filter = filter;
    const tests = this.#tests(filter);
    this.mask = tests.length === 0 ? null : filterMask(this.forest.parent, (node) => tests.every((test) => test(node)));
    // What was found must not stay folded away.
    if (this.mask !== null && filter.text !== '') {
      for (let node = 0; node < this.forest.size; node++) {
        if (this.mask[node] === MATCH)
          for (
            let above = this.forest.parent[node]!;
            above >= 0 && this.folded[above] === 1;
            above = this.forest.parent[above]!
          )
            this.folded[above] = 0;
      }
    }
    this.refresh();
  }

  /** How many nodes the filter means. */
  get matches(): number {
    return this.mask === null ? this.forest.size : this.mask.reduce((sum, each) => sum + (each === MATCH ? 1 : 0), 0);
  }

  #tests(filter: Filter): ((node: number) => boolean)[] {
    const { forest } = this;
    const tests: ((node: number) => boolean)[] = [];
    const { category, depth, label } = filter;
    const text = filter.text.trim().toLowerCase();
    if (depth > 0) tests.push((node) => (forest.depth[node] ?? 0) < depth);
    if (category >= 0) tests.push((node) => forest.category[node] === category);
    if (category === NOT_COMPLETED) tests.push((node) => isNotCompleted(forest.category[node]!));
    if (label !== '') tests.push((node) => this.group(node, 'label') === label);
    if (text !== '') {
      tests.push((node) =>
        [this.label(node), keyOf(forest, node), modelOf(forest, node), outcomeOf(forest, node)].some((word) =>
          word.toLowerCase().includes(text),
        ),
      );
    }
    return tests;
  }

  /** What a node is counted under. */
  group(node: number, by: 'label' | 'model' | 'run'): string {
    const { forest } = this;
    if (by === 'run') return forest.sources[forest.source[node]!] ?? '';
    if (by === 'model') return modelOf(forest, node) || '(no model)';
    if (forest.kind[node] === CALL) {
      this.#calls ??= (forest.tables['calls'] ?? Table.empty).words('label');
      this.#callLabels ??= this.#calls.words.map((word) => show(word) || NO_LABEL);
      return this.#callLabels[this.#calls.codes[forest.row[node]!]!] ?? NO_LABEL;
    }
    if (forest.kind[node] === MODEL_CALL || forest.kind[node] === REQUEST) return modelOf(forest, node) || '(no model)';
    return forest.kind[node] === TURN ? this.label(forest.parent[node]!) : this.label(node);
  }

  isPicked(node: number): boolean {
    return this.#isPicked.has(node);
  }

  #setPicked(nodes: readonly number[]): void {
    this.picked = [...nodes];
    this.#isPicked = new Set(nodes);
  }

  /** Select nodes with what is under them, or a stretch of time; nothing of either selects nothing. */
  choose(picked: readonly number[], range: readonly [number, number] | null = null): void {
    this.#setPicked(picked);
    this.range = range;
    this.only = false;
    this.chosen = null;
    const { forest } = this;
    if (picked.length > 0) {
      this.chosen = new Uint8Array(forest.size);
      for (const node of picked) this.chosen.fill(1, node, forest.end[node]);
    } else if (range !== null) {
      const [from, to] = range;
      this.chosen = new Uint8Array(forest.size);
      for (let node = 0; node < forest.size; node++) {
        if (this.mask !== null && this.mask[node] === 0) continue;
        if (forest.row[node]! >= 0 && forest.start[node]! <= to && forest.start[node]! + forest.span[node]! >= from)
          this.chosen[node] = 1;
      }
    }
    this.tell('selection');
  }

  /** Select just these nodes, without what is under them. */
  chooseOnly(nodes: readonly number[]): void {
    this.#setPicked(nodes);
    this.range = null;
    this.only = nodes.length > 0;
    const chosen = new Uint8Array(this.forest.size);
    for (const node of nodes) chosen[node] = 1;
    this.chosen = nodes.length === 0 ? null : chosen;
    this.tell('selection');
  }

  /** What charts and table show: the selection, else what the filter leaves, else everything. */
  shown(node: number): boolean {
    if (this.chosen !== null) return this.chosen[node] === 1;
    return this.left(node);
  }

  /** Whether the filter leaves a node. */
  left(node: number): boolean {
    return this.mask === null || this.mask[node] === MATCH;
  }

  get selection(): Selection {
    if (this.chosen === null) return NOTHING;
    const chosen = Array.from(this.chosen.keys()).filter((node) => this.chosen?.[node] === 1);
    return { picked: this.rowsOf(this.picked), rows: this.rowsOf(chosen), range: this.range };
  }

  /** Rows by table of nodes; where only some rows of a table are here, their places in the whole table. */
  rowsOf(nodes: readonly number[]): RowsByTable {
    const rows: RowsByTable = {};
    const rowOf = this.#outside();
    for (const node of nodes) {
      if (this.forest.row[node]! >= 0) (rows[TABLES[this.forest.table[node]!]!] ??= []).push(rowOf(node));
    }
    for (const each of Object.values(rows)) each.sort((a, b) => a - b);
    return rows;
  }

  /** The nodes of rows that a front end names. */
  nodesOf(rows: RowsByTable): number[] {
    const names: readonly string[] = TABLES;
    const wanted = new Map(Object.entries(rows).map(([name, each]) => [names.indexOf(name), new Set(each)]));
    const found: number[] = [];
    const rowOf = this.#outside();
    for (let node = 0; node < this.forest.size; node++) {
      if (this.forest.row[node]! >= 0 && wanted.get(this.forest.table[node]!)?.has(rowOf(node)) === true) found.push(node);
    }
    return found;
  }

  /** The row of a node as it is called outside: a column `row` says it, where a table is a part of another one. */
  #outside(): (node: number) => number {
    const { row, table, tables } = this.forest;
    const whole = TABLES.map((name) => (tables[name]?.names.includes('row') === true ? tables[name].numbers('row') : null));
    return (node) => whole[table[node]!]?.[row[node]!] ?? row[node]!;
  }
}

/** The selection as Python, to go on from in a notebook: positions in the tables of `lab`. */
export function asPython(rows: RowsByTable, lab = 'lab'): string {
  const parts = Object.entries(rows).map(([name, each]) => {
    const first = each[0] ?? 0;
    const isRun = each.every((row, place) => row === first + place);
    return isRun && each.length > 3
      ? `${lab}.${name}.slice(${first}, ${each.length})`
      : `${lab}.${name}.take([${each.join(', ')}])`;
  });
  return parts.join('\n');
}
