/** Elements built node by node: no text ever passes through a parser. */

type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** An element with attributes and children; `false`, `null` and `undefined` attributes are left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined)
      element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children);
  return element;
}

/** A button that does something. */
export function button(text: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = el('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', act);
  return made;
}

/** A choice among words, of the first one at first; the value of each is its place. */
export function choice(name: string, words: readonly string[], changed: (place: number) => void): HTMLSelectElement {
  const made = el(
    'select',
    { 'aria-label': name, title: name },
    ...words.map((word, place) => el('option', { value: place }, word.length > 60 ? `${word.slice(0, 59)}…` : word)),
  );
  made.addEventListener('change', () => {
    changed(Number(made.value));
  });
  return made;
}

let made = 0;

/** An id that no other element of the page has. */
export function uniqueId(stem: string): string {
  return `clab-${stem}-${++made}`;
}

/** The row that a key moves to from `active`, `page` rows at a time; none for a key that does not move. */
export function rowAfter(key: string, active: number, page: number, rows: number): number | undefined {
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: active + 1,
    ArrowUp: active - 1,
    PageDown: active + page,
    PageUp: active - page,
    Home: 0,
    End: rows - 1,
  };
  return moves[key];
}

/** Call `act` once the calls have stopped for `ms`. */
export function debounced(ms: number, act: () => void): { call: () => void; cancel: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = (): void => {
    clearTimeout(timer);
  };
  return {
    call: () => {
      cancel();
      timer = setTimeout(act, ms);
    },
    cancel,
  };
}
