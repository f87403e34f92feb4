/**
 * What stands in a tab: files on their way from the server, or read here, as a view. Its head says how far they can be
 * trusted; closing the tab ends the reading.
 */
import type { Contents, ServerConnection } from '@jupyterlab/services';
import type { Message } from '@lumino/messaging';
import { Signal, type ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { mount, reasonOf, type Handle, type RowsByTable, type ViewOptions } from '../index.ts';
import { matching, namesOf } from './keeping.ts';
import { hindrance, readText, refused } from './local.ts';
import { nameOf, Reading, type Shown, type Wish } from './reading.ts';
import { givesBodies, NoServerHalfError, read } from './server.ts';
import type { Choice, Settings } from './settings.ts';

export interface Surroundings {
  readonly contents: Contents.IManager;
  readonly server: ServerConnection.ISettings;
  readonly settings: Settings;
}

const SEVERAL = 'folders and comparisons are read by the server half of cassette_lab';
const HEAD_EVERY_MS = 100;
const ROWS_EVERY_MS = 250;
const ROWS_GROW_BY = 1.25;
/** Drawing the rows that are there takes at most this share of the time. */
const DRAWING_SHARE = 0.2;

export class RunView extends Widget {
  view: Choice;
  /** Rows that are selected, and what they would be called after another reading. */
  selection: RowsByTable = {};
  #picked: RowsByTable = {};
  #wish: Wish;
  #shown: Shown | null = null;
  #handle: Handle | null = null;
  /** Who had the keyboard when the tab was opened and could not take it. */
  #waiting: Element | null = null;
  #reading: AbortController | null = null;
  #isDue: ReturnType<typeof setTimeout> | undefined;
  #drawnRows = -1;
  #drawnAt = 0;
  #drawMs = 0;
  #givesBodies = false;
  #wantsBodies = false;
  #isChanged = false;
  #seen: string | null = null;
  #watch: ReturnType<typeof setTimeout> | undefined;
  readonly #told = new Signal<this, void>(this);

  constructor(
    wish: Wish,
    private readonly around: Surroundings,
  ) {
    super();
    this.#wish = wish;
    this.view = around.settings.view;
    this.addClass('clab-tab');
    this.node.tabIndex = -1;
    // A view keeps keys from JupyterLab, for a notebook's single letters. A tab has none of those: its shortcuts go on working.
    this.node.addEventListener('focusin', ({ target }) => {
      if (target instanceof Element) target.removeAttribute('data-lm-suppress-shortcuts');
    });
    Object.assign(this.node.style, { overflow: 'hidden', minHeight: '0', outline: 'none' });
  }

  /** Emitted when anything of the following may have changed. */
  get told(): ISignal<this, void> {
    return this.#told;
  }

  get wish(): Wish {
    return this.#wish;
  }

  get givesBodies(): boolean {
    return this.#givesBodies;
  }

  get hasBodies(): boolean {
    return this.#shown?.bodies === true;
  }

  get isDiff(): boolean {
    return this.#shown?.isDiff === true;
  }

  /** Whether all was read to its end and verified. */
  get isWhole(): boolean {
    return this.#shown?.trust.state === 'verified';
  }

  /** Whether what is shown is no longer what is there. */
  get isChanged(): boolean {
    return this.#isChanged || this.#shown?.changed === true;
  }

  /** The same file under another name. */
  rename(path: string): void {
    this.#wish = { ...this.#wish, paths: [path] };
    this.#head();
  }

  choose(view: Choice): void {
    this.view = view;
    this.#draw();
    this.#told.emit();
  }

  /** The other one is the expected one. */
  async swap(): Promise<void> {
    this.#wish = { ...this.#wish, paths: [...this.#wish.paths].reverse() };
    await this.load();
  }

  /** Read, or read again; what was selected stays so where it is still there. */
  async load(bodies = this.#wantsBodies): Promise<void> {
    this.#reading?.abort();
    const ending = new AbortController();
    this.#reading = ending;
    this.#wantsBodies = bodies;
    this.#isChanged = false;
    const kept = this.#keep();
    const reading = new Reading(this.#wish, this.around.settings.maxRows);
    this.#drawnRows = -1;
    this.#take(reading);
    try {
      await this.#look();
      await this.#read(reading, bodies, ending.signal);
    } catch (error) {
      if (ending.signal.aborted) return;
      reading.close(reasonOf(error));
      this.#shown = reading.shown();
    }
    if (ending.signal.aborted || this.isDisposed) return;
    this.#reading = null;
    clearTimeout(this.#isDue);
    this.#isDue = undefined;
    this.#draw();
    this.#restore(kept);
    this.#told.emit();
    this.#lookLater();
  }

  async #read(reading: Reading, bodies: boolean, signal: AbortSignal): Promise<void> {
    const { server, contents } = this.around;
    const [path = ''] = this.#wish.paths;
    const drive = contents.driveName(path);
    // Files of another drive are not the server's; shared documents are.
    if (drive === '' || drive === 'RTC') {
      try {
        const wish = { ...this.#wish, paths: this.#wish.paths.map((each) => contents.localPath(each)) };
        await read(server, wish, bodies, signal, (event, data) => {
          if (signal.aborted) return;
          reading.take(event, data);
          this.#take(reading);
        });
        reading.close(null);
        this.#shown = reading.shown();
        void this.#askForBodies();
        return;
      } catch (error) {
        if (!(error instanceof NoServerHalfError)) throw error;
      }
    }
    const found = await this.#readHere(path);
    if (!signal.aborted) this.#shown = found;
  }

  /** Without the server half: what can be read in the browser. */
  async #readHere(path: string): Promise<Shown> {
    const { contents } = this.around;
    if (this.#wish.paths.length !== 1 || this.#wish.compare) return refused(SEVERAL);
    const model = await contents.get(path, { content: false });
    const name = model.type === 'directory' ? '' : nameOf(path);
    const reason = hindrance(name, model.size ?? 0);
    if (reason !== null) return refused(reason);
    const text = String((await contents.get(path, { content: true, type: 'file', format: 'text' })).content);
    // The size of a link is not that of its file.
    const late = hindrance(name, text.length);
    return late === null ? readText(path, text) : refused(late);
  }

  async #askForBodies(): Promise<void> {
    this.#givesBodies = (await givesBodies(this.around.server).catch(() => null)) === true;
    this.#told.emit();
  }

  /** Say and draw what is known: the first rows at once, what follows not for every event of an answer. */
  #take(reading: Reading): void {
    if (this.#handle === null || (this.#drawnRows <= 0 && reading.rows > 0)) {
      this.#drawRows(reading);
      return;
    }
    this.#isDue ??= setTimeout(() => {
      this.#isDue = undefined;
      if (this.#reading === null || this.isDisposed) return;
      const wait = Math.max(ROWS_EVERY_MS, this.#drawMs / DRAWING_SHARE);
      const hasMore = reading.rows >= ROWS_GROW_BY * Math.max(1, this.#drawnRows);
      if (hasMore && performance.now() - this.#drawnAt >= wait) this.#drawRows(reading);
      else this.#head(reading);
    }, HEAD_EVERY_MS);
  }

  #drawRows(reading: Reading): void {
    this.#shown = reading.shown();
    this.#drawnRows = reading.rows;
    this.#draw();
  }

  #draw(): void {
    if (this.#shown === null || this.isDisposed) return;
    const began = performance.now();
    const hadFocus = this.node.contains(document.activeElement);
    const { tables, isDiff } = this.#shown;
    const changes = { view: isDiff ? 'diff' : this.view, tables, options: this.#options(this.#shown) } as const;
    if (this.#handle === null) {
      this.#handle = mount(this.node, {
        ...changes,
        theme: 'auto',
        onSelect: ({ picked, rows }) => {
          this.#picked = picked;
          this.selection = rows;
        },
      });
    } else this.#handle.update(changes);
    // Rows that are drawn anew are other elements; whoever was walking through them goes on. So does whoever opened the tab
    // before it could have the keyboard, and has gone nowhere since.
    const at = document.activeElement;
    if ((hadFocus && (at === document.body || at === this.node)) || (this.#waiting !== null && at === this.#waiting))
      this.#focus();
    this.#drawnAt = performance.now();
    this.#drawMs = this.#drawnAt - began;
    this.node.dataset['state'] = this.#shown.trust.state;
    this.node.dataset['done'] = String(this.#reading === null);
  }

  /** Say what is known now above the rows that are drawn. */
  #head(reading?: Reading): void {
    if (this.#shown === null || this.#handle === null) return;
    if (reading !== undefined) this.#shown = { ...this.#shown, ...reading.said() };
    this.#handle.update({ options: this.#options(this.#shown) });
    this.node.dataset['state'] = this.#shown.trust.state;
  }

  #options(shown: Shown): ViewOptions {
    const words = this.isChanged ? 'changed on disk since it was read: reload' : null;
    const problem = [words, shown.problem].filter((part) => part !== null).join(' · ');
    return {
      title: titleOf(this.#wish),
      trust: shown.trust,
      bodies: shown.bodies,
      height: 'fill',
      progress: shown.progress,
      problem: problem === '' ? null : problem,
      downloads: true,
      ...(shown.isDiff ? { diff: shown.diff } : {}),
    };
  }

  // What was selected, over a second reading

  #keep(): ReadonlyMap<string, ReadonlySet<string>> {
    return this.#shown === null ? new Map() : namesOf(this.#shown.tables, this.#picked);
  }

  #restore(kept: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (kept.size === 0 || this.#shown === null || this.#handle === null) return;
    const rows = matching(this.#shown.tables, kept);
    this.#handle.select(rows);
    this.#picked = rows;
    this.selection = rows;
  }

  // Whether the files are still what was read

  /** What the server says of the files now; empty where it does not say. */
  async #facts(): Promise<string> {
    const models = this.#wish.paths.map((path) => this.around.contents.get(path, { content: false }));
    const facts = (await Promise.all(models)).map(({ type, last_modified, size }) =>
      type === 'directory' ? '' : `${last_modified} ${size ?? ''}`,
    );
    return facts.join('\n');
  }

  async #look(): Promise<void> {
    this.#seen = await this.#facts().catch(() => null);
  }

  #lookLater(): void {
    clearTimeout(this.#watch);
    const { checkSeconds } = this.around.settings;
    if (checkSeconds <= 0 || this.isDisposed || this.#isChanged) return;
    this.#watch = setTimeout(() => {
      void this.#lookAgain();
    }, 1000 * checkSeconds);
  }

  async #lookAgain(): Promise<void> {
    if (this.isVisible && this.#isIdle() && document.visibilityState === 'visible') {
      const before = this.#seen;
      const now = await this.#facts().catch(() => null);
      if (!this.#isIdle() || before !== this.#seen) return;
      if (before !== null && now !== null && now !== before) {
        this.#isChanged = true;
        this.#draw();
        this.#told.emit();
      }
    }
    this.#lookLater();
  }

  #isIdle(): boolean {
    return this.#reading === null && !this.isDisposed;
  }

  // The tab

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    const at = document.activeElement;
    if (at === this.node || !this.node.contains(at)) this.#focus();
    this.#waiting = this.node.contains(document.activeElement) ? null : document.activeElement;
  }

  /** The rows have the keyboard, or the tab until there are some. */
  #focus(): void {
    (this.node.querySelector<HTMLElement>('[role=tree]') ?? this.node).focus({ preventScroll: true });
    if (this.node.contains(document.activeElement)) this.#waiting = null;
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.#reading?.abort();
    this.#reading = null;
    clearTimeout(this.#isDue);
    clearTimeout(this.#watch);
    this.#handle?.dispose();
    this.#handle = null;
    Signal.clearData(this);
    super.dispose();
  }
}

/** `run.cassette.jsonl`, `a.cassette.jsonl → b.cassette.jsonl`, `runs/`. */
export function titleOf({ paths, compare }: Wish): string {
  const names = paths.map((path) => (path === '' ? '/' : nameOf(path)));
  return compare ? names.join(' → ') : names.join(', ');
}
