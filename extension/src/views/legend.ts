/** What the looks of bars and the marks on them mean, as far as they occur. */
import { el } from '../dom/build.ts';
import { legendBar } from '../draw/icons.ts';
import { readTheme } from '../draw/theme.ts';
import { CATEGORIES, COUNTED } from '../model/categories.ts';
import type { Forest } from '../model/forest.ts';

/** Put into a legend what occurs in a forest. */
export function drawLegend(place: HTMLElement, root: HTMLElement, forest: Forest): void {
  const theme = readTheme(root);
  const parts: HTMLElement[] = [];
  CATEGORIES.slice(0, COUNTED).forEach(({ name }, number) => {
    if (forest.category.includes(number) && !(name === 'result-error' && forest.category.includes(number - 1)))
      parts.push(
        el(
          'span',
          {},
          legendBar(number, theme),
          name === 'start-error' ? 'never started' : name === 'result-error' ? 'error' : name,
        ),
      );
  });
  for (const [values, word] of [
    [forest.latency, 'paler: until it had started'],
    [forest.firstChunk, 'tick: first chunk'],
    [forest.retryFrom, 'dotted: waited to try again'],
    [forest.abortedAt, '▼ abort asked for'],
    [forest.disposedAt, '▽ disposed early'],
  ] as const)
    if (values.some((value) => value >= 0)) parts.push(el('span', {}, word));
  place.replaceChildren(...parts);
}
