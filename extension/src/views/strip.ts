/** How much ran at once, on the same time axis as the timeline above it. */
import { el } from '../dom/build.ts';
import { Redraw } from '../dom/redraw.ts';
import { pixelOf, timeOf } from '../draw/marks.ts';
import { readTheme } from '../draw/theme.ts';
import { CALL, COMPACTION, FILE, MODEL_CALL, REQUEST, TOOL_CALL } from '../model/kinds.ts';
import { loadOf, profile, type Load } from '../model/load.ts';
import { count, durationText } from '../words.ts';
import type { State } from './state.ts';
import type { Waterfall } from './waterfall.ts';

const HEIGHT = 46;

export class Strip {
  readonly element: HTMLDivElement;
  readonly #canvas: HTMLCanvasElement;
  readonly #redraw: Redraw;
  #load: Load | null = null;
  #pointed: number | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly state: State,
    private readonly waterfall: Waterfall,
  ) {
    this.#canvas = el('canvas', { role: 'img' });
    this.element = el('div', { class: 'clab-strip' }, this.#canvas);
    this.#canvas.style.height = `${HEIGHT}px`;
    this.#redraw = new Redraw(this.element, () => {
      this.draw();
    });
    waterfall.onMove(() => {
      this.invalidate();
    });
    state.listen((change) => {
      if (change === 'selection' || change === 'rows') this.#load = null;
      if (change !== 'hover') this.invalidate();
    });
    this.#canvas.addEventListener('pointermove', (event) => {
      this.#pointed = event.clientX - this.#canvas.getBoundingClientRect().left;
      this.invalidate();
    });
    this.#canvas.addEventListener('pointerleave', () => {
      this.#pointed = null;
      this.invalidate();
    });
  }

  /** Calls where there are calls; of sessions what really works: model calls, tools, compactions. */
  get #kinds(): readonly number[] {
    const { kind } = this.state.forest;
    if (kind.includes(CALL)) return [CALL];
    return kind.includes(MODEL_CALL) || kind.includes(TOOL_CALL) ? [MODEL_CALL, TOOL_CALL, COMPACTION] : [REQUEST];
  }

  #read(): Load {
    const kinds = this.#kinds;
    const { state } = this;
    const { start, span, kind } = state.forest;
    const picked = state.picked.length > 0;
    const meant = (node: number): boolean => (picked ? state.shown(node) : state.left(node));
    return loadOf(start, span, (node) => kinds.includes(kind[node]!) && state.counts(node) && meant(node));
  }

  invalidate(): void {
    this.#redraw.soon();
  }

  draw(): void {
    this.#redraw.done();
    const width = this.element.clientWidth;
    const context = this.#canvas.getContext('2d');
    if (context === null || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.#canvas.width !== Math.round(width * ratio)) this.#canvas.width = Math.round(width * ratio);
    if (this.#canvas.height !== Math.round(HEIGHT * ratio)) this.#canvas.height = Math.round(HEIGHT * ratio);
    const theme = readTheme(this.root);
    const { scale, split } = this.waterfall;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    const bins = Math.max(1, Math.floor(scale.right - scale.left));
    const most = profile((this.#load ??= this.#read()), scale.from, scale.to, bins);
    const peak = most.reduce((high, each) => Math.max(high, each), 0);
    const floor = HEIGHT - 4;
    const heightOf = (value: number): number => (peak > 0 ? (value / peak) * (HEIGHT - 12) : 0);
    context.beginPath();
    context.moveTo(scale.left, floor);
    most.forEach((value, bin) => {
      context.lineTo(scale.left + bin, floor - heightOf(value));
      context.lineTo(scale.left + bin + 1, floor - heightOf(value));
    });
    context.lineTo(scale.left + bins, floor);
    context.closePath();
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.22;
    context.fill();
    context.globalAlpha = 0.9;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1;
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = theme.grid;
    context.fillRect(split, 0, 1, HEIGHT);
    const { range } = this.state;
    if (range !== null) {
      context.fillStyle = theme.chosenPale;
      context.fillRect(pixelOf(scale, range[0]), 0, pixelOf(scale, range[1]) - pixelOf(scale, range[0]), HEIGHT);
    }
    context.textBaseline = 'middle';
    context.font = theme.font;
    context.fillStyle = theme.ink;
    // Each file has its own zero: these did not run at one time.
    const isLaidOver = this.state.forest.kind.includes(FILE);
    context.fillText(isLaidOver ? 'at once, files laid over' : 'at once', 12, 15, split - 20);
    context.fillStyle = theme.muted;
    const { pointed, words } = this.#words(most, bins, peak);
    context.fillText(words, 12, 31, split - 20);
    if (pointed !== null) {
      context.fillStyle = theme.muted;
      context.fillRect(pointed, 0, 1, HEIGHT);
    }
    this.#canvas.setAttribute(
      'aria-label',
      `Concurrency${isLaidOver ? ', files laid over one another' : ''}: at most ${count(peak)} at once from ${durationText(scale.from)} to ${durationText(scale.to)}`,
    );
  }

  #words(most: Float64Array, bins: number, peak: number): { pointed: number | null; words: string } {
    const { scale } = this.waterfall;
    const x = this.#pointed;
    if (x === null || x < scale.left || x > scale.left + bins) return { pointed: null, words: `at most ${count(peak)}` };
    const bin = Math.min(bins - 1, Math.floor(x - scale.left));
    return { pointed: x, words: `${count(most[bin]!)} at ${durationText(Math.max(0, timeOf(scale, x)))}` };
  }

  dispose(): void {
    this.#redraw.dispose();
  }
}
