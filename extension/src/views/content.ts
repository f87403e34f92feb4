/** What stands inside a mounted view: its head, its parts, and how they work together. */
import { Table } from '../data/table.ts';
import { button, el } from '../dom/build.ts';
import { downloadButtons, type Handle, type ViewOptions } from '../mount.ts';
import { isNotCompleted } from '../model/categories.ts';
import { compare } from '../model/comparison.ts';
import { buildForest } from '../model/forest.ts';
import { CALL, INHERITED, KINDS, SESSION } from '../model/kinds.ts';
import { sentenceOf } from '../model/names.ts';
import { show } from '../text.ts';
import { count, durationText, plural } from '../words.ts';
import { Detail } from './detail.ts';
import { Diff } from './diff.ts';
import { csvOf, Grid } from './grid.ts';
import { drawLegend } from './legend.ts';
import { Outcomes } from './outcomes.ts';
import { State, type Filter, type RowsByTable, type Selection } from './state.ts';
import { Strip } from './strip.ts';
import { Toolbar } from './toolbar.ts';
import { Waterfall } from './waterfall.ts';

export type ViewName = 'topology' | 'timeline' | 'stop_reasons' | 'diff' | 'table' | 'explorer';

export interface Content {
  readonly elements: readonly HTMLElement[];
  /** Say something else above: title, trust, progress, problem. Nothing else moves. */
  head(options: ViewOptions): void;
  /** What a person did here, for the content that comes after this one with more rows. */
  done(): Done;
  redo(done: Done): void;
  draw(): void;
  retheme(): void;
  select(rows: RowsByTable): void;
  key(event: KeyboardEvent): boolean;
  marks(): readonly object[];
  csv(): string;
  dispose(): void;
}

/** Rows that are folded and picked, the filter, and what is in sight. */
export interface Done {
  readonly folded?: RowsByTable;
  readonly picked?: RowsByTable;
  readonly filter?: Filter;
  readonly sight?: { readonly top: number; readonly from: number; readonly to: number; readonly whole: boolean };
}

export interface Outside {
  select(selection: Selection): void;
  act(id: string): void;
  handle(): Handle;
}

export function contentOf(
  root: HTMLElement,
  view: ViewName,
  tables: Readonly<Record<string, Table>>,
  options: ViewOptions,
  outside: Outside,
): Content {
  if (view === 'diff') return diffContent(root, tables, options, outside);
  return new Linked(root, view, tables, options, outside);
}

/** Name, trust, counts; a bar while rows still come; the sentence of what went wrong. */
function headOf(options: ViewOptions, facts: string): HTMLElement[] {
  const made: HTMLElement[] = [];
  const { title, trust, bodies, progress, problem } = options;
  if (title !== undefined || trust !== undefined) {
    const head = el('div', { class: 'clab-head' });
    if (title !== undefined) head.append(el('span', { class: 'clab-title' }, show(title)));
    if (trust !== undefined) {
      const sign = { verified: '✓', partial: '◐', unverified: '?', verifying: '…', broken: '✕' }[trust.state];
      head.append(el('span', { class: 'clab-trust', 'data-state': trust.state }, `${sign} ${show(trust.words)}`));
    }
    const words = [facts, bodies === undefined ? '' : bodies ? 'with bodies' : 'metadata only'].filter((part) => part !== '');
    head.append(el('span', { class: 'clab-facts' }, words.join(' · ')));
    made.push(head);
  }
  if (progress !== undefined && progress !== null) {
    const done = el('div');
    done.style.width = `${Math.round(100 * Math.max(0, Math.min(1, progress)))}%`;
    made.push(
      el(
        'div',
        {
          class: 'clab-progress',
          role: 'progressbar',
          'aria-valuenow': Math.round(100 * progress),
          'aria-valuemin': 0,
          'aria-valuemax': 100,
          'aria-label': 'reading',
        },
        done,
      ),
    );
  }
  if (problem !== undefined && problem !== null) made.push(el('div', { class: 'clab-message', role: 'alert' }, show(problem)));
  return made;
}

/** Views of one forest, linked by its state. */
class Linked implements Content {
  readonly elements: HTMLElement[] = [];
  readonly #state: State;
  readonly #waterfall: Waterfall | null = null;
  readonly #strip: Strip | null = null;
  readonly #outcomes: Outcomes | null = null;
  readonly #grid: Grid;
  readonly #toolbar: Toolbar;
  readonly #gridHolder: HTMLElement;
  readonly #root: HTMLElement;
  readonly #line: HTMLElement;
  readonly #top: HTMLElement;
  readonly #facts: string;
  readonly #legend: HTMLElement = el('div', { class: 'clab-legend', 'aria-hidden': 'true' });
  /** What is drawn once the rows are to be seen; null when that is done. */
  #later: (() => void) | null = null;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #diff: Diff | null = null;

  constructor(
    root: HTMLElement,
    view: Exclude<ViewName, 'diff'>,
    tables: Readonly<Record<string, Table>>,
    options: ViewOptions,
    outside: Outside,
  ) {
    this.#root = root;
    const state = new State(buildForest(tables));
    this.#state = state;
    const hasRows = view === 'topology' || view === 'timeline' || view === 'explorer';
    if (hasRows) this.#waterfall = new Waterfall(root, state, view === 'topology' ? 'topology' : 'timeline');
    this.#line = el('div', { class: 'clab-line', role: 'status' });
    this.#toolbar = new Toolbar(state, this.#waterfall, {
      lab: options.lab ?? 'lab',
      bothLooks: view === 'explorer',
      actions: options.actions ?? [],
      act: (id) => {
        outside.act(id);
      },
      say: (words) => {
        this.#line.hidden = false;
        this.#line.textContent = words;
      },
    });
    if (options.downloads === true) this.#toolbar.element.append(...downloadButtons(() => outside.handle(), view));
    this.#grid = new Grid(state);
    this.#facts = factsLine(state);
    this.#top = el('div', {}, ...headOf(options, this.#facts));
    this.elements.push(this.#top);
    const still = options.progress !== undefined && options.progress !== null;
    this.#gridHolder = el('div', { class: 'clab-split' }, this.#grid.element);
    if (state.forest.size === 0) {
      if (options.problem === undefined || options.problem === null)
        this.elements.push(el('div', { class: 'clab-message' }, still ? 'Rows are on their way.' : emptyWords(tables)));
      return;
    }
    this.elements.push(this.#toolbar.element);
    if (this.#waterfall !== null) this.elements.push(this.#waterfall.rows.element);
    if (this.#waterfall !== null && view !== 'topology') {
      this.#strip = new Strip(root, state, this.#waterfall);
      this.elements.push(this.#strip.element);
    }
    if (view === 'stop_reasons' || view === 'explorer') this.#outcomes = new Outcomes(root, state);
    const tall = typeof options.height !== 'number' || options.height >= 560;
    if (view === 'explorer') {
      const detail = new Detail(state);
      const bottom = el('div', { class: 'clab-split' }, this.#outcomes!.element, detail.element);
      bottom.style.height = tall ? '164px' : '130px';
      this.elements.push(bottom);
      this.#later = () => {
        detail.draw();
      };
    } else if (this.#outcomes !== null) this.elements.push(this.#outcomes.element);
    if (view === 'table') this.#gridHolder.className = 'clab-panel clab-fill';
    else {
      this.#gridHolder.style.height = '148px';
      this.#gridHolder.hidden = view !== 'explorer' || !tall;
    }
    this.elements.push(this.#gridHolder);
    if (hasRows) this.elements.push(this.#legend);
    if (view === 'topology' || view === 'timeline') this.#line.textContent = '\u00a0';
    else this.#line.hidden = true;
    this.elements.push(this.#line);
    if (view === 'explorer' && tables['expected'] !== undefined && tables['actual'] !== undefined)
      this.#addDiff(tables['expected'], tables['actual'], options);
    state.listen((change) => {
      if (change === 'selection') outside.select(state.selection);
      if (view !== 'topology' && view !== 'timeline') return;
      const node = state.hover >= 0 ? state.hover : (state.picked[0] ?? -1);
      if (change === 'hover' || change === 'selection')
        this.#line.textContent = node < 0 ? '\u00a0' : sentenceOf(state.forest, node);
    });
  }

  /** Two recordings, in the place of the one while `compare` is pressed; a call that is picked there is selected here. */
  #addDiff(expected: Table, actual: Table, options: ViewOptions): void {
    const { forest } = this.#state;
    const diff = new Diff(this.#root, compare(expected, actual), options.diff ?? {}, (rows) => {
      const [row] = rows['actual'] ?? [];
      const key = row === undefined ? null : actual.text('call_key', row);
      const node = forest.row.findIndex(
        (own, place) => key !== null && forest.kind[place] === CALL && forest.tables['calls']?.text('call_key', own) === key,
      );
      this.#state.choose(node < 0 ? [] : [node]);
    });
    diff.element.hidden = true;
    const press = button(
      'compare',
      () => {
        diff.element.hidden = !diff.element.hidden;
        for (const part of [this.#waterfall?.rows.element, this.#strip?.element, this.#legend])
          if (part !== undefined) part.hidden = !diff.element.hidden;
        press.setAttribute('aria-pressed', String(!diff.element.hidden));
        diff.rows.draw();
      },
      { 'aria-pressed': 'false', title: 'two recordings side by side' },
    );
    this.#toolbar.element.append(press);
    this.elements.splice(this.elements.indexOf(this.#waterfall!.rows.element), 0, diff.element);
    this.#diff = diff;
  }

  head(options: ViewOptions): void {
    this.#top.replaceChildren(...headOf(options, this.#facts));
  }

  done(): Done {
    const state = this.#state;
    const waterfall = this.#waterfall;
    const folded = Array.from(state.folded.keys()).filter((node) => state.folded[node] === 1);
    const done = { folded: state.rowsOf(folded), picked: state.rowsOf(state.picked), filter: state.filter };
    if (waterfall === null) return done;
    return {
      ...done,
      sight: { top: waterfall.rows.element.scrollTop, from: waterfall.from, to: waterfall.to, whole: waterfall.isWhole },
    };
  }

  redo({ folded, picked, filter, sight }: Done): void {
    const state = this.#state;
    if (folded !== undefined) for (const node of state.nodesOf(folded)) state.folded[node] = 1;
    if (filter !== undefined) this.#toolbar.filter(filter);
    if (picked !== undefined && Object.keys(picked).length > 0) state.choose(state.nodesOf(picked));
    const waterfall = this.#waterfall;
    if (sight === undefined || waterfall === null) return;
    if (!sight.whole) waterfall.see(sight.from, sight.to);
    waterfall.rows.draw();
    waterfall.rows.element.scrollTop = sight.top;
  }

  /** The rows first; all that stands around them when they are in sight. */
  draw(): void {
    const detail = this.#later;
    this.#later = () => {
      this.#strip?.draw();
      this.#outcomes?.rows.draw();
      detail?.();
      this.#grid.draw();
      drawLegend(this.#legend, this.#root, this.#state.forest);
    };
    if (this.#waterfall === null) {
      this.#finish();
      return;
    }
    this.#waterfall.rows.draw();
    this.#frame = requestAnimationFrame(() => {
      this.#timer = setTimeout(() => {
        this.#finish();
      });
    });
  }

  #finish(): void {
    const later = this.#later;
    this.#later = null;
    later?.();
  }

  retheme(): void {
    this.#waterfall?.rows.retheme();
    this.#outcomes?.rows.retheme();
    this.#diff?.rows.retheme();
    this.#strip?.invalidate();
    if (this.#later === null) drawLegend(this.#legend, this.#root, this.#state.forest);
  }

  select(rows: RowsByTable): void {
    const nodes = this.#state.nodesOf(rows);
    this.#state.choose(nodes);
    const [first] = nodes;
    if (first !== undefined) this.#waterfall?.show(first);
  }

  key(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === 'Escape') return this.#escape();
    if (typing) return false;
    if (event.key === '/') {
      this.#toolbar.search.focus();
      this.#toolbar.search.select();
      return true;
    }
    if (event.key === 't') return this.#toggleTable();
    return false;
  }

  /** First the search goes, then the selection. */
  #escape(): boolean {
    if (this.#toolbar.clear()) {
      this.#waterfall?.rows.element.focus();
      return true;
    }
    if (this.#state.chosen === null) return false;
    this.#state.choose([]);
    return true;
  }

  #toggleTable(): boolean {
    if (this.#gridHolder.className !== 'clab-split') return false;
    const open = this.#gridHolder.hidden;
    this.#gridHolder.hidden = !open;
    if (open) {
      this.#grid.refresh();
      this.#grid.focus();
    } else this.#waterfall?.rows.element.focus();
    return true;
  }

  marks(): readonly object[] {
    this.#finish();
    const rows = this.#diff?.element.hidden === false ? this.#diff.marks() : (this.#waterfall?.marks() ?? []);
    return [...rows, ...(this.#outcomes?.marks() ?? [])];
  }

  csv(): string {
    return this.#grid.csv();
  }

  dispose(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#waterfall?.rows.dispose();
    this.#strip?.dispose();
    this.#outcomes?.rows.dispose();
    this.#diff?.rows.dispose();
    this.#grid.dispose();
  }
}

/** `42 calls · 2 not completed · 18.3 s`. */
function factsLine(state: State): string {
  const { forest } = state;
  const parts: string[] = [];
  const [kind] = state.countedKinds;
  if (kind === undefined) return '';
  const sessions = forest.kind.includes(SESSION) ? forest.kind.filter((each) => each === SESSION).length : 0;
  if (sessions > 0) parts.push(plural(sessions, 'session'));
  const { kind: kinds, category, flags, size } = forest;
  let [all, bad] = [0, 0];
  for (let node = 0; node < size; node++) {
    if (kinds[node] !== kind || (flags[node]! & INHERITED) !== 0) continue;
    all++;
    if (isNotCompleted(category[node]!)) bad++;
  }
  parts.push(plural(all, KINDS[kind]!));
  if (bad > 0) parts.push(`${count(bad)} not completed`);
  parts.push(durationText(forest.total));
  return parts.join(' · ');
}

function emptyWords(tables: Readonly<Record<string, Table>>): string {
  if (tables['sessions'] !== undefined) return 'These logs hold no session.';
  return tables['flights'] !== undefined ? 'The recorder has seen no request.' : 'This recording has no calls.';
}

function diffContent(
  root: HTMLElement,
  tables: Readonly<Record<string, Table>>,
  options: ViewOptions,
  outside: Outside,
): Content {
  const [expected, actual] = [tables['expected'] ?? Table.empty, tables['actual'] ?? Table.empty];
  const comparison = compare(expected, actual);
  const diff = new Diff(root, comparison, options.diff ?? {}, (rows) => {
    outside.select({ picked: rows, rows, range: null });
  });
  const facts = `${count(expected.rows)} and ${plural(actual.rows, 'call')}`;
  const top = el('div', {}, ...headOf(options, facts));
  return {
    elements: [top, diff.element],
    head: (now) => {
      top.replaceChildren(...headOf(now, facts));
    },
    done: () => ({}),
    redo: () => undefined,
    draw: () => {
      diff.rows.draw();
    },
    retheme: () => {
      diff.rows.retheme();
    },
    select: (rows) => {
      diff.select(rows);
    },
    key: (event) => event.key === 'Escape' && diff.clear(),
    marks: () => diff.marks(),
    csv: () =>
      csvOf(
        actual,
        actual.names,
        Array.from({ length: actual.rows }, (_, row) => row),
      ),
    dispose: () => {
      diff.rows.dispose();
    },
  };
}
