/**
 * Bars and the marks on them. `barMarks` says where everything of a bar is (pure: the tests and the pointer ask it, too);
 * `drawMark` paints one of them.
 */
import { CATEGORIES, PALE, type Category } from '../model/categories.ts';
import type { Forest } from '../model/forest.ts';
import { INHERITED } from '../model/kinds.ts';
import type { Theme } from './theme.ts';

export type Part = 'latency' | 'bar' | 'first-chunk' | 'abort' | 'dispose' | 'retry';

export interface Mark {
  readonly node: number;
  readonly part: Part;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A stretch of time on a stretch of pixels. */
export interface Scale {
  readonly from: number;
  readonly to: number;
  readonly left: number;
  readonly right: number;
}

export function pixelOf(scale: Scale, time: number): number {
  return scale.left + ((time - scale.from) / (scale.to - scale.from)) * (scale.right - scale.left);
}

export function timeOf(scale: Scale, pixel: number): number {
  return scale.from + ((pixel - scale.left) / (scale.right - scale.left)) * (scale.to - scale.from);
}

/** Narrowest bar: what took no time at all can still be seen and pointed at. */
const HAIR = 2;

/** Everything of a node's bar in the row whose bar area is `y … y + height`; what lies outside of the scale is left out. */
export function barMarks(forest: Forest, node: number, scale: Scale, y: number, height: number, atZero = false): Mark[] {
  const start = atZero ? 0 : forest.start[node]!;
  const marks: Mark[] = [];
  const put = (part: Part, from: number, to: number, least: number): void => {
    let [left, right] = [pixelOf(scale, from), pixelOf(scale, to)];
    if (right - left < least) right = left + least;
    if (right < scale.left || left > scale.right) return;
    left = Math.max(left, scale.left - 4);
    right = Math.min(right, scale.right + 4);
    marks.push({ node, part, x: left, y, width: right - left, height });
  };
  const retry = forest.retryFrom[node]!;
  if (!atZero && !Number.isNaN(retry)) put('retry', retry, start, 1);
  const span = forest.span[node]!;
  const latency = Math.min(forest.latency[node]!, span);
  const hollow = CATEGORIES[forest.category[node]!]!.fill === 'hollow';
  const ready = latency > 0 && !hollow ? start + latency : start;
  if (ready > start) put('latency', start, ready, 0);
  put('bar', ready, start + span, HAIR);
  const first = forest.firstChunk[node]!;
  // On a bar of a few pixels the tick would be all there is to see.
  const wide = pixelOf(scale, start + span) - pixelOf(scale, start);
  if (first > 0 && first <= span && wide >= 8) put('first-chunk', start + first, start + first, 1.5);
  for (const [part, at] of [
    ['abort', forest.abortedAt[node]!],
    ['dispose', forest.disposedAt[node]!],
  ] as const) {
    if (at >= 0) {
      const x = pixelOf(scale, start + at);
      if (x >= scale.left - 5 && x <= scale.right + 5) marks.push({ node, part, x: x - 4, y: y - 4, width: 8, height: 6 });
    }
  }
  return marks;
}

export type Patterns = (category: Category) => CanvasPattern | string;

/** Fills that are more than a colour, drawn once per canvas: hatched and dotted ones. */
export function patterns(context: CanvasRenderingContext2D, ratio: number): Patterns {
  const made = new Map<string, CanvasPattern | string>();
  return (category) => {
    let fill = made.get(category.name);
    if (fill === undefined) {
      fill = category.fill === 'hatched' || category.fill === 'dotted' ? tile(context, category, ratio) : category.colour;
      made.set(category.name, fill);
    }
    return fill;
  };
}

function tile(context: CanvasRenderingContext2D, category: Category, ratio: number): CanvasPattern | string {
  const size = Math.max(1, Math.round(6 * ratio));
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const brush = canvas.getContext('2d');
  if (brush === null) return category.colour;
  brush.fillStyle = category.colour;
  brush.globalAlpha = 0.3;
  brush.fillRect(0, 0, size, size);
  brush.globalAlpha = 1;
  if (category.fill === 'dotted') {
    brush.beginPath();
    brush.arc(size / 2, size / 2, size / 3.4, 0, 2 * Math.PI);
    brush.fill();
  } else {
    brush.strokeStyle = category.colour;
    brush.lineWidth = size / 3;
    brush.beginPath();
    for (const shift of [-size, 0, size]) {
      brush.moveTo(shift - 1, size + 1);
      brush.lineTo(shift + size + 1, -1);
    }
    brush.stroke();
  }
  const pattern = context.createPattern(canvas, 'repeat');
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern ?? category.colour;
}

/** Paint a stretch of a bar in the look of a category. */
export function drawFill(
  context: CanvasRenderingContext2D,
  category: Category,
  fills: Patterns,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  switch (category.fill) {
    case 'hollow':
      context.strokeStyle = category.colour;
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, Math.max(0.5, width - 1.5), height - 1.5);
      break;
    case 'frame':
      context.fillStyle = category.colour;
      context.globalAlpha *= 0.55;
      context.fillRect(x, y + height / 2 - 1.5, width, 3);
      context.fillRect(x, y + 2, 1.5, height - 4);
      context.fillRect(x + width - 1.5, y + 2, 1.5, height - 4);
      break;
    case 'fading': {
      const fade = context.createLinearGradient(x, 0, x + Math.max(width, 14), 0);
      fade.addColorStop(0, category.colour);
      fade.addColorStop(1, `${category.colour}00`);
      context.fillStyle = fade;
      context.fillRect(x, y, Math.max(width, 14), height);
      break;
    }
    default:
      context.fillStyle = fills(category);
      context.fillRect(x, y, width, height);
  }
}

/** Paint how it ended, at `x`, where the bar ends. Returns how far that reaches beyond. */
export function drawEnd(
  context: CanvasRenderingContext2D,
  category: Category,
  theme: Theme,
  x: number,
  y: number,
  height: number,
  width: number,
): number {
  switch (category.end) {
    case 'cap':
      context.fillStyle = category.colour;
      context.fillRect(x - 1, y - 2.5, 3, height + 5);
      return 3;
    case 'notch':
      if (width < 9) return 0; // it would leave nothing of the bar
      context.fillStyle = theme.paper;
      context.beginPath();
      context.moveTo(x + 0.5, y);
      context.lineTo(x - 6, y + height / 2);
      context.lineTo(x + 0.5, y + height);
      context.fill();
      return 0;
    case 'cross': {
      const [left, top, size] = [x + 2.5, y + height / 2 - 3.5, 7];
      context.strokeStyle = category.colour;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(left, top);
      context.lineTo(left + size, top + size);
      context.moveTo(left, top + size);
      context.lineTo(left + size, top);
      context.stroke();
      return size + 3;
    }
    default:
      return 0;
  }
}

export function drawMark(context: CanvasRenderingContext2D, forest: Forest, mark: Mark, theme: Theme, fills: Patterns): void {
  const category = CATEGORIES[forest.category[mark.node]!]!;
  const { x, y, width, height } = mark;
  context.globalAlpha = (forest.flags[mark.node]! & INHERITED) !== 0 ? 0.4 : 1;
  switch (mark.part) {
    case 'latency':
      context.globalAlpha *= PALE;
      drawFill(context, category, fills, x, y, width, height);
      break;
    case 'bar':
      drawFill(context, category, fills, x, y, width, height);
      break;
    case 'first-chunk':
      context.fillStyle = theme.paper;
      context.fillRect(x - 1, y, 3.5, height);
      context.fillStyle = theme.ink;
      context.fillRect(x, y - 1.5, 1.5, height + 3);
      break;
    case 'retry':
      context.strokeStyle = theme.muted;
      context.lineWidth = 1.5;
      context.setLineDash([1.5, 3]);
      context.beginPath();
      context.moveTo(x, y + height / 2);
      context.lineTo(x + width, y + height / 2);
      context.stroke();
      context.setLineDash([]);
      break;
    case 'abort':
    case 'dispose':
      context.fillStyle = mark.part === 'abort' ? theme.ink : theme.paper;
      context.strokeStyle = theme.ink;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x + width, y);
      context.lineTo(x + width / 2, y + height);
      context.closePath();
      context.fill();
      context.stroke();
      break;
  }
  context.globalAlpha = 1;
}
