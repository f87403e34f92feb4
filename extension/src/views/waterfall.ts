/**
 * The tree and the bars beside it: rows of one forest, one scroll, one selection. As a timeline the bars stand where things
 * ran; as a topology they all begin at zero, so that lengths compare.
 */
import { barMarks, type Mark, type Scale } from '../draw/marks.ts';
import { Rows, write, type Frame, type RowsSource, type Told } from '../draw/rows.ts';
import { TABLES } from '../model/kinds.ts';
import { sentenceOf } from '../model/names.ts';
import { ABOVE } from '../model/order.ts';
import { paintAxis, paintBar, paintGrid, paintName, paintRange } from './paint.ts';
import { followPointer } from './pointer.ts';
import type { State } from './state.ts';

export const ROW_HEIGHT = 22;
export const HEAD_HEIGHT = 26;
export const BAR_HEIGHT = 12;
/** Room right of the last bar, for the words beside it. */
const WORDS_WIDTH = 96;

export type Look = 'timeline' | 'topology';

/** A mark in sight, with the row of the lab's tables that it stands for. */
export interface DrawnMark extends Mark {
  readonly table: string;
  readonly row: number;
}

export class Waterfall implements RowsSource {
  readonly name: string;
  readonly role = 'tree';
  readonly rowHeight = ROW_HEIGHT;
  readonly headHeight = HEAD_HEIGHT;
  readonly rows: Rows;
  look: Look;
  /** The stretch of time in sight. */
  from = 0;
  to: number;
  /** As it was drawn last: asking the element would lay the page out for every bar. */
  #width = 0;
  #split = 0;
  #splitWanted: number | null = null;
  /** Deepest level in sight, which the indentation has to leave room for. */
  #maxDepth = 1;
  #positions: { position: Int32Array; siblings: Int32Array } | null = null;
  readonly #onMove = new Set<() => void>();

  constructor(
    root: HTMLElement,
    private readonly state: State,
    look: Look,
  ) {
    this.look = look;
    this.name = look === 'timeline' ? 'Timeline: what ran when' : 'Topology: who called whom';
    this.to = this.whole;
    this.rows = new Rows(root, this);
    followPointer(this, state);
    state.listen((change) => {
      if (change === 'rows') {
        this.#positions = null;
        this.#maxDepth = 1;
      }
      this.rows.invalidate();
    });
  }

  /** All the time there is. */
  get whole(): number {
    return Math.max(this.state.forest.total, 1);
  }

  /** Whether all of the time is in sight. */
  get isWhole(): boolean {
    return this.from === 0 && this.to === this.whole;
  }

  /** Stand the bars in time, or let all begin at zero. */
  setLook(look: Look): void {
    this.look = look;
    this.see(0, this.whole);
  }

  /** Called when the stretch of time or the divider changes. */
  onMove(moved: () => void): void {
    this.#onMove.add(moved);
  }

  /** Say that what is in sight has changed, and draw. */
  moved(): void {
    for (const moved of this.#onMove) moved();
    this.rows.invalidate();
  }

  /** Put the divider somewhere. */
  setSplit(x: number): void {
    this.#splitWanted = x;
    this.rows.invalidate();
  }

  get scale(): Scale {
    return {
      from: this.from,
      to: this.to,
      left: this.#split + 10,
      right: Math.max(this.#split + 60, this.#width - WORDS_WIDTH),
    };
  }

  /** Where the tree ends and the bars begin, in pixels. */
  get split(): number {
    return this.#split;
  }

  count(): number {
    return this.state.visible.length;
  }

  begin(frame: Frame): void {
    const wanted = this.#splitWanted ?? Math.min(460, Math.max(200, frame.width * (this.look === 'topology' ? 0.46 : 0.38)));
    const split = Math.round(Math.max(120, Math.min(wanted, frame.width - 140)));
    if (split !== this.#split || frame.width !== this.#width) {
      this.#split = split;
      this.#width = frame.width;
      for (const moved of this.#onMove) moved();
    }
    if (this.#maxDepth === 1)
      this.#maxDepth = this.state.visible.reduce((most, node) => Math.max(most, this.state.forest.depth[node]!), 1);
    paintGrid(frame, this);
  }

  drawRow(frame: Frame, row: number, y: number): void {
    const { state } = this;
    const { context, theme, width } = frame;
    const node = state.visible[row]!;
    if (state.chosen?.[node] === 1) {
      context.fillStyle = state.isPicked(node) ? theme.chosen : theme.chosenPale;
      context.fillRect(0, y, width, ROW_HEIGHT);
    }
    if (state.hover === node) {
      context.fillStyle = theme.chosenPale;
      context.fillRect(0, y, width, ROW_HEIGHT);
    }
    const aside =
      (state.mask !== null && state.mask[node] === ABOVE) ||
      (state.chosen !== null && state.picked.length === 0 && state.chosen[node] === 0);
    context.globalAlpha = aside ? 0.45 : 1;
    paintName(frame, this, this.state, node, y);
    context.save();
    context.beginPath();
    context.rect(this.#split + 1, y, width - this.#split, ROW_HEIGHT);
    context.clip();
    paintBar(frame, this, this.state, node, y, aside);
    context.restore();
    context.globalAlpha = 1;
  }

  drawOver(frame: Frame): void {
    const { context, theme, width, height } = frame;
    paintRange(frame, this, this.state);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, HEAD_HEIGHT);
    paintAxis(frame, this);
    write(frame, this.look === 'timeline' ? 'call tree' : 'who called whom', 12, HEAD_HEIGHT / 2, {
      max: this.#split - 90,
      font: 'small',
    });
    write(frame, 'duration', this.#split - 10, HEAD_HEIGHT / 2, { align: 'right', font: 'small' });
    context.fillStyle = theme.grid;
    context.fillRect(0, HEAD_HEIGHT - 1, width, 1);
    context.fillRect(this.#split, 0, 1, height);
    if (this.count() === 0) {
      const words = this.state.forest.size === 0 ? 'nothing was recorded' : 'nothing matches the search';
      write(frame, words, width / 2, Math.min(height / 2, HEAD_HEIGHT + 40), { colour: theme.muted, align: 'center' });
    }
  }

  tell(row: number): Told {
    const { forest, folded, visible } = this.state;
    const node = visible[row]!;
    this.#positions ??= this.#count();
    return {
      text: sentenceOf(forest, node),
      level: forest.depth[node]! + 1,
      position: this.#positions.position[row]!,
      siblings: this.#positions.siblings[row]!,
      expanded: forest.children[node]! > 0 ? folded[node] === 0 : null,
      selected: this.state.isPicked(node),
    };
  }

  /** Of each row, which of how many siblings it is. */
  #count(): { position: Int32Array; siblings: Int32Array } {
    const { forest, visible } = this.state;
    const position = new Int32Array(visible.length);
    const children = new Int32Array(forest.size + 1);
    visible.forEach((node, row) => (position[row] = ++children[forest.parent[node]! + 1]!));
    return { position, siblings: Int32Array.from(visible, (node) => children[forest.parent[node]! + 1]!) };
  }

  activated(row: number): void {
    this.state.hover = this.state.visible[row] ?? -1;
    this.state.tell('hover');
  }

  pressed(row: number): void {
    this.rows.activate(row);
    this.state.choose([this.state.visible[row]!]);
  }

  key(event: KeyboardEvent, row: number): boolean {
    const { state } = this;
    const node = state.visible[row];
    if (event.ctrlKey || event.metaKey) return false;
    if (event.shiftKey && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      this.pan(((event.key === 'ArrowLeft' ? -1 : 1) * (this.to - this.from)) / 8);
      return true;
    }
    switch (event.key) {
      case '+':
      case '=':
        this.zoom(1 / 1.5);
        return true;
      case '-':
        this.zoom(1.5);
        return true;
      case '0':
        this.see(0, this.whole);
        return true;
      case 'z':
        this.seeSelection();
        return true;
    }
    if (node === undefined) return false;
    const parent = state.forest.parent[node]!;
    const folded = state.folded[node] === 1;
    const hasChildren = state.forest.children[node]! > 0;
    switch (event.key) {
      case 'ArrowRight':
        if (hasChildren && folded) state.fold(node, false);
        else if (hasChildren) this.rows.activate(row + 1);
        return true;
      case 'ArrowLeft':
        if (hasChildren && !folded) state.fold(node, true);
        else if (parent >= 0) this.rows.activate(state.rowOf(parent));
        return true;
      case 'Enter':
        if (hasChildren) state.fold(node, !folded);
        else state.choose([node]);
        return true;
      case ' ':
        this.pick(node, event.shiftKey);
        return true;
      case '*':
        state.foldAll(false);
        return true;
      default:
        return false;
    }
  }

  /** Bring a node into sight, in both directions. */
  show(node: number): void {
    this.state.reveal(node);
    const row = this.state.rowOf(node);
    if (row >= 0) this.rows.activate(row, false);
    const { forest } = this.state;
    if (forest.start[node]! > this.to || forest.start[node]! + forest.span[node]! < this.from) {
      const half = (this.to - this.from) / 2;
      this.see(forest.start[node]! - half, forest.start[node]! + half);
    }
  }

  /** See a stretch of time, as far as there is any. */
  see(from: number, to: number): void {
    const whole = this.whole;
    const span = Math.min(whole * 1.02, Math.max(to - from, whole / 1e7, 1e-3));
    this.from = Math.max(0, Math.min(from, whole * 1.02 - span));
    this.to = this.from + span;
    if (this.from === 0 && this.to > whole) this.to = whole;
    this.moved();
  }

  zoom(factor: number, around = (this.from + this.to) / 2): void {
    this.see(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(by: number): void {
    this.see(this.from + by, this.to + by);
  }

  /** Zoom to the brushed range, else to what is picked, else to everything. */
  seeSelection(): void {
    const { forest, picked, range } = this.state;
    if (range !== null) {
      this.see(range[0], range[1]);
      return;
    }
    if (picked.length === 0) {
      this.see(0, this.whole);
      return;
    }
    let [from, to] = [Infinity, 0];
    for (const node of picked) {
      from = Math.min(from, forest.start[node]!);
      to = Math.max(to, forest.start[node]! + forest.span[node]!);
    }
    const margin = Math.max((to - from) * 0.05, 0.5);
    this.see(from - margin, to + margin);
  }

  /** The marks of the rows in sight. */
  marks(): DrawnMark[] {
    const [first, past] = this.rows.sight;
    const found: DrawnMark[] = [];
    for (let row = first; row < past; row++) {
      const node = this.state.visible[row]!;
      const top = this.rows.topOf(row) + (ROW_HEIGHT - BAR_HEIGHT) / 2;
      for (const mark of barMarks(this.state.forest, node, this.scale, top, BAR_HEIGHT, this.look === 'topology')) {
        found.push({ ...mark, table: TABLES[this.state.forest.table[node]!]!, row: this.state.forest.row[node]! });
      }
    }
    return found;
  }

  /** Select a node, or, adding, also it; one that was selected is so no more. */
  pick(node: number, add: boolean): void {
    const { picked } = this.state;
    if (!add) this.state.choose([node]);
    else this.state.choose(this.state.isPicked(node) ? picked.filter((each) => each !== node) : [...picked, node]);
  }

  /** How far apart levels stand. */
  get step(): number {
    return Math.min(15, (this.#split * 0.42) / this.#maxDepth);
  }

  /** Where the rows of a level begin. */
  indent(depth: number): number {
    return 12 + depth * this.step;
  }

  /** Whether a place is on the sign that folds a node. */
  isTwisty(node: number, x: number): boolean {
    const at = this.indent(this.state.forest.depth[node]!);
    return this.state.forest.children[node]! > 0 && x >= at - 8 && x <= at + 10;
  }
}
