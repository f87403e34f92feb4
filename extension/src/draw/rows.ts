/**
 * Rows on one canvas, of any number: only those in sight are drawn. The canvas stays in place while a spacer gives the
 * scroll bar its length. Beside it stands the same as a tree or list for assistive technology, again only what is in sight
 * and the active row; the scroller has the focus and names the active row's element.
 */
import { el, rowAfter, uniqueId } from '../dom/build.ts';
import { Redraw } from '../dom/redraw.ts';
import { Fitter } from '../text.ts';
import { patterns, type Patterns } from './marks.ts';
import { readTheme, type Theme } from './theme.ts';

/** What a painter works with. Coordinates are CSS pixels of the canvas. */
export interface Frame {
  readonly context: CanvasRenderingContext2D;
  readonly theme: Theme;
  readonly text: Fitter;
  readonly small: Fitter;
  readonly fills: Patterns;
  readonly width: number;
  readonly height: number;
}

/** How a row is told to those who cannot see it. */
export interface Told {
  readonly text: string;
  readonly level: number;
  readonly position: number;
  readonly siblings: number;
  readonly expanded: boolean | null;
  readonly selected: boolean;
}

export interface RowsSource {
  readonly name: string;
  readonly role: 'tree' | 'listbox';
  readonly rowHeight: number;
  readonly headHeight: number;
  count(): number;
  /** Paint the row whose top is at `y`. */
  drawRow(frame: Frame, row: number, y: number): void;
  /** Paint what lies over the rows and above them. */
  drawOver(frame: Frame): void;
  /** Called before rows are painted. */
  begin?(frame: Frame): void;
  tell(row: number): Told;
  /** The row got or lost the keyboard's attention. */
  activated?(row: number): void;
  /** A key that moving does not use; true when it was used. */
  key?(event: KeyboardEvent, row: number): boolean;
  /** An element of the tree was clicked by assistive technology. */
  pressed?(row: number): void;
}

export class Rows {
  readonly element: HTMLDivElement;
  readonly canvas: HTMLCanvasElement;
  #active = 0;
  #theme: Theme;
  #frame: Frame | null = null;
  #toldTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #spacer: HTMLDivElement;
  readonly #told: HTMLDivElement;
  readonly #id = uniqueId('row');
  readonly #redraw: Redraw;
  readonly #root: HTMLElement;

  constructor(
    root: HTMLElement,
    private readonly source: RowsSource,
  ) {
    this.#root = root;
    this.canvas = el('canvas', { class: 'clab-canvas', 'aria-hidden': 'true' });
    this.#spacer = el('div', { class: 'clab-spacer' });
    this.#told = el('div', { class: 'clab-hidden', role: 'presentation' });
    this.element = el(
      'div',
      {
        class: 'clab-scroller clab-fill',
        tabindex: 0,
        role: source.role,
        'aria-label': source.name,
        'aria-multiselectable': true,
      },
      this.canvas,
      this.#spacer,
      this.#told,
    );
    this.#theme = readTheme(root);
    this.element.addEventListener('scroll', () => {
      this.invalidate();
    });
    this.element.addEventListener('keydown', (event) => {
      this.#key(event);
    });
    this.element.addEventListener('focus', () => {
      this.invalidate();
    });
    this.element.addEventListener('blur', () => {
      this.invalidate();
    });
    this.#told.addEventListener('click', (event) => {
      const row = Number((event.target as HTMLElement).dataset['row'] ?? NaN);
      if (row >= 0) this.source.pressed?.(row);
    });
    this.#redraw = new Redraw(this.element, () => {
      this.draw();
    });
  }

  /** The row that the keyboard is on. */
  get active(): number {
    return Math.max(0, Math.min(this.#active, this.source.count() - 1));
  }

  get focused(): boolean {
    return (
      this.element.ownerDocument.activeElement === this.element ||
      (this.element.getRootNode() as ShadowRoot).activeElement === this.element
    );
  }

  /** Draw soon. */
  invalidate(): void {
    this.#redraw.soon();
  }

  /** Colours or fonts may have changed. */
  retheme(): void {
    this.#theme = readTheme(this.#root);
    this.#frame = null;
    this.invalidate();
  }

  /** Put the keyboard on a row and bring it into sight. */
  activate(row: number, tell = true): void {
    this.#active = Math.max(0, Math.min(row, this.source.count() - 1));
    const { rowHeight, headHeight } = this.source;
    const top = this.#active * rowHeight;
    const room = this.element.clientHeight - headHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + rowHeight > this.element.scrollTop + room) this.element.scrollTop = top + rowHeight - room;
    if (tell) this.source.activated?.(this.#active);
    this.invalidate();
  }

  /** Where an event of the mouse is: the row (-1 above the rows and below them) and the place on the canvas. */
  locate(event: MouseEvent): { x: number; y: number; row: number } {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return { x, y, row: this.rowAt(y) };
  }

  rowAt(y: number): number {
    if (y < this.source.headHeight) return -1;
    const row = Math.floor((y - this.source.headHeight + this.element.scrollTop) / this.source.rowHeight);
    return row < this.source.count() ? row : -1;
  }

  /** The canvas' place of a row's top. */
  topOf(row: number): number {
    return this.source.headHeight + row * this.source.rowHeight - this.element.scrollTop;
  }

  /** First row in sight, and one past the last. */
  get sight(): [first: number, past: number] {
    const { rowHeight, headHeight } = this.source;
    const first = Math.floor(this.element.scrollTop / rowHeight);
    const past = first + Math.ceil(Math.max(0, this.element.clientHeight - headHeight) / rowHeight) + 1;
    return [first, Math.min(this.source.count(), past)];
  }

  /** Draw now. */
  draw(): void {
    this.#redraw.done();
    const frame = this.#measure();
    if (frame === null) return;
    const { context, width, height } = frame;
    const { rowHeight, headHeight } = this.source;
    context.clearRect(0, 0, width, height);
    context.textBaseline = 'middle';
    this.source.begin?.(frame);
    const [first, past] = this.sight;
    context.save();
    context.beginPath();
    context.rect(0, headHeight, width, height - headHeight);
    context.clip();
    for (let row = first; row < past; row++) this.source.drawRow(frame, row, this.topOf(row));
    if (this.focused && this.source.count() > 0) {
      context.strokeStyle = frame.theme.accent;
      context.lineWidth = 1;
      context.strokeRect(0.5, this.topOf(this.active) + 0.5, width - 1, rowHeight - 1);
    }
    context.restore();
    this.source.drawOver(frame);
    this.#tellSoon();
  }

  dispose(): void {
    this.#redraw.dispose();
    clearTimeout(this.#toldTimer);
  }

  #measure(): Frame | null {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (width === 0 || height === 0) return null;
    const { rowHeight, headHeight } = this.source;
    const needed = Math.max(0, headHeight + this.source.count() * rowHeight - height);
    if (this.#spacer.style.height !== `${needed}px`) this.#spacer.style.height = `${needed}px`;
    const ratio = window.devicePixelRatio || 1;
    const known = this.#frame;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (known !== null && this.canvas.width === wide && this.canvas.height === high) return known;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = wide;
    this.canvas.height = high;
    const context = this.canvas.getContext('2d');
    if (context === null) return null;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const theme = this.#theme;
    const measured = (font: string): Fitter =>
      new Fitter((text) => {
        context.font = font;
        return context.measureText(text).width;
      });
    this.#frame = {
      context,
      theme,
      width,
      height,
      text: known?.text ?? measured(theme.font),
      small: known?.small ?? measured(theme.small),
      fills: patterns(context, ratio),
    };
    return this.#frame;
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - this.source.headHeight) / this.source.rowHeight) - 1);
    const to = rowAfter(event.key, this.active, page, this.source.count());
    if (to !== undefined && !event.altKey && !event.ctrlKey && !event.metaKey) this.activate(to);
    else if (this.source.key?.(event, this.active) !== true) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #tellSoon(): void {
    clearTimeout(this.#toldTimer);
    this.#toldTimer = setTimeout(() => {
      this.tell();
    }, 60);
  }

  /** Bring the elements beside the canvas up to date. */
  tell(): void {
    const [first, past] = this.sight;
    const rows = Array.from({ length: Math.max(0, past - first) }, (_, i) => first + i);
    if (this.source.count() > 0 && !rows.includes(this.active)) rows.push(this.active);
    const item = this.source.role === 'tree' ? 'treeitem' : 'option';
    const items = rows.map((row, place) => {
      const told = this.source.tell(row);
      const element =
        (this.#told.children[place] as HTMLElement | undefined) ?? this.#told.appendChild(el('div', { role: item }));
      element.id = `${this.#id}-${row}`;
      element.dataset['row'] = String(row);
      if (item === 'treeitem') element.setAttribute('aria-level', String(told.level));
      element.setAttribute('aria-posinset', String(told.position));
      element.setAttribute('aria-setsize', String(told.siblings));
      element.setAttribute('aria-selected', String(told.selected));
      if (told.expanded === null) element.removeAttribute('aria-expanded');
      else element.setAttribute('aria-expanded', String(told.expanded));
      if (element.textContent !== told.text) element.textContent = told.text;
      return element;
    });
    while (this.#told.children.length > items.length) this.#told.lastElementChild?.remove();
    if (this.source.count() > 0) this.element.setAttribute('aria-activedescendant', `${this.#id}-${this.active}`);
    else this.element.removeAttribute('aria-activedescendant');
  }
}

export interface Writing {
  /** The ink; of small writing a muted one. */
  readonly colour?: string;
  readonly align?: 'left' | 'right' | 'center';
  readonly max?: number;
  readonly font?: 'font' | 'bold' | 'small';
}

/** Write a text whose middle line is at `y`; it is cut where it would be longer than `max`. Returns its width. */
export function write(frame: Frame, text: string, x: number, y: number, writing: Writing = {}): number {
  const { context, theme } = frame;
  const { align = 'left', max = Infinity, font = 'font' } = writing;
  const { colour = font === 'small' ? theme.muted : theme.ink } = writing;
  const fitter = font === 'small' ? frame.small : frame.text;
  const fitted = max === Infinity ? text : fitter.fit(text, max);
  const width = fitter.width(fitted);
  context.font = theme[font];
  context.fillStyle = colour;
  context.textAlign = 'left';
  const left = align === 'left' ? x : align === 'right' ? x - width : x - width / 2;
  context.fillText(fitted, left, y + 0.5);
  return width;
}
