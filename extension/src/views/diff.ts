/**
 * Two recordings side by side: each aligned call with its expected and its actual bar on one axis, the difference between
 * them as a signed bar in the middle; added and removed calls in their parent's place.
 */
import { button, choice, el } from '../dom/build.ts';
import { drawTwisty } from '../draw/icons.ts';
import { drawEnd, drawFill, pixelOf } from '../draw/marks.ts';
import { Rows, write, type Frame, type RowsSource, type Told } from '../draw/rows.ts';
import { ADDED, BOUNDARY, OUTCOME, REMOVED } from '../model/align.ts';
import { CATEGORIES, PALE } from '../model/categories.ts';
import type { Comparison, Side } from '../model/comparison.ts';
import { timeTicks } from '../model/load.ts';
import { callLabel } from '../model/names.ts';
import { filterMask, visibleNodes } from '../model/order.ts';
import { show } from '../text.ts';
import { axisText, deltaPercent, deltaText, durationText } from '../words.ts';
import { callDetail, verdictOf, type DiffFacts } from './changes.ts';
import type { RowsByTable } from './state.ts';

const ROW_HEIGHT = 22;
const HEAD_HEIGHT = 40;
const BAR_HEIGHT = 11;

export interface DiffMark {
  readonly node: number;
  readonly part: 'expected' | 'delta' | 'actual';
  readonly expected: number;
  readonly actual: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

interface Columns {
  readonly name: number;
  readonly expected: readonly [number, number];
  readonly delta: readonly [number, number];
  readonly actual: readonly [number, number];
}

/** Whether the column of differences has no room for bars beside the words. */
function isThin({ delta }: Columns): boolean {
  return delta[1] - delta[0] < 190;
}

export class Diff implements RowsSource {
  readonly name = 'Two recordings side by side';
  readonly role = 'tree';
  readonly rowHeight = ROW_HEIGHT;
  readonly headHeight = HEAD_HEIGHT;
  readonly rows: Rows;
  readonly element: HTMLDivElement;
  readonly #folded: Uint8Array;
  readonly #detail: HTMLDivElement;
  readonly #largest: number;
  #mask: Uint8Array | null = null;
  #visible: Int32Array;
  #relative = false;
  #picked = -1;
  #hover = -1;

  constructor(
    root: HTMLElement,
    private readonly comparison: Comparison,
    private readonly facts: DiffFacts,
    private readonly selected: (rows: RowsByTable) => void,
  ) {
    this.#folded = new Uint8Array(comparison.size);
    this.#visible = visibleNodes(comparison.end, this.#folded, null);
    this.#largest = comparison.delta.reduce((most, each) => (Math.abs(each) > most ? Math.abs(each) : most), 0.05);
    this.rows = new Rows(root, this);
    this.#detail = el('div', { class: 'clab-detail', tabindex: 0, role: 'group', 'aria-label': 'the selected call' });
    this.#detail.hidden = true;
    this.element = el(
      'div',
      { class: 'clab-panel clab-fill' },
      verdictOf(comparison, facts),
      this.#bar(),
      this.rows.element,
      this.#detail,
    );
    this.#detail.style.flex = '0 1 auto';
    this.#detail.style.maxHeight = '38%';
    this.#pointer();
  }

  #bar(): HTMLElement {
    const changed = this.comparison.change.some((each) => each !== 0);
    const only = button(
      'changes only',
      () => {
        const pressed = only.getAttribute('aria-pressed') !== 'true';
        only.setAttribute('aria-pressed', String(pressed));
        this.#mask = pressed ? filterMask(this.comparison.parent, (node) => this.comparison.change[node] !== 0) : null;
        this.#refresh();
      },
      { 'aria-pressed': 'false' },
    );
    only.disabled = !changed;
    const previous = button(
      'previous',
      () => {
        this.step(-1);
      },
      { title: 'previous change (p)' },
    );
    const next = button(
      'next',
      () => {
        this.step(1);
      },
      { title: 'next change (n)' },
    );
    previous.disabled = next.disabled = !changed;
    const deltas = choice('differences', ['bars by time', 'bars by percent'], (place) => {
      this.#relative = place === 1;
      this.rows.invalidate();
    });
    return el('div', { class: 'clab-bar', role: 'toolbar', 'aria-label': 'changes' }, only, previous, next, deltas);
  }

  /** Go to the next change, or the one before. */
  step(by: 1 | -1): void {
    const { change, size } = this.comparison;
    const from = this.#visible[this.rows.active] ?? 0;
    for (let i = 1; i <= size; i++) {
      const node = (from + by * i + 2 * size) % size;
      if (change[node] === 0) continue;
      for (let above = this.comparison.parent[node]!; above >= 0; above = this.comparison.parent[above]!)
        this.#folded[above] = 0;
      this.#refresh();
      this.rows.activate(this.#visible.indexOf(node));
      this.#pick(node);
      return;
    }
  }

  #refresh(): void {
    this.#visible = visibleNodes(this.comparison.end, this.#folded, this.#mask);
    this.rows.invalidate();
  }

  count(): number {
    return this.#visible.length;
  }

  #columns(width: number): Columns {
    const name = Math.round(Math.max(120, width * 0.26));
    const rest = width - name;
    const middle = Math.round(Math.max(rest * 0.3, 84));
    const half = (rest - middle) / 2;
    return {
      name,
      expected: [name + 8, name + half - 10],
      delta: [name + half, name + half + middle],
      actual: [name + half + middle + 8, width - 14],
    };
  }

  #label(node: number): string {
    const { actual, expected, actualRow, expectedRow } = this.comparison;
    const isThere = actualRow[node]! >= 0;
    return isThere ? callLabel(actual.table, actualRow[node]!) : callLabel(expected.table, expectedRow[node]!);
  }

  /** Where the name of a call begins. */
  #indent(node: number, columns: Columns): number {
    const depth = this.comparison.depth[node]!;
    return 14 + Math.min(14 * depth, columns.name * 0.35);
  }

  /** Where the bars of a row are. */
  #rowMarks(node: number, width: number, y: number): DiffMark[] {
    const { comparison } = this;
    const columns = this.#columns(width);
    const top = y + (ROW_HEIGHT - BAR_HEIGHT) / 2;
    const [expected, actual] = [comparison.expectedRow[node]!, comparison.actualRow[node]!];
    const marks: DiffMark[] = [];
    const put = (part: DiffMark['part'], from: number, to: number): void => {
      marks.push({
        node,
        part,
        expected,
        actual,
        x: Math.min(from, to),
        y: top,
        width: Math.max(2, Math.abs(to - from)),
        height: BAR_HEIGHT,
      });
    };
    for (const [part, side, row] of [
      ['expected', comparison.expected, expected],
      ['actual', comparison.actual, actual],
    ] as const) {
      if (row < 0) continue;
      const scale = { from: 0, to: comparison.total, left: columns[part][0], right: columns[part][1] };
      put(part, pixelOf(scale, side.start[row]!), pixelOf(scale, side.start[row]! + side.duration[row]!));
    }
    const delta = comparison.delta[node]!;
    if (Math.abs(delta) >= 0.05) {
      const zero = (columns.delta[0] + columns.delta[1]) / 2;
      const thin = isThin(columns);
      const room = (columns.delta[1] - columns.delta[0]) / 2 - (thin ? 4 : 74);
      const share = this.#relative
        ? Math.max(-1, Math.min(1, delta / Math.max(comparison.expected.duration[expected]!, 1e-3) / 2))
        : delta / this.#largest;
      put('delta', zero, zero + share * room);
      // Where there is room for the words alone, the bar runs under them.
      if (thin) marks.push({ ...marks.pop()!, y: y + ROW_HEIGHT - 4, height: 2 });
    }
    return marks;
  }

  drawRow(frame: Frame, row: number, y: number): void {
    const { context, theme, width } = frame;
    const { comparison } = this;
    const node = this.#visible[row]!;
    const middle = y + ROW_HEIGHT / 2;
    const change = comparison.change[node]!;
    if (node === this.#picked || node === this.#hover) {
      context.fillStyle = node === this.#picked ? theme.chosen : theme.chosenPale;
      context.fillRect(0, y, width, ROW_HEIGHT);
    }
    if (change !== 0) {
      context.fillStyle = change === ADDED ? theme.quicker : change === REMOVED ? theme.muted : theme.slower;
      context.fillRect(0, y + 2, 3, ROW_HEIGHT - 4);
    }
    const columns = this.#columns(width);
    const x = this.#indent(node, columns);
    if (comparison.children[node]! > 0) drawTwisty(context, theme.muted, this.#folded[node] === 1, x, middle);
    const said =
      change === ADDED
        ? '+ added'
        : change === REMOVED
          ? '− removed'
          : (change & OUTCOME) !== 0
            ? '≠ outcome'
            : (change & BOUNDARY) !== 0
              ? '≠ boundary'
              : '';
    const word = columns.name < 180 ? said.slice(0, 1) : said;
    const taken = word === '' ? 0 : frame.small.width(word) + 10;
    write(frame, this.#label(node), x + 11, middle, { max: columns.name - x - 20 - taken });
    if (word !== '') write(frame, word, columns.name - 8, middle, { align: 'right', font: 'small' });
    for (const mark of this.#rowMarks(node, width, y)) {
      if (mark.part === 'delta') {
        context.fillStyle = comparison.delta[node]! > 0 ? theme.slower : theme.quicker;
        context.fillRect(mark.x, mark.y, mark.width, mark.height);
        continue;
      }
      const side = mark.part === 'expected' ? comparison.expected : comparison.actual;
      this.#drawSide(frame, side, mark.part === 'expected' ? mark.expected : mark.actual, mark, columns[mark.part]);
    }
    this.#drawDelta(frame, node, columns, middle);
  }

  #drawSide(frame: Frame, side: Side, row: number, mark: DiffMark, [left, right]: readonly [number, number]): void {
    const { context, theme } = frame;
    const category = CATEGORIES[side.category[row]!]!;
    const share = side.duration[row]! > 0 ? Math.min(1, Math.max(0, side.latency[row]! / side.duration[row]!)) : 0;
    const pale = category.fill === 'hollow' || Number.isNaN(share) ? 0 : mark.width * share;
    if (pale > 0) {
      context.globalAlpha = PALE;
      drawFill(context, category, frame.fills, mark.x, mark.y, pale, mark.height);
      context.globalAlpha = 1;
    }
    drawFill(context, category, frame.fills, mark.x + pale, mark.y, Math.max(1, mark.width - pale), mark.height);
    const end = mark.x + mark.width;
    const beyond = drawEnd(context, category, theme, end, mark.y, mark.height, mark.width);
    const words = durationText(side.duration[row]!);
    const wide = frame.small.width(words);
    const y = mark.y + mark.height / 2;
    if (end + beyond + 6 + wide <= right + 8) write(frame, words, end + beyond + 5, y, { font: 'small' });
    else if (mark.x - 5 - wide >= left) write(frame, words, mark.x - 5, y, { font: 'small', align: 'right' });
  }

  #drawDelta(frame: Frame, node: number, columns: Columns, y: number): void {
    const { comparison } = this;
    const delta = comparison.delta[node]!;
    const zero = (columns.delta[0] + columns.delta[1]) / 2;
    const { theme } = frame;
    if (Number.isNaN(delta)) {
      const only = comparison.change[node] === ADDED ? 'only actual' : 'only expected';
      write(frame, only, zero, y, { align: 'center', colour: theme.faint, font: 'small' });
      return;
    }
    const percent = deltaPercent(
      comparison.expected.duration[comparison.expectedRow[node]!]!,
      comparison.actual.duration[comparison.actualRow[node]!]!,
    );
    const words = this.#relative ? percent : deltaText(delta);
    if (isThin(columns)) {
      write(frame, words, zero, y, { align: 'center', colour: theme.ink, font: 'small' });
      return;
    }
    if (Math.abs(delta) < 0.05) {
      write(frame, words, zero + 6, y, { colour: theme.faint, font: 'small' });
      return;
    }
    // The other measure stands on the side that has no bar.
    const [place, align] = delta > 0 ? ([columns.delta[1] - 4, 'right'] as const) : ([columns.delta[0] + 4, 'left'] as const);
    write(frame, words, place, y, { align, colour: theme.ink, font: 'small' });
    const other = this.#relative ? deltaText(delta) : percent;
    write(frame, other, zero + (delta > 0 ? -7 : 7), y, { align, font: 'small' });
  }

  begin(frame: Frame): void {
    const { context, theme, height, width } = frame;
    const { delta } = this.#columns(width);
    context.fillStyle = theme.band;
    context.globalAlpha = 0.6;
    context.fillRect(delta[0], HEAD_HEIGHT, delta[1] - delta[0], height);
    context.globalAlpha = 1;
    context.fillStyle = theme.grid;
    context.fillRect(Math.round((delta[0] + delta[1]) / 2), HEAD_HEIGHT, 1, height);
  }

  drawOver(frame: Frame): void {
    const { context, theme, width } = frame;
    const { facts } = this;
    const columns = this.#columns(width);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, HEAD_HEIGHT);
    const names = { expected: facts.expected ?? 'expected', actual: facts.actual ?? 'actual' };
    for (const part of ['expected', 'actual'] as const) {
      const [left, right] = columns[part];
      write(frame, show(names[part]), left, 11, { font: 'bold', max: right - left });
      const scale = { from: 0, to: this.comparison.total, left, right };
      const { values, step } = timeTicks(0, scale.to, Math.max(1, Math.floor((right - left) / 80)));
      for (const value of values) {
        const x = pixelOf(scale, value);
        write(frame, axisText(value, step, scale.to), x + 2, 29, { font: 'small', max: right + 10 - x });
        context.fillStyle = theme.grid;
        context.fillRect(Math.round(x), HEAD_HEIGHT - 7, 1, 7);
      }
    }
    const middle = (columns.delta[0] + columns.delta[1]) / 2;
    write(frame, 'duration', middle, 11, { align: 'center', font: 'small' });
    const thin = isThin(columns);
    write(frame, thin ? '←' : '← quicker', middle - 8, 29, { align: 'right', font: 'small' });
    write(frame, thin ? '→' : 'slower →', middle + 8, 29, { font: 'small' });
    context.fillStyle = theme.grid;
    context.fillRect(0, HEAD_HEIGHT - 1, width, 1);
    if (this.count() === 0)
      write(frame, this.comparison.size === 0 ? 'neither recording has calls' : 'no changes', width / 2, 80, {
        align: 'center',
        colour: theme.muted,
      });
  }

  #sentence(node: number): string {
    const { comparison } = this;
    const [old, now, change] = [comparison.expectedRow[node]!, comparison.actualRow[node]!, comparison.change[node]!];
    const name = (side: Side, row: number): string =>
      `${CATEGORIES[side.category[row]!]!.name}, ${durationText(side.duration[row]!)}`;
    const parts = [this.#label(node)];
    if (change === ADDED) parts.push('added', name(comparison.actual, now));
    else if (change === REMOVED) parts.push('removed', name(comparison.expected, old));
    else {
      if ((change & OUTCOME) !== 0) parts.push('outcome changed');
      if ((change & BOUNDARY) !== 0) parts.push('boundary changed');
      parts.push(`expected ${name(comparison.expected, old)}`, `actual ${name(comparison.actual, now)}`);
      parts.push(
        `${deltaText(comparison.delta[node]!)} (${deltaPercent(comparison.expected.duration[old]!, comparison.actual.duration[now]!)})`,
      );
    }
    return parts.join(', ');
  }

  tell(row: number): Told {
    const node = this.#visible[row]!;
    const { comparison } = this;
    return {
      text: this.#sentence(node),
      level: comparison.depth[node]! + 1,
      position: row + 1,
      siblings: this.count(),
      expanded: comparison.children[node]! > 0 ? this.#folded[node] === 0 : null,
      selected: node === this.#picked,
    };
  }

  pressed(row: number): void {
    this.rows.activate(row);
    this.#pick(this.#visible[row]!);
  }

  key(event: KeyboardEvent, row: number): boolean {
    if (event.key === 'n' || event.key === 'p') {
      this.step(event.key === 'n' ? 1 : -1);
      return true;
    }
    const node = this.#visible[row];
    if (node === undefined) return false;
    const hasChildren = this.comparison.children[node]! > 0;
    if (event.key === ' ' || (event.key === 'Enter' && !hasChildren)) {
      this.#pick(node);
      return true;
    }
    const fold =
      event.key === 'ArrowLeft'
        ? true
        : event.key === 'ArrowRight'
          ? false
          : event.key === 'Enter'
            ? this.#folded[node] === 0
            : null;
    if (fold === null) return false;
    if (hasChildren) this.#fold(node, fold);
    return true;
  }

  /** Pick the call that a row of either side stands for. */
  select(rows: RowsByTable): void {
    const [old, now] = [rows['expected']?.[0] ?? -1, rows['actual']?.[0] ?? -1];
    const node = this.comparison.expectedRow.findIndex(
      (row, place) => (old >= 0 && row === old) || (now >= 0 && this.comparison.actualRow[place] === now),
    );
    this.#pick(node);
    const row = this.#visible.indexOf(node);
    if (row >= 0) this.rows.activate(row);
  }

  clear(): boolean {
    if (this.#picked < 0) return false;
    this.#pick(-1);
    return true;
  }

  /** The bars of the rows in sight. */
  marks(): DiffMark[] {
    const [first, past] = this.rows.sight;
    return Array.from({ length: Math.max(0, past - first) }, (_, i) =>
      this.#rowMarks(this.#visible[first + i]!, this.rows.element.clientWidth, this.rows.topOf(first + i)),
    ).flat();
  }

  #fold(node: number, folded: boolean): void {
    this.#folded[node] = folded ? 1 : 0;
    this.#refresh();
  }

  #pick(node: number): void {
    this.#picked = node;
    this.#detail.hidden = node < 0;
    this.rows.invalidate();
    const { expectedRow, actualRow } = this.comparison;
    const rows: RowsByTable = {};
    if (node >= 0 && expectedRow[node]! >= 0) rows['expected'] = [expectedRow[node]!];
    if (node >= 0 && actualRow[node]! >= 0) rows['actual'] = [actualRow[node]!];
    this.selected(rows);
    if (node >= 0) this.#detail.replaceChildren(...callDetail(this.comparison, node));
  }

  #pointer(): void {
    const { canvas } = this.rows;
    canvas.addEventListener('pointermove', (event) => {
      const { row } = this.rows.locate(event);
      const node = row < 0 ? -1 : this.#visible[row]!;
      if (node !== this.#hover) {
        this.#hover = node;
        this.rows.invalidate();
      }
    });
    canvas.addEventListener('click', (event) => {
      const { x, row } = this.rows.locate(event);
      const node = this.#visible[row];
      if (row < 0 || node === undefined) return;
      this.rows.element.focus({ preventScroll: true });
      this.rows.activate(row);
      const at = this.#indent(node, this.#columns(this.rows.element.clientWidth));
      if (this.comparison.children[node]! > 0 && Math.abs(x - at) < 9) this.#fold(node, this.#folded[node] === 0);
      else this.#pick(node);
    });
    canvas.addEventListener('dblclick', (event) => {
      const node = this.#visible[this.rows.locate(event).row];
      if (node !== undefined && this.comparison.children[node]! > 0) this.#fold(node, this.#folded[node] === 0);
    });
  }
}
