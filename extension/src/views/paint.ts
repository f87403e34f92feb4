/** How the rows of a waterfall look. */
import { drawRedacted, drawSign, drawTwisty } from '../draw/icons.ts';
import { barMarks, drawEnd, drawMark, pixelOf } from '../draw/marks.ts';
import { write, type Frame } from '../draw/rows.ts';
import { CATEGORIES } from '../model/categories.ts';
import { FILE, REDACTED, SESSION, STEP, TURN, UNPLACED } from '../model/kinds.ts';
import { timeTicks } from '../model/load.ts';
import { outcomeOf } from '../model/names.ts';
import { axisText, count, durationText } from '../words.ts';
import type { State } from './state.ts';
import { BAR_HEIGHT, HEAD_HEIGHT, ROW_HEIGHT, type Waterfall } from './waterfall.ts';

export function paintName(frame: Frame, view: Waterfall, state: State, node: number, y: number): void {
  const { context, theme, text } = frame;
  const { forest, folded } = state;
  const middle = y + ROW_HEIGHT / 2;
  const x = view.indent(forest.depth[node]!);
  if (view.step >= 5) {
    context.fillStyle = theme.grid;
    for (let depth = 0; depth < forest.depth[node]!; depth++)
      context.fillRect(Math.round(view.indent(depth)), y, 1, ROW_HEIGHT);
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
  write(frame, time, view.split - 10, middle, { colour: theme.muted, align: 'right' });
  let right = view.split - taken;
  if ((forest.flags[node]! & REDACTED) !== 0) {
    drawRedacted(context, theme.muted, right - 14, middle);
    right -= 20;
  }
  const below = folded[node] === 1 ? ` (${count(forest.end[node]! - node - 1)})` : '';
  const room = right - left - (below === '' ? 0 : text.width(below));
  const strong = kind === FILE || kind === SESSION;
  const width = write(frame, state.label(node), left, middle, {
    colour: kind === TURN || kind === STEP ? theme.muted : theme.ink,
    max: room,
    font: strong ? 'bold' : 'font',
  });
  if (below !== '') write(frame, below, left + width + (strong ? 4 : 0), middle, { colour: theme.muted });
}

export function paintBar(frame: Frame, view: Waterfall, state: State, node: number, y: number, aside: boolean): void {
  const { context, theme } = frame;
  const { forest } = state;
  const top = y + (ROW_HEIGHT - BAR_HEIGHT) / 2;
  const marks = barMarks(forest, node, view.scale, top, BAR_HEIGHT, view.look === 'topology');
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
  const words = wordsBeside(view, state, node);
  if (words !== '')
    write(frame, words, end + beyond + 6, y + ROW_HEIGHT / 2, { colour: theme.muted, max: frame.width - end - beyond - 8 });
}

function wordsBeside(view: Waterfall, state: State, node: number): string {
  const { forest } = state;
  const words = [outcomeOf(forest, node)];
  if (view.look === 'topology') {
    words.unshift(durationText(forest.duration[node]!));
    const below = forest.end[node]! - node - 1;
    if (below > 0) words.push(`${count(below)} below`);
  }
  if ((forest.flags[node]! & UNPLACED) !== 0) words.push('no start on record');
  return words.filter((word) => word !== '').join(' · ');
}

export function paintGrid(frame: Frame, view: Waterfall): void {
  const { context, theme, height } = frame;
  context.fillStyle = theme.grid;
  context.globalAlpha = 0.7;
  for (const { x } of ticksOf(view)) context.fillRect(Math.round(x), HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
  context.globalAlpha = 1;
}

export function paintAxis(frame: Frame, view: Waterfall): void {
  for (const { x, label } of ticksOf(view)) {
    frame.context.fillStyle = frame.theme.grid;
    frame.context.fillRect(Math.round(x), HEAD_HEIGHT - 6, 1, 6);
    write(frame, label, x + 4, HEAD_HEIGHT / 2, { font: 'small', max: frame.width - x - 6 });
  }
}

function ticksOf(view: Waterfall): { x: number; label: string }[] {
  const { scale } = view;
  const { values, step } = timeTicks(scale.from, scale.to, Math.max(1, Math.floor((scale.right - scale.left) / 96)));
  return values.map((value) => ({ x: pixelOf(scale, value), label: axisText(value, step, scale.to) }));
}

export function paintRange({ context, theme, width, height }: Frame, view: Waterfall, state: State): void {
  const { range } = state;
  if (range === null || view.look === 'topology') return;
  const left = Math.max(view.split + 1, pixelOf(view.scale, range[0]));
  const right = Math.min(width, pixelOf(view.scale, range[1]));
  if (right <= left) return;
  context.fillStyle = theme.chosenPale;
  context.fillRect(left, HEAD_HEIGHT, right - left, height - HEAD_HEIGHT);
  context.fillStyle = theme.accent;
  context.fillRect(left, HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
  context.fillRect(right - 1, HEAD_HEIGHT, 1, height - HEAD_HEIGHT);
}
