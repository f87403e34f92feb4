/** What stands above linked views: search, filters, folding and zooming, and the selection as Python. */
import { button, choice, debounced, el } from '../dom/build.ts';
import { CATEGORIES, COUNTED } from '../model/categories.ts';
import { MATCH } from '../model/order.ts';
import { show } from '../text.ts';
import { count } from '../words.ts';
import { ANY, asPython, NOT_COMPLETED, type Filter, type State } from './state.ts';
import type { Waterfall } from './waterfall.ts';

const MOST_LABELS = 200;

export interface Action {
  readonly id: string;
  readonly label: string;
  readonly title?: string;
}

export interface ToolbarWishes {
  /** What the tables are called in Python. */
  readonly lab: string;
  /** Whether the bars may stand in time or all begin at zero. */
  readonly bothLooks: boolean;
  readonly actions: readonly Action[];
  readonly act: (id: string) => void;
  readonly say: (words: string) => void;
}

export class Toolbar {
  readonly element: HTMLDivElement;
  readonly search: HTMLInputElement;
  readonly #count: HTMLElement;
  readonly #state: State;
  readonly #waterfall: Waterfall | null;
  readonly #shows: ((filter: Filter) => void)[] = [];
  #at = -1;

  constructor(state: State, waterfall: Waterfall | null, wishes: ToolbarWishes) {
    this.#state = state;
    this.#waterfall = waterfall;
    this.search = el('input', {
      type: 'search',
      placeholder: 'search  (/)',
      title: 'labels, keys, models and errors; Enter goes to the next',
      'aria-label': 'search labels, keys, models and errors',
      spellcheck: 'false',
    });
    this.#count = el('span', { class: 'clab-count', role: 'status' });
    const later = debounced(120, () => {
      state.setFilter({ ...state.filter, text: this.search.value });
      this.#at = -1;
    });
    this.search.addEventListener('input', later.call);
    this.search.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1);
      else if (event.key === 'ArrowDown') waterfall?.rows.element.focus();
      else return;
      event.preventDefault();
    });
    this.element = el(
      'div',
      { class: 'clab-bar', role: 'toolbar', 'aria-label': 'search and filter' },
      this.search,
      ...this.#filters(),
      this.#count,
    );
    if (waterfall !== null) {
      if (wishes.bothLooks) {
        this.element.append(
          choice('bars', ['when it ran', 'how long it took'], (place) => {
            waterfall.setLook(place === 0 ? 'timeline' : 'topology');
          }),
        );
      }
      if (waterfall.look === 'timeline') {
        this.element.append(
          button(
            '−',
            () => {
              waterfall.zoom(1.5);
            },
            { title: 'zoom out (-)', 'aria-label': 'zoom out' },
          ),
          button(
            '+',
            () => {
              waterfall.zoom(1 / 1.5);
            },
            { title: 'zoom in (+)', 'aria-label': 'zoom in' },
          ),
          button(
            'fit',
            () => {
              waterfall.seeSelection();
            },
            { title: 'zoom to the selection, or to everything (z)' },
          ),
        );
      }
      const hasTree = state.forest.children.some((children) => children > 0);
      if (hasTree) {
        this.element.append(
          button(
            'fold',
            () => {
              state.foldFrom(1);
            },
            { title: 'fold everything' },
          ),
          button(
            'unfold',
            () => {
              state.foldAll(false);
            },
            { title: 'unfold everything (*)' },
          ),
        );
      }
    }
    const copy = button(
      'copy as Python',
      () => {
        void this.#copy(wishes);
      },
      { title: 'copy the selection as Python' },
    );
    this.element.append(copy);
    for (const action of wishes.actions)
      this.element.append(
        button(
          show(action.label),
          () => {
            wishes.act(action.id);
          },
          { title: action.title ?? null },
        ),
      );
    const enable = (): void => {
      copy.disabled = state.chosen === null;
      this.#tell();
    };
    state.listen((change) => {
      if (change === 'rows' || change === 'selection') enable();
    });
    enable();
  }

  #filters(): HTMLElement[] {
    const state = this.#state;
    const { forest } = state;
    const made: HTMLElement[] = [];
    const put = (select: HTMLSelectElement, place: (filter: Filter) => number): void => {
      made.push(select);
      this.#shows.push((filter) => (select.value = String(Math.max(0, place(filter)))));
    };
    const here = CATEGORIES.slice(0, COUNTED).flatMap(({ name }, number) =>
      forest.category.includes(number) ? [{ name, number }] : [],
    );
    if (here.length > 1) {
      const values = [ANY, NOT_COMPLETED, ...here.map(({ number }) => number)];
      put(
        choice('outcome', ['any outcome', 'not completed', ...here.map(({ name }) => name)], (place) => {
          state.setFilter({ ...state.filter, category: values[place]! });
        }),
        (filter) => values.indexOf(filter.category),
      );
    }
    const kinds = new Set(state.countedKinds);
    const labels = new Set<string>();
    for (let node = 0; node < forest.size && labels.size <= MOST_LABELS; node++)
      if (kinds.has(forest.kind[node]!)) labels.add(state.group(node, 'label'));
    if (labels.size > 1 && labels.size <= MOST_LABELS) {
      const names = [...labels].sort();
      put(
        choice('label', ['any label', ...names], (place) => {
          state.setFilter({ ...state.filter, label: place === 0 ? '' : names[place - 1]! });
        }),
        (filter) => names.indexOf(filter.label) + 1,
      );
    }
    const deepest = forest.depth.reduce((most, depth) => Math.max(most, depth), 0) + 1;
    if (deepest > 1) {
      const levels = Math.min(deepest, 12);
      put(
        choice(
          'depth',
          ['any depth', ...Array.from({ length: levels }, (_, i) => `depth ${i + 1}${i === 0 ? '' : ' or less'}`)],
          (place) => {
            state.setFilter({ ...state.filter, depth: place });
          },
        ),
        (filter) => filter.depth,
      );
    }
    return made;
  }

  /** Set the filter, and let the choices say so. */
  filter(filter: Filter): void {
    this.search.value = filter.text;
    for (const say of this.#shows) say(filter);
    this.#state.setFilter(filter);
  }

  /** Go to the next match of the search, or the one before. */
  next(by: 1 | -1): void {
    const { mask, forest } = this.#state;
    if (mask === null || this.#waterfall === null) return;
    const found = Array.from(mask.keys()).filter((node) => mask[node] === MATCH);
    if (found.length === 0) return;
    this.#at = (this.#at + by + found.length) % found.length;
    const node = found[this.#at]!;
    if (node < forest.size) {
      this.#waterfall.show(node);
      this.#state.choose([node]);
    }
  }

  clear(): boolean {
    if (this.search.value === '') return false;
    this.search.value = '';
    this.#state.setFilter({ ...this.#state.filter, text: '' });
    return true;
  }

  #tell(): void {
    const { mask, chosen, matches, forest } = this.#state;
    const words = mask === null ? '' : `${count(matches)} of ${count(forest.size)}`;
    const selected = chosen === null ? '' : `${count(chosen.reduce((sum, each) => sum + each, 0))} selected`;
    this.#count.textContent = [words, selected].filter((part) => part !== '').join(' · ');
  }

  async #copy(wishes: ToolbarWishes): Promise<void> {
    const code = asPython(this.#state.selection.rows, wishes.lab);
    wishes.say((await copyText(this.element, code)) ? `copied: ${code.length > 120 ? `${code.slice(0, 117)}…` : code}` : code);
  }
}

/** Put a text on the clipboard; false where the page may not. */
async function copyText(near: HTMLElement, text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A sandboxed frame has no clipboard of its own; an old way may be left.
    const box = el('textarea', { class: 'clab-hidden', 'aria-hidden': 'true' });
    box.value = text;
    near.append(box);
    box.select();
    let done = false;
    try {
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way inside a sandboxed frame
      done = document.execCommand('copy');
    } catch {
      done = false;
    }
    box.remove();
    return done;
  }
}
