/**
 * One way in for every front end (widget, report, viewer): `mount` puts a view into an element and gives a handle to change
 * it. Nothing here knows who asks.
 */
import { Table } from './data/table.ts';
import { button, el } from './dom/build.ts';
import { adoptStyle } from './dom/style.ts';
import { markTone, watchTheme, type ThemeChoice } from './draw/theme.ts';
import { reasonOf, show } from './text.ts';
import { contentOf, type Content, type ViewName } from './views/content.ts';
import type { DiffFacts } from './views/changes.ts';
import { NOTHING, type RowsByTable, type Selection } from './views/state.ts';
import type { Action } from './views/toolbar.ts';

export type { Action, DiffFacts, RowsByTable, Selection, ThemeChoice, ViewName };

/** How far what is shown can be trusted; said in the head of every view that has one. */
export interface Trust {
  readonly state: 'verified' | 'partial' | 'unverified' | 'verifying' | 'broken';
  /** `chain verified`, `verified up to line 812, torn tail`, … */
  readonly words: string;
}

export interface ViewOptions {
  readonly title?: string;
  readonly trust?: Trust;
  /** Whether prompts, results and the like were loaded, too. */
  readonly bodies?: boolean;
  /** Pixels, or `fill` for all the room that the element has. */
  readonly height?: number | 'fill';
  /** What the tables are called in Python, for `copy as Python`; `lab` unless told. */
  readonly lab?: string;
  readonly actions?: readonly Action[];
  /** Buttons that save the picture and the table. */
  readonly downloads?: boolean;
  /** 0 to 1 while rows still come. */
  readonly progress?: number | null;
  /** Why nothing, or not everything, can be shown. */
  readonly problem?: string | null;
  /** For the diff: what is known of it as a whole. */
  readonly diff?: DiffFacts;
}

export interface MountOptions {
  readonly view: ViewName;
  /** Arrow IPC bytes by table name. */
  readonly tables: Readonly<Record<string, Uint8Array>>;
  readonly options?: ViewOptions;
  readonly onSelect?: (selection: Selection) => void;
  readonly onAction?: (id: string) => void;
  readonly theme?: ThemeChoice;
}

export interface Handle {
  /**
   * Change some of what was given; what is left out stays as it was. Other tables or another view clear the selection, except
   * while rows still come (`options.progress`): then rows keep their numbers, and what was selected, folded and in sight stays.
   */
  update(changes: Partial<MountOptions>): void;
  /** Select rows of tables, as if they had been clicked; no rows select nothing. Tells nobody. */
  select(rows: RowsByTable): void;
  /** Where everything is that is drawn, in pixels of the view's canvases. */
  marks(): readonly object[];
  /** The table's rows as comma-separated values. */
  csv(): string;
  /** The picture as it is in sight. */
  picture(): Promise<Blob | null>;
  dispose(): void;
}

const HEIGHTS: Readonly<Record<ViewName, number>> = {
  topology: 420,
  timeline: 460,
  stop_reasons: 300,
  table: 380,
  diff: 480,
  explorer: 720,
};

export function mount(element: HTMLElement, given: MountOptions): Handle {
  let wishes = given;
  adoptStyle(element);
  const root = el('div', { class: 'clab-view', role: 'group' });
  element.append(root);
  let content: Content | null = null;
  let quiet = false;

  const build = (): void => {
    content?.dispose();
    content = null;
    root.replaceChildren();
    const options = wishes.options ?? {};
    const { height = HEIGHTS[wishes.view] } = options;
    root.style.height = height === 'fill' ? '100%' : `${height}px`;
    root.setAttribute('aria-label', show(options.title ?? wishes.view.replace('_', ' ')));
    root.dataset['view'] = wishes.view;
    markTone(root, wishes.theme ?? 'auto');
    try {
      const tables = Object.fromEntries(Object.entries(wishes.tables).map(([name, bytes]) => [name, Table.read(bytes)]));
      content = contentOf(root, wishes.view, tables, options, {
        select: (selection) => {
          if (!quiet) wishes.onSelect?.(selection);
        },
        act: (id) => {
          wishes.onAction?.(id);
        },
        handle: () => handle,
      });
      root.append(...content.elements);
      content.draw();
    } catch (error) {
      root.append(el('div', { class: 'clab-message', role: 'alert' }, `These tables cannot be shown: ${reasonOf(error)}`));
    }
  };

  // JupyterLab would take keys for its own commands: it looks for this mark at the very element that has the focus.
  root.addEventListener('focusin', ({ target }) => {
    (target as Element).setAttribute('data-lm-suppress-shortcuts', 'true');
  });
  root.addEventListener('keydown', (event) => {
    if (content?.key(event) !== true) return;
    event.preventDefault();
    event.stopPropagation();
  });

  const retheme = (): void => {
    markTone(root, wishes.theme ?? 'auto');
    content?.retheme();
  };
  const unwatch = watchTheme(root, retheme);

  const handle: Handle = {
    update: (changes) => {
      const before = wishes;
      wishes = { ...wishes, ...changes };
      const isOther = before.view !== wishes.view;
      const hasOtherTables = before.tables !== wishes.tables;
      if (isOther || hasOtherTables || needsBuilding(before.options ?? {}, wishes.options ?? {})) {
        // While rows still come, what a person did with those that are here stays.
        const isGrowing = !isOther && typeof before.options?.progress === 'number';
        const done = isGrowing || !hasOtherTables ? content?.done() : undefined;
        build();
        quiet = true;
        if (done !== undefined && !isOther) content?.redo(done);
        quiet = false;
        if (isOther || (hasOtherTables && !isGrowing)) wishes.onSelect?.(NOTHING);
        return;
      }
      if (changes.options !== undefined) content?.head(wishes.options ?? {});
      if (changes.theme !== undefined) retheme();
    },
    select: (rows) => {
      quiet = true;
      try {
        content?.select(rows);
      } finally {
        quiet = false;
      }
    },
    marks: () => content?.marks() ?? [],
    csv: () => content?.csv() ?? '',
    picture: () => pictureOf(root),
    dispose: () => {
      unwatch();
      content?.dispose();
      root.remove();
    },
  };
  build();
  return handle;
}

/** Whether options differ in more than what the head says. */
function needsBuilding(before: ViewOptions, now: ViewOptions): boolean {
  const rest = ({ height, lab, actions, downloads, diff, progress, problem }: ViewOptions): string =>
    JSON.stringify([height, lab, actions, downloads, diff, typeof progress, typeof problem]);
  return rest(before) !== rest(now);
}

/** The view's canvases in one picture. */
async function pictureOf(root: HTMLElement): Promise<Blob | null> {
  const box = root.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const canvas = document.createElement('canvas');
  canvas.width = box.width * ratio;
  canvas.height = box.height * ratio;
  const context = canvas.getContext('2d');
  if (context === null) return null;
  const shown = [...root.querySelectorAll('canvas')].filter((each) => each.clientWidth > 0);
  context.fillStyle = getComputedStyle(root).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const each of shown) {
    const place = each.getBoundingClientRect();
    context.drawImage(
      each,
      (place.left - box.left) * ratio,
      (place.top - box.top) * ratio,
      place.width * ratio,
      place.height * ratio,
    );
  }
  return new Promise((resolve) => {
    canvas.toBlob(resolve, 'image/png');
  });
}

/** Save bytes as a file, from a page that may load nothing. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = el('a', { href: address, download: name });
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(address);
  }, 10_000);
}

/** Buttons that save what a view shows. */
export function downloadButtons(handle: () => Handle, stem: string): HTMLElement[] {
  return [
    button(
      'CSV',
      () => {
        save(`${stem}.csv`, new Blob([handle().csv()], { type: 'text/csv' }));
      },
      { title: 'save the table as comma-separated values' },
    ),
    button(
      'PNG',
      () => {
        void handle()
          .picture()
          .then((blob) => {
            if (blob !== null) save(`${stem}.png`, blob);
          });
      },
      { title: 'save the picture' },
    ),
  ];
}
