/** What is known of one row, in words; what was said in it only where that was loaded, and only when asked for. */
import { button, el } from '../dom/build.ts';
import { KINDS } from '../model/kinds.ts';
import { BODIES, factsOf, tableOf } from '../model/names.ts';
import { show } from '../text.ts';
import { count, durationText, plural } from '../words.ts';
import type { State } from './state.ts';

const HINT =
  'Click or Space selects, Shift adds, Enter folds; drag over the bars for a range, + − 0 z zoom; / searches, t hides the table, Escape clears.';

export class Detail {
  readonly element: HTMLDivElement;
  readonly #body: HTMLDivElement;
  readonly #name: HTMLElement;
  readonly #state: State;
  #shown = -2;

  constructor(state: State) {
    this.#state = state;
    this.#name = el('span');
    this.#body = el('div', { class: 'clab-detail', tabindex: 0, role: 'group', 'aria-label': 'details' });
    this.element = el(
      'div',
      { class: 'clab-panel clab-fill' },
      el('div', { class: 'clab-panel-head' }, el('strong', {}, 'details'), this.#name),
      this.#body,
    );
    state.listen(() => {
      this.draw();
    });
  }

  draw(): void {
    const state = this.#state;
    const node =
      state.picked.length === 1 ? state.picked[0]! : state.picked.length === 0 && state.range === null ? state.hover : -1;
    if (node === this.#shown && node >= 0) return;
    this.#shown = node;
    if (node < 0) {
      this.#name.textContent = '';
      this.#body.replaceChildren(this.#together(), el('p', { class: 'clab-hint' }, HINT));
      return;
    }
    this.#name.textContent = `${KINDS[state.forest.kind[node]!]!} · ${state.label(node)}`;
    const list = el('dl', {});
    for (const fact of factsOf(state.forest, node)) list.append(el('dt', {}, fact.name), el('dd', {}, fact.text));
    this.#body.replaceChildren(list);
    const table = tableOf(state.forest, node);
    const row = state.forest.row[node]!;
    const there = BODIES.filter((name) => table.names.includes(name));
    if (row < 0 || there.length === 0) return;
    const place = el('div', {});
    place.append(
      button('show texts', () => {
        const texts = there.flatMap((name) => {
          const text = table.text(name, row);
          return text === null || text === ''
            ? []
            : [el('div', {}, name.replace('_', ' ')), el('pre', {}, text.split('\n').map(show).join('\n'))];
        });
        place.replaceChildren(...(texts.length === 0 ? ['nothing was said here'] : texts));
      }),
    );
    this.#body.append(place);
  }

  /** What is selected, or everything, together. */
  #together(): HTMLElement {
    const state = this.#state;
    const { forest } = state;
    const counts = new Map<number, number>();
    let time = 0;
    for (let node = 0; node < forest.size; node++) {
      if (forest.row[node]! < 0 || !state.counts(node) || !state.shown(node)) continue;
      counts.set(forest.kind[node]!, (counts.get(forest.kind[node]!) ?? 0) + 1);
      if (state.countedKinds[0] === forest.kind[node]) time += forest.span[node]!;
    }
    const list = el('dl', {});
    const put = (name: string, text: string): void => {
      list.append(el('dt', {}, name), el('dd', {}, text));
    };
    if (state.range !== null) put('range', `${durationText(state.range[0])} to ${durationText(state.range[1])}`);
    for (const [kind, many] of [...counts].sort(([a], [b]) => a - b)) put(`${KINDS[kind]!}s`, count(many));
    const [kind] = state.countedKinds;
    if (kind !== undefined) put(`time in ${KINDS[kind]!}s`, durationText(time));
    if (forest.sources.length > 1) put('from', plural(forest.sources.length, 'file'));
    return list;
  }
}
