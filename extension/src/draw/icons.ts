/** Small pictures: how something ended, whether it can be unfolded, that something in it was redacted. */
import { CATEGORIES, type Category } from '../model/categories.ts';
import { drawEnd, drawFill, patterns, type Patterns } from './marks.ts';
import type { Theme } from './theme.ts';

/** The outcome as a sign of 9 by 9 pixels around a middle point; each category has a shape of its own. */
export function drawSign(context: CanvasRenderingContext2D, category: Category, fills: Patterns, x: number, y: number): void {
  context.lineWidth = 2;
  context.lineCap = 'round';
  context.strokeStyle = category.colour;
  context.fillStyle = category.colour;
  context.beginPath();
  switch (category.name) {
    case 'completed':
      context.moveTo(x - 3.5, y + 0.5);
      context.lineTo(x - 1, y + 3);
      context.lineTo(x + 3.5, y - 3);
      context.stroke();
      break;
    case 'max-tokens':
      context.fillRect(x - 3.5, y - 3.5, 7, 7);
      break;
    case 'refusal':
      context.moveTo(x + 3.5, y - 4);
      context.lineTo(x - 4, y);
      context.lineTo(x + 3.5, y + 4);
      context.fill();
      break;
    case 'error':
    case 'result-error':
      context.moveTo(x - 3, y - 3);
      context.lineTo(x + 3, y + 3);
      context.moveTo(x - 3, y + 3);
      context.lineTo(x + 3, y - 3);
      context.stroke();
      break;
    case 'other':
      context.arc(x, y, 3.5, 0, 2 * Math.PI);
      context.fill();
      break;
    case 'open':
      context.lineWidth = 1.5;
      context.arc(x, y, 3.2, 0, 1.5 * Math.PI);
      context.stroke();
      break;
    case 'aborted':
    case 'start-error':
      drawFill(context, category, fills, x - 4, y - 4, 8, 8);
      break;
  }
  context.lineCap = 'butt';
}

export function drawTwisty(context: CanvasRenderingContext2D, colour: string, folded: boolean, x: number, y: number): void {
  context.fillStyle = colour;
  context.beginPath();
  if (folded) {
    context.moveTo(x - 2, y - 4);
    context.lineTo(x + 3, y);
    context.lineTo(x - 2, y + 4);
  } else {
    context.moveTo(x - 4, y - 2);
    context.lineTo(x + 4, y - 2);
    context.lineTo(x, y + 3);
  }
  context.fill();
}

/** Blacked-out words. */
export function drawRedacted(context: CanvasRenderingContext2D, colour: string, x: number, y: number): void {
  context.fillStyle = colour;
  context.fillRect(x, y - 4, 7, 2.5);
  context.fillRect(x + 8.5, y - 4, 3.5, 2.5);
  context.fillRect(x, y + 0.5, 4, 2.5);
  context.fillRect(x + 5.5, y + 0.5, 6.5, 2.5);
}

/** A bar of the legend, on a canvas of its own. */
export function legendBar(category: number, theme: Theme): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  const ratio = window.devicePixelRatio || 1;
  const look = CATEGORIES[category]!;
  const [width, height] = [look.end === 'cross' ? 35 : 26, 14];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.setAttribute('aria-hidden', 'true');
  const context = canvas.getContext('2d');
  if (context === null) return canvas;
  context.scale(ratio, ratio);
  drawFill(context, look, patterns(context, ratio), 1, 2, 22, 10);
  drawEnd(context, look, theme, 23, 2, 10, 22);
  return canvas;
}
