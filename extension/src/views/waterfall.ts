/**
 * The tree and the bars beside it: rows of one forest, one scroll, one selection. As a timeline the bars stand where things
 * ran; as a topology they all begin at zero, so that lengths compare.
 */
import { drawRedacted, drawSign, drawTwisty } from '../draw/icons.ts';
import { barMarks, drawEnd, drawMark, pixelOf, timeOf, type Mark, type Scale } from '../draw/marks.ts';
import { Rows, write, type Frame, type RowsSource, type Told } from '../draw/rows.ts';
import { CATEGORIES } from '../model/categories.ts';
import { FILE, REDACTED, SESSION, STEP, TABLES, TURN, UNPLACED } from '../model/kinds.ts';
import { outcomeOf, sentenceOf } from '../model/names.ts';
import { ABOVE } from '../model/order.ts';
import { timeTicks } from '../model/load.ts';
import { axisText, count, durationText } from '../words.ts';
import type { State } from './state.ts';

export const ROW_HEIGHT = 22;
const HEAD_HEIGHT = 26;
const BAR_HEIGHT = 12;
/** Room right of the last bar, for the words beside it. */
const WORDS_WIDTH = 96;
const DRAG_PX = 4;

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
  #split = 0;
  #splitWanted: number | null = null;
  #maxDepth = 1;
  #positions: { position: Int32Array; siblings: Int32Array } | null = null;
  readonly #moved = new Set<() => void>();

  constructor(
    root: HTMLElement,
    private readonly state: State,
    look: Look,
  ) {
    this.look = look;
    this.name = look === 'timeline' ? 'Timeline: what ran when' : 'Topology: who called whom';
    this.to = this.#whole;
    this.rows = new Rows(root, this);
    this.#pointer();
    state.listen((change) => {
      if (change === 'rows') {
        this.#positions = null;
        this.#maxDepth = 1;
      }
      if (change !== 'theme') this.rows.invalidate();
    });
  }

  get #whole(): number {
    return Math.max(this.state.forest.total, 1);
  }

  /** Whether all of the time is in sight. */
  get isWhole(): boolean {
    return this.from === 0 && this.to === this.#whole;
  }

  /** Stand the bars in time, or let all begin at zero. */
  setLook(look: Look): void {
    this.look = look;
    this.see(0, this.#whole);
  }

  /** Called when the stretch of time or the divider changes. */
  onMove(moved: () => void): void {
    this.#moved.add(moved);
  }

  get scale(): Scale {
    return { from: this.from, to: this.to, left: this.#split + 10, right: Math.max(this.#split + 60, this.rows.element.clientWidth - WORDS_WIDTH) };
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
    if (split !== this.#split) {
      this.#split = split;
      for (const moved of this.#moved) moved();
    }
    if (this.#maxDepth === 1) this.#maxDepth = this.state.visible.reduce((most, node) => Math.max(most, this.state.forest.depth[node]!), 1);
    this.#drawGrid(frame);
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
    const aside = (state.mask !== null && state.mask[node] === ABOVE) || (state.chosen !== null && state.picked.length === 0 && state.chosen[node] === 0);
    context.globalAlpha = aside ? 0.45 : 1;
    this.#drawName(frame, node, y);
    context.save();
    context.beginPath();
    context.rect(this.#split + 1, y, width - this.#split, ROW_HEIGHT);
    context.clip();
    this.#drawBar(frame, node, y, aside);
    context.restore();
    context.globalAlpha = 1;
  }

  drawOver(frame: Frame): void {
    const { context, theme, width, height } = frame;
    this.#drawRange(frame);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, HEAD_HEIGHT);
    this.#drawAxis(frame);
    write(frame, this.look === 'timeline' ? 'call tree' : 'who called whom', 12, HEAD_HEIGHT / 2, { colour: theme.muted, max: this.#split - 90, font: 'small' });
    write(frame, 'duration', this.#split - 10, HEAD_HEIGHT / 2, { colour: theme.muted, align: 'right', font: 'small' });
    context.fillStyle = theme.grid;
    context.fillRect(0, HEAD_HEIGHT - 1, width, 1);
    context.fillRect(this.#split, 0, 1, height);
    if (this.count() === 0) {
      const words = this.state.forest.size === 0 ? 'nothing was recorded' : 'nothing matches the search';
      write(frame, words, width / 2, Math.min(height / 2, HEAD_HEIGHT + 40), { colour: theme.muted, align: 'center' });
    }
  }

  #drawName(frame: Frame, node: number, y: number): void {
    const { context, theme, text } = frame;
    const { forest, folded } = this.state;
    const middle = y + ROW_HEIGHT / 2;
    const step = Math.min(15, (this.#split * 0.42) / this.#maxDepth);
    const x = 12 + forest.depth[node]! * step;
    if (step >= 5) {
      context.fillStyle = theme.grid;
      for (let depth = 0; depth < forest.depth[node]!; depth++) context.fillRect(Math.round(12 + depth * step), y, 1, ROW_HEIGHT);
    }
    if (forest.children[node]! > 0) drawTwisty(context, theme.muted, folded[node] === 1, x + 1, middle);
    const kind = forest.kind[node]!;
    const category = CATEGORIES[forest.category[node]!]!;
    let left = x + 12;
    if (category.name !== 'none') {
      drawSign(context, category, frame.fills, left + 4, middle);
      left += 14;
    }
    const time = durationText(forest.duration[node]!);
    const taken = text.width(time) + 18;
    write(frame, time, this.#split - 10, middle, { colour: theme.muted, align: 'right' });
    let right = this.#split - taken;
    if ((forest.flags[node]! & REDACTED) !== 0) {
      drawRedacted(context, theme.muted, right - 14, middle);
      right -= 20;
    }
    const below = folded[node] === 1 ? ` (${count(forest.end[node]! - node - 1)})` : '';
    const room = right - left - (below === '' ? 0 : text.width(below));
    const strong = kind === FILE || kind === SESSION;
    const width = write(frame, this.state.label(node), left, middle, {
      colour: kind === TURN || kind === STEP ? theme.muted : theme.ink, max: room, font: strong ? 'bold' : 'font',
    });
    if (below !== '') write(frame, below, left + width + (strong ? 4 : 0), middle, { colour: theme.muted });
  }

  #drawBar(frame: Frame, node: number, y: number, aside: boolean): void {
    const { context, theme } = frame;
    const { forest } = this.state;
    const top = y + (ROW_HEIGHT - BAR_HEIGHT) / 2;
    const marks = barMarks(forest, node, this.scale, top, BAR_HEIGHT, this.look === 'topology');
    for (const mark of marks) {
      drawMark(context, forest, mark, theme, frame.fills);
      if (aside) {
        context.globalAlpha = 0.55;
        context.fillStyle = theme.paper;
        context.fillRect(mark.x - 1, mark.y - 1, mark.width + 2, mark.height + 2);
        context.globalAlpha = 1;
      }
    }
    const bar = marks.find((mark) => mark.part === 'bar');
    if (bar === undefined) return;
    context.globalAlpha = aside ? 0.45 : 1;
    const category = CATEGORIES[forest.category[node]!]!;
    const end = bar.x + (category.fill === 'fading' ? Math.max(bar.width, 14) : bar.width);
    const beyond = drawEnd(context, category, theme, end, top, BAR_HEIGHT, bar.width);
    const words = this.#wordsBeside(node);
    if (words !== '') write(frame, words, end + beyond + 6, y + ROW_HEIGHT / 2, { colour: theme.muted, max: frame.width - end - beyond - 8 });
  }

  #wordsBeside(node: number): string {
    const { forest } = this.state;
    const words = [outcomeOf(forest, node)];
    if (this.look === 'topology') {
      words.unshift(durationText(forest.duration[node]!));
      const below = forest.end[node]! - node - 1;
      if (below > 0) words.push(`${count(below)} below`);
    }
    if ((forest.flags[node]! & UNPLACED) !== 0) words.push('no start on record');
    return words.filter((word) => word !== '').join(' · ');
  }

  #drawGrid(frame: Frame): void {
    const { context, theme, height } = frame;
    context.fillStyle = theme.grid;
    context.globalAlpha = 0.7;
    for (const { x } of this.#ticks()) context.fillRect(Math.round(x), HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
    context.globalAlpha = 1;
  }

  #drawAxis(frame: Frame): void {
    for (const { x, label } of this.#ticks()) {
      frame.context.fillStyle = frame.theme.grid;
      frame.context.fillRect(Math.round(x), HEAD_HEIGHT - 6, 1, 6);
      write(frame, label, x + 4, HEAD_HEIGHT / 2, { colour: frame.theme.muted, font: 'small', max: frame.width - x - 6 });
    }
  }

  #ticks(): { x: number; label: string }[] {
    const { scale } = this;
    const { values, step } = timeTicks(scale.from, scale.to, Math.max(1, Math.floor((scale.right - scale.left) / 96)));
    return values.map((value) => ({ x: pixelOf(scale, value), label: axisText(value, step, scale.to) }));
  }

  #drawRange({ context, theme, width, height }: Frame): void {
    const { range } = this.state;
    if (range === null || this.look === 'topology') return;
    const left = Math.max(this.#split + 1, pixelOf(this.scale, range[0]));
    const right = Math.min(width, pixelOf(this.scale, range[1]));
    if (right <= left) return;
    context.fillStyle = theme.chosenPale;
    context.fillRect(left, HEAD_HEIGHT, right - left, height - HEAD_HEIGHT);
    context.fillStyle = theme.accent;
    context.fillRect(left, HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
    context.fillRect(right - 1, HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
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
        this.see(0, this.#whole);
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
        this.#pick(node, event.shiftKey);
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
    const whole = this.#whole;
    const span = Math.min(whole * 1.02, Math.max(to - from, whole / 1e7, 1e-3));
    this.from = Math.max(0, Math.min(from, whole * 1.02 - span));
    this.to = this.from + span;
    if (this.from === 0 && this.to > whole) this.to = whole;
    for (const moved of this.#moved) moved();
    this.rows.invalidate();
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
      this.see(0, this.#whole);
      return;
    }
    const from = Math.min(...picked.map((node) => forest.start[node]!));
    const to = Math.max(...picked.map((node) => forest.start[node]! + forest.span[node]!));
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

  #pick(node: number, add: boolean): void {
    const { picked } = this.state;
    if (!add) this.state.choose([node]);
    else this.state.choose(this.state.isPicked(node) ? picked.filter((each) => each !== node) : [...picked, node]);
  }

  #onTwisty(node: number, x: number): boolean {
    const step = Math.min(15, (this.#split * 0.42) / this.#maxDepth);
    const at = 12 + this.state.forest.depth[node]! * step;
    return this.state.forest.children[node]! > 0 && x >= at - 8 && x <= at + 10;
  }

  #pointer(): void {
    const { canvas } = this.rows;
    let drag: { kind: 'brush' | 'pan' | 'split'; x: number; moved: boolean; from: number } | null = null;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button > 1) return;
      const { x, y } = this.rows.locate(event);
      if (Math.abs(x - this.#split) <= 4) drag = { kind: 'split', x, moved: false, from: 0 };
      else if (x > this.#split && (y < HEAD_HEIGHT || event.button === 1)) drag = { kind: 'pan', x, moved: false, from: this.from };
      else if (x > this.#split && this.look === 'timeline') drag = { kind: 'brush', x, moved: false, from: timeOf(this.scale, x) };
      if (drag !== null) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      const { x, y, row } = this.rows.locate(event);
      if (drag === null) {
        canvas.style.cursor = Math.abs(x - this.#split) <= 4 ? 'col-resize' : y < HEAD_HEIGHT && x > this.#split ? 'grab' : 'default';
        const node = row < 0 ? -1 : this.state.visible[row]!;
        if (node !== this.state.hover) {
          this.state.hover = node;
          this.state.tell('hover');
        }
        return;
      }
      drag.moved ||= Math.abs(x - drag.x) > DRAG_PX;
      if (!drag.moved) return;
      if (drag.kind === 'split') {
        this.#splitWanted = x;
        this.rows.invalidate();
      } else if (drag.kind === 'pan') {
        const { left, right } = this.scale;
        const by = ((x - drag.x) / (right - left)) * (this.to - this.from);
        this.see(drag.from - by, drag.from - by + (this.to - this.from));
      } else {
        const at = Math.max(0, timeOf(this.scale, x));
        this.state.range = [Math.max(0, Math.min(at, drag.from)), Math.max(at, drag.from)];
        for (const moved of this.#moved) moved();
        this.rows.invalidate();
      }
    });
    canvas.addEventListener('pointerup', (event) => {
      const done = drag;
      drag = null;
      if (done?.moved === true) {
        if (done.kind === 'brush' && this.state.range !== null) this.state.choose([], this.state.range);
        return;
      }
      const { x, row } = this.rows.locate(event);
      const node = this.state.visible[row];
      if (row < 0 || node === undefined || done?.kind === 'split') return;
      this.rows.element.focus({ preventScroll: true });
      this.rows.activate(row, false);
      if (this.#onTwisty(node, x)) this.state.fold(node, this.state.folded[node] === 0);
      else this.#pick(node, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    canvas.addEventListener('pointercancel', () => {
      drag = null;
    });
    canvas.addEventListener('pointerleave', () => {
      if (this.state.hover < 0) return;
      this.state.hover = -1;
      this.state.tell('hover');
    });
    canvas.addEventListener('dblclick', (event) => {
      const { x, y, row } = this.rows.locate(event);
      const node = this.state.visible[row];
      if (y < HEAD_HEIGHT && x > this.#split) this.see(0, this.#whole);
      else if (node !== undefined && !this.#onTwisty(node, x)) this.state.fold(node, this.state.folded[node] === 0);
    });
    this.rows.element.addEventListener(
      'wheel',
      (event) => {
        const { x } = this.rows.locate(event);
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), timeOf(this.scale, x));
        else if (sideways !== 0 && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
          this.pan((sideways / Math.max(1, this.scale.right - this.scale.left)) * (this.to - this.from));
        } else return;
        event.preventDefault();
      },
      { passive: false },
    );
  }
}
