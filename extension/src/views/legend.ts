/** What the looks of bars and the marks on them mean, as far as they occur. */
import { el } from '../dom/build.ts';
import { legendBar } from '../draw/icons.ts';
import { readTheme } from '../draw/theme.ts';
import { CATEGORIES, COUNTED } from '../model/categories.ts';
import type { Forest } from '../model/forest.ts';

export function legend(root: HTMLElement, forest: Forest): HTMLElement {
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
  const some = (values: Float64Array): boolean => values.some((value) => value > 0);
  const words = [
    some(forest.latency) ? 'paler: until it had started' : '',
    some(forest.firstChunk) ? 'tick: first chunk' : '',
    forest.retryFrom.some((from) => !Number.isNaN(from)) ? 'dotted: waited to try again' : '',
    forest.abortedAt.some((at) => at >= 0) ? '▼ abort asked for' : '',
    forest.disposedAt.some((at) => at >= 0) ? '▽ disposed early' : '',
  ];
  for (const word of words) if (word !== '') parts.push(el('span', {}, word));
  return el('div', { class: 'clab-legend', 'aria-hidden': 'true' }, ...parts);
}
