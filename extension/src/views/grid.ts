/** The rows themselves, as a table: what is selected, or what the filter leaves. Only rows in sight are elements. */
import { Table } from '../data/table.ts';
import { choice, el, rowAfter } from '../dom/build.ts';
import { Redraw } from '../dom/redraw.ts';
import { TABLES } from '../model/kinds.ts';
import { cellText, spoken } from '../model/names.ts';
import { count, plural } from '../words.ts';
import type { State } from './state.ts';

const ROW_HEIGHT = 22;
const HEAD_HEIGHT = 24;

/** Columns that come first, where a table has them; the others follow as they are. */
const FIRST = [
  'sequence',
  'label',
  'session_id',
  'turn',
  'step',
  'attempt',
  'name',
  'model',
  'stop_reason',
  'outcome_kind',
  'end_kind',
  'finish_kind',
  'error_code',
  'started_at',
  'duration_ms',
];

export class Grid {
  readonly element: HTMLDivElement;
  #table: string;
  #rows: Int32Array = new Int32Array(0);
  #sort: { column: string; down: boolean } | null = null;
  #columns: string[] = [];
  /** Of these, the ones that are numbers. */
  #numeric = new Set<string>();
  #active = 0;
  #stale = true;
  readonly #scroller: HTMLDivElement;
  readonly #grid: HTMLDivElement;
  readonly #head: HTMLDivElement;
  readonly #summary: HTMLElement;
  readonly #redraw: Redraw;

  constructor(private readonly state: State) {
    const names = TABLES.filter((name) => (state.forest.tables[name]?.rows ?? 0) > 0);
    this.#table = names[0] ?? 'calls';
    this.#summary = el('span');
    this.#head = el('div', { class: 'clab-panel-head' }, el('strong', {}, 'table'));
    if (names.length > 1) {
      this.#head.append(
        choice(
          'table',
          names.map((name) => name.replace('_', ' ')),
          (place) => {
            this.#table = names[place]!;
            this.#sort = null;
            this.refresh();
          },
        ),
      );
    }
    this.#head.append(this.#summary);
    this.#grid = el('div', {
      class: 'clab-grid',
      role: 'grid',
      'aria-label': 'Table of what is selected',
      tabindex: 0,
      'aria-readonly': true,
    });
    this.#scroller = el('div', { class: 'clab-table clab-fill' }, this.#grid);
    this.element = el('div', { class: 'clab-panel clab-fill' }, this.#head, this.#scroller);
    this.#scroller.addEventListener('scroll', () => {
      this.#redraw.soon();
    });
    this.#grid.addEventListener('keydown', (event) => {
      this.#key(event);
    });
    this.#grid.addEventListener('click', (event) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>('[data-place]')?.dataset['place'];
      if (row !== undefined) this.#press(Number(row));
    });
    this.#redraw = new Redraw(this.#scroller, () => {
      this.draw();
    });
    state.listen((change) => {
      if (change === 'rows' || change === 'selection') this.refresh();
    });
  }

  get #of(): Table {
    return this.state.forest.tables[this.#table] ?? Table.empty;
  }

  refresh(): void {
    this.#stale = true;
    this.#redraw.soon();
  }

  draw(): void {
    this.#redraw.done();
    if (this.#scroller.clientHeight === 0) return;
    if (this.#stale) this.#collect();
    this.#stale = false;
    const table = this.#of;
    const first = Math.max(0, Math.floor((this.#scroller.scrollTop - HEAD_HEIGHT) / ROW_HEIGHT) - 4);
    const past = Math.min(this.#rows.length, first + Math.ceil(this.#scroller.clientHeight / ROW_HEIGHT) + 8);
    const made: HTMLElement[] = [this.#headRow()];
    for (let place = first; place < past; place++) made.push(this.#row(table, place));
    this.#grid.replaceChildren(...made);
    this.#grid.style.height = `${HEAD_HEIGHT + this.#rows.length * ROW_HEIGHT}px`;
    this.#grid.setAttribute('aria-rowcount', String(this.#rows.length + 1));
    if (this.#rows.length === 0)
      this.#grid.append(el('div', { class: 'clab-note', role: 'row' }, el('span', { role: 'gridcell' }, 'no rows')));
  }

  #collect(): void {
    const table = this.#of;
    const { forest } = this.state;
    const rows: number[] = [];
    for (let node = 0; node < forest.size; node++) {
      if (TABLES[forest.table[node]!] === this.#table && forest.row[node]! >= 0 && this.state.shown(node))
        rows.push(forest.row[node]!);
    }
    this.#rows = Int32Array.from(rows);
    if (this.#sort === null) this.#rows.sort();
    else sortRows(this.#rows, table, this.#sort.column, this.#sort.down);
    const known = new Set(table.names);
    this.#columns = [...FIRST.filter((name) => known.has(name)), ...table.names.filter((name) => !FIRST.includes(name))];
    this.#numeric = new Set(this.#columns.filter((name) => table.isNumeric(name)));
    const least = this.#columns.map((name) => (name.endsWith('_at') ? 176 : this.#numeric.has(name) ? 92 : 132));
    const template = least.map((pixels) => `minmax(${pixels}px, ${pixels}fr)`).join(' ');
    this.#grid.style.setProperty('--clab-columns', template);
    this.#grid.style.minWidth = `${least.reduce((sum, each) => sum + each, 0)}px`;
    this.#active = Math.min(this.#active, Math.max(0, this.#rows.length - 1));
    const whole = table.rows;
    this.#summary.textContent =
      this.#rows.length === whole ? plural(whole, 'row') : `${count(this.#rows.length)} of ${plural(whole, 'row')}`;
  }

  #headRow(): HTMLElement {
    const table = this.#of;
    const cells = this.#columns.map((name) => {
      const sorted = this.#sort?.column === name ? (this.#sort.down ? 'descending' : 'ascending') : 'none';
      const arrow = sorted === 'none' ? '' : sorted === 'ascending' ? ' ↑' : ' ↓';
      const press = el(
        'button',
        {
          type: 'button',
          title: [table.about(name, 'doc'), table.about(name, 'unit')].filter((part) => part !== '').join(' · '),
          tabindex: -1,
        },
        spoken(name) + arrow,
      );
      press.addEventListener('click', () => {
        this.#sort = { column: name, down: sorted === 'ascending' };
        this.refresh();
      });
      return el(
        'div',
        { role: 'columnheader', 'aria-sort': sorted, class: this.#numeric.has(name) ? 'clab-number' : '' },
        press,
      );
    });
    const row = el('div', { class: 'clab-row clab-columns', role: 'row', 'aria-rowindex': 1 }, ...cells);
    row.style.gridTemplateColumns = 'var(--clab-columns)';
    return row;
  }

  #row(table: Table, place: number): HTMLElement {
    const row = this.#rows[place]!;
    const cells = this.#columns.map((name) => {
      const text = cellText(table, name, row);
      return el(
        'div',
        { role: 'gridcell', class: this.#numeric.has(name) ? 'clab-number' : '', title: text.length > 16 ? text : null },
        text,
      );
    });
    const element = el(
      'div',
      {
        class: `clab-row${place === this.#active ? ' clab-active' : ''}`,
        role: 'row',
        'aria-rowindex': place + 2,
        'data-place': place,
      },
      ...cells,
    );
    element.style.gridTemplateColumns = 'var(--clab-columns)';
    element.style.top = `${HEAD_HEIGHT + place * ROW_HEIGHT}px`;
    return element;
  }

  #press(place: number): void {
    this.#active = place;
    const [node] = this.state.nodesOf({ [this.#table]: [this.#rows[place]!] });
    this.state.hover = node ?? -1;
    this.state.tell('hover');
    this.#redraw.soon();
  }

  #key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.#scroller.clientHeight / ROW_HEIGHT) - 2);
    const to = rowAfter(event.key, this.#active, page, this.#rows.length);
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.#press(Math.max(0, Math.min(to, this.#rows.length - 1)));
    const top = this.#active * ROW_HEIGHT;
    if (top < this.#scroller.scrollTop) this.#scroller.scrollTop = top;
    else if (top + ROW_HEIGHT + HEAD_HEIGHT > this.#scroller.scrollTop + this.#scroller.clientHeight)
      this.#scroller.scrollTop = top + ROW_HEIGHT + HEAD_HEIGHT - this.#scroller.clientHeight;
  }

  focus(): void {
    this.#grid.focus({ preventScroll: true });
  }

  /** Every row that the table shows, as comma-separated values with their column names. */
  csv(): string {
    if (this.#stale) this.#collect();
    const table = this.#of;
    return csvOf(table, table.names, this.#rows);
  }

  dispose(): void {
    this.#redraw.dispose();
  }
}

/** Sort rows by a column, in place; unknown values come last. */
export function sortRows(rows: Int32Array, table: Table, column: string, down: boolean): void {
  const sign = down ? -1 : 1;
  if (table.isNumeric(column)) {
    const values = table.numbers(column);
    rows.sort((a, b) => {
      const [x, y] = [values[a]!, values[b]!];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
      return sign * (x - y) || a - b;
    });
    return;
  }
  const texts = new Map(Array.from(rows, (row) => [row, cellText(table, column, row)]));
  rows.sort((a, b) => {
    const [x, y] = [texts.get(a)!, texts.get(b)!];
    return x === y ? a - b : sign * (x < y ? -1 : 1);
  });
}

/**
 * Comma-separated values (RFC 4180), times in UTC, unknown left empty. A text that a spreadsheet would take for a formula
 * gets an apostrophe before it.
 */
export function csvOf(table: Table, columns: readonly string[], rows: Iterable<number>): string {
  const lines = [columns.map(quoted).join(',')];
  for (const row of rows) lines.push(columns.map((name) => quoted(plainText(table, name, row))).join(','));
  return `${lines.join('\r\n')}\r\n`;
}

function plainText(table: Table, name: string, row: number): string {
  const value = table.value(name, row);
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return name.endsWith('_at') ? new Date(value).toISOString() : String(value);
  if (typeof value === 'boolean') return String(value);
  return harmless(typeof value === 'string' ? value : cellText(table, name, row));
}

function harmless(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

/** Texts as a line of such values. */
export function csvLine(texts: readonly string[]): string {
  return texts.map((text) => quoted(harmless(text))).join(',');
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
