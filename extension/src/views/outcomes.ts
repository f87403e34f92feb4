/** How things ended: counts, or shares of time, by category; over labels, models or runs. A click selects what it stands for. */
import { choice, el } from '../dom/build.ts';
import { drawEnd, drawFill } from '../draw/marks.ts';
import { Rows, write, type Frame, type RowsSource, type Told } from '../draw/rows.ts';
import { CATEGORIES, COUNTED } from '../model/categories.ts';
import { KINDS } from '../model/kinds.ts';
import { groupOrder, groupSum, tally, type Tally } from '../model/tally.ts';
import { show } from '../text.ts';
import { count, durationText, percentText, plural } from '../words.ts';
import type { State } from './state.ts';

const BY = ['label', 'model', 'run'] as const;
const MEASURES = ['count', 'time'] as const;
const ROW_HEIGHT = 24;
const BAR_HEIGHT = 13;

export interface OutcomeMark {
  readonly group: string;
  readonly category: string;
  readonly value: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export class Outcomes implements RowsSource {
  readonly name = 'Stop reasons';
  readonly role = 'listbox';
  readonly rowHeight = ROW_HEIGHT;
  readonly headHeight = 0;
  readonly element: HTMLDivElement;
  readonly rows: Rows;
  #kind: number;
  #by: (typeof BY)[number] = 'label';
  #measure: (typeof MEASURES)[number] = 'count';
  #names: string[] = [];
  #order: Int32Array = new Int32Array(0);
  #tally: Tally | null = null;
  #groups: { names: string[]; group: Int32Array } | null = null;
  readonly #summary: HTMLElement;

  constructor(
    root: HTMLElement,
    private readonly state: State,
  ) {
    this.#kind = state.countedKinds[0] ?? 1;
    this.rows = new Rows(root, this);
    this.#summary = el('span');
    const kinds = state.countedKinds;
    const changed = (): void => {
      this.#tally = null;
      this.rows.invalidate();
    };
    const head = el('div', { class: 'clab-panel-head' }, el('strong', {}, 'stop reasons'));
    if (kinds.length > 1) {
      const words = kinds.map((kind) => `${KINDS[kind]!}s`);
      head.append(
        choice('what is counted', words, (place) => {
          this.#kind = kinds[place]!;
          this.#groups = null;
          changed();
        }),
      );
    }
    head.append(
      choice(
        'by',
        BY.map((by) => `by ${by}`),
        (place) => {
          this.#by = BY[place]!;
          this.#groups = null;
          changed();
        },
      ),
      choice('measure', ['count', 'share of time'], (place) => {
        this.#measure = MEASURES[place]!;
        changed();
      }),
      this.#summary,
    );
    this.element = el('div', { class: 'clab-panel clab-fill' }, head, this.rows.element);
    state.listen((change) => {
      if (change === 'rows' || change === 'selection') changed();
    });
    this.#pointer();
  }

  /** The first row is everything together. */
  count(): number {
    const { order } = this.#counted();
    return order.length === 0 ? 0 : order.length + 1;
  }

  #counted(): { tally: Tally; order: Int32Array } {
    if (this.#tally === null) {
      const { state } = this;
      this.#groups ??= this.#group();
      this.#names = this.#groups.names;
      this.#tally = tally(this.#groups.group, this.#names.length, state.forest.category, state.forest.span, (node) =>
        this.#counts(node),
      );
      this.#order = groupOrder(this.#values(this.#tally), this.#names.length);
      this.#summary.textContent = this.#words(this.#totals(this.#tally));
    }
    return { tally: this.#tally, order: this.#order };
  }

  #counts(node: number): boolean {
    return this.state.counts(node) && (this.state.only ? this.state.left(node) : this.state.shown(node));
  }

  #group(): { names: string[]; group: Int32Array } {
    const { state } = this;
    const places = new Map<string, number>();
    const group = new Int32Array(state.forest.size).fill(-1);
    for (let node = 0; node < state.forest.size; node++) {
      if (state.forest.kind[node] !== this.#kind) continue;
      const name = state.group(node, this.#by);
      let place = places.get(name);
      if (place === undefined) {
        place = places.size;
        places.set(name, place);
      }
      group[node] = place;
    }
    return { names: [...places.keys()], group };
  }

  #values(counted: Tally): Float64Array {
    return this.#measure === 'count' ? counted.counts : counted.times;
  }

  #totals(counted: Tally): Float64Array {
    const totals = new Float64Array(COUNTED);
    this.#values(counted).forEach((value, place) => (totals[place % COUNTED]! += value));
    return totals;
  }

  #words(values: Float64Array): string {
    const sum = groupSum(values, 0);
    if (sum === 0) return 'nothing ended here';
    const many = this.#measure === 'count' ? plural(sum, KINDS[this.#kind]!) : durationText(sum);
    const parts = CATEGORIES.slice(0, COUNTED).flatMap(({ name }, category) => {
      const value = values[category]!;
      if (value <= 0) return [];
      return [`${this.#measure === 'count' ? count(value) : percentText(value, sum)} ${name}`];
    });
    return `${many}: ${parts.join(', ')}`;
  }

  #row(row: number): { name: string; values: Float64Array } {
    const { tally: counted, order } = this.#counted();
    if (row === 0) return { name: 'all', values: this.#totals(counted) };
    const group = order[row - 1]!;
    return {
      name: show(this.#names[group]!) || '(no name)',
      values: this.#values(counted).slice(group * COUNTED, (group + 1) * COUNTED),
    };
  }

  /** Where the segments of a row are. */
  segments(row: number, width: number, y: number): OutcomeMark[] {
    const { name, values } = this.#row(row);
    const left = this.#left(width);
    const room = Math.max(20, width - left - 190);
    const largest = groupSum(this.#row(0).values, 0);
    const marks: OutcomeMark[] = [];
    let x = left;
    CATEGORIES.slice(0, COUNTED).forEach((category, number) => {
      const value = values[number]!;
      if (value <= 0) return;
      const wide = Math.max(2, (value / largest) * room);
      marks.push({
        group: name,
        category: category.name,
        value,
        x,
        y: y + (ROW_HEIGHT - BAR_HEIGHT) / 2,
        width: wide,
        height: BAR_HEIGHT,
      });
      x += wide;
    });
    return marks;
  }

  #left(width: number): number {
    return Math.round(Math.min(190, width * 0.32));
  }

  drawRow(frame: Frame, row: number, y: number): void {
    const { context, theme, width } = frame;
    const { name, values } = this.#row(row);
    const middle = y + ROW_HEIGHT / 2;
    write(frame, name, 12, middle, { max: this.#left(width) - 20, font: row === 0 ? 'bold' : 'font' });
    const segments = this.segments(row, width, y);
    let end = this.#left(width);
    for (const mark of segments) {
      const category = CATEGORIES.find((each) => each.name === mark.category)!;
      drawFill(context, category, frame.fills, mark.x, mark.y, Math.max(1, mark.width - 1), mark.height);
      end = mark.x + mark.width;
    }
    const last = segments.at(-1);
    const category = last === undefined ? undefined : CATEGORIES.find((each) => each.name === last.category);
    if (last !== undefined && category !== undefined)
      end += drawEnd(context, category, theme, end - 1, last.y, last.height, last.width);
    const sum = groupSum(values, 0);
    const bad = sum - values[0]!;
    const many = this.#measure === 'count' ? count(sum) : durationText(sum);
    const words = bad > 0 ? `${many} · ${percentText(bad, sum)} not completed` : many;
    write(frame, words, end + 7, middle, { colour: theme.muted, max: width - end - 12 });
  }

  drawOver(frame: Frame): void {
    if (this.count() === 0)
      write(frame, 'nothing to count', frame.width / 2, 30, { colour: frame.theme.muted, align: 'center' });
  }

  tell(row: number): Told {
    const { name, values } = this.#row(row);
    return {
      text: `${name}: ${this.#words(values)}`,
      level: 1,
      position: row + 1,
      siblings: this.count(),
      expanded: null,
      selected: false,
    };
  }

  pressed(row: number): void {
    this.#choose(row, null);
  }

  key(event: KeyboardEvent, row: number): boolean {
    if (event.key !== 'Enter' && event.key !== ' ') return false;
    this.#choose(row, null);
    return true;
  }

  /** The segments of the rows in sight. */
  marks(): OutcomeMark[] {
    const [first, past] = this.rows.sight;
    return Array.from({ length: Math.max(0, past - first) }, (_, i) =>
      this.segments(first + i, this.rows.element.clientWidth, this.rows.topOf(first + i)),
    ).flat();
  }

  #choose(row: number, category: string | null): void {
    const { state } = this;
    const { order } = this.#counted();
    const group = row === 0 ? -1 : order[row - 1]!;
    const groups = this.#groups!.group;
    const nodes: number[] = [];
    for (let node = 0; node < state.forest.size; node++) {
      if (groups[node]! < 0 || (group >= 0 && groups[node] !== group) || !this.#counts(node)) continue;
      if (category === null || CATEGORIES[state.forest.category[node]!]!.name === category) nodes.push(node);
    }
    state.chooseOnly(row === 0 && category === null ? [] : nodes);
  }

  #pointer(): void {
    this.rows.canvas.addEventListener('click', (event) => {
      const { x, y, row } = this.rows.locate(event);
      if (row < 0) return;
      this.rows.element.focus({ preventScroll: true });
      this.rows.activate(row);
      const hit = this.segments(row, this.rows.element.clientWidth, this.rows.topOf(row)).find(
        (mark) => x >= mark.x && x < mark.x + mark.width && y >= mark.y && y <= mark.y + mark.height,
      );
      this.#choose(row, hit?.category ?? null);
    });
  }
}
