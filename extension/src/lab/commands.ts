/** What can be asked for besides opening a file: folders, comparisons, and the Python that shows the same. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { InputDialog, showErrorMessage, type ICommandPalette } from '@jupyterlab/apputils';
import type { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import type { ILauncher } from '@jupyterlab/launcher';
import { reasonOf } from '../index.ts';
import { cassetteIcon } from './icon.ts';
import { isOurs } from './kinds.ts';
import { writeNotebook } from './notebook.ts';
import { fromFolder, pythonCells } from './python.ts';
import { nameOf, type Wish } from './reading.ts';
import { FACTORY } from './documents.ts';
import type { RunTab } from './tabs.ts';
import type { RunView } from './view.ts';

export const OPEN = 'cassette-lab:open';
export const OPEN_FOLDER = 'cassette-lab:open-folder';
export const COMPARE = 'cassette-lab:compare';

const CATEGORY = 'Agent Runs';

interface Item {
  readonly path: string;
  readonly type: string;
  readonly name: string;
  readonly last_modified: string;
}

export interface Parts {
  readonly browsers: IFileBrowserFactory | null;
  readonly palette: ICommandPalette | null;
  readonly launcher: ILauncher | null;
  readonly open: (wish: Wish) => RunTab;
}

export function addCommands(app: JupyterFrontEnd, { browsers, palette, launcher, open }: Parts): void {
  const { commands } = app;
  const selected = (): Item[] => [...(browsers?.tracker.currentWidget?.selectedItems() ?? [])];
  const folder = (): string => browsers?.tracker.currentWidget?.model.path ?? '';

  commands.addCommand(OPEN, {
    label: 'Open as Agent Run…',
    caption: 'Open a cassette, session log or flight record, whatever it is called',
    describedBy: { args: { type: 'object', properties: { path: { type: 'string' } } } },
    execute: async (args) => {
      const path = await asked(args['path'], 'Open as Agent Run', 'Path of a cassette, session log or flight record', folder());
      if (path !== null) await commands.execute('docmanager:open', { path, factory: FACTORY });
    },
  });

  commands.addCommand(OPEN_FOLDER, {
    label: (args) =>
      args['isLauncher'] === true ? 'Agent runs' : args['isPalette'] === true ? 'Open Folder as Lab…' : 'Open as Lab',
    caption: 'Show all cassettes, session logs and flight records of a folder as one lab',
    icon: (args) => (args['isPalette'] === true ? undefined : cassetteIcon),
    describedBy: { args: { type: 'object', properties: { path: { type: 'string' }, cwd: { type: 'string' } } } },
    isVisible: (args) => args['isPalette'] === true || args['isLauncher'] === true || selected().length <= 1,
    execute: async (args) => {
      const [chosen] = selected();
      const given =
        args['path'] ?? args['cwd'] ?? (args['isPalette'] !== true && chosen?.type === 'directory' ? chosen.path : undefined);
      const path = await asked(given, 'Open Folder as Lab', 'Path of a folder; empty for the root', folder());
      return path === null ? undefined : open({ paths: [path], compare: false });
    },
  });

  commands.addCommand(COMPARE, {
    label: (args) => (args['isPalette'] === true ? 'Compare Two Runs…' : 'Compare Agent Runs'),
    caption: 'Two cassettes call by call; the older one is the expected one',
    icon: (args) => (args['isPalette'] === true ? undefined : cassetteIcon),
    describedBy: { args: { type: 'object', properties: { expected: { type: 'string' }, actual: { type: 'string' } } } },
    isVisible: (args) => args['isPalette'] === true || pairOf(selected()) !== null,
    execute: async (args) => {
      const pair = args['isPalette'] === true || args['expected'] !== undefined ? null : pairOf(selected());
      const here = folder() === '' ? '' : `${folder()}/`;
      const expected = await asked(args['expected'] ?? pair?.[0], 'Compare Two Runs', 'Path of the expected run', here);
      if (expected === null) return undefined;
      const actual = await asked(args['actual'] ?? pair?.[1], 'Compare Two Runs', 'Path of the run to compare with it', here);
      return actual === null ? undefined : open({ paths: [expected, actual], compare: true });
    },
  });

  for (const command of [OPEN, OPEN_FOLDER, COMPARE])
    palette?.addItem({ command, category: CATEGORY, args: { isPalette: true } });
  launcher?.add({ command: OPEN_FOLDER, category: 'Other', rank: 2, args: { isLauncher: true } });
}

/** Two files that may be compared, the older one first. */
function pairOf(items: readonly Item[]): readonly [string, string] | null {
  const [one, other] = items;
  if (one === undefined || other === undefined || items.length !== 2) return null;
  if (![one, other].every(({ name, type }) => type !== 'directory' && (isOurs(name) || name.endsWith('.jsonl')))) return null;
  // Of equal age, or unknown, as they stand in the list.
  const swap = Date.parse(other.last_modified) < Date.parse(one.last_modified);
  return swap ? [other.path, one.path] : [one.path, other.path];
}

/** A path that was given, or that a person types; null where they do not. */
async function asked(given: unknown, title: string, label: string, text: string): Promise<string | null> {
  if (typeof given === 'string') return given;
  const { value } = await InputDialog.getText({ title, label, text });
  return value === null ? null : value.trim().replace(/^\/+|\/+$/g, '');
}

/** Write the Python that shows what a view shows into a new notebook beside its files, and open that. */
export async function writePython(app: JupyterFrontEnd, view: RunView): Promise<void> {
  const { contents, kernelspecs } = app.serviceManager;
  const { paths, compare } = view.wish;
  const last = paths.at(-1) ?? '';
  const isFolder = paths.length === 1 && (await contents.get(last, { content: false })).type === 'directory';
  const folder = isFolder ? last : last.slice(0, Math.max(0, last.lastIndexOf('/')));
  const cells = pythonCells({
    paths: paths.map((path) => fromFolder(contents.localPath(path), contents.localPath(folder))),
    compare,
    view: view.view,
    selection: view.selection,
    bodies: view.hasBodies,
    isWhole: view.isWhole,
  });
  await kernelspecs.ready;
  const stem = isFolder ? 'lab' : compare ? 'comparison' : stemOf(nameOf(last));
  const path = await writeNotebook(contents, kernelspecs.specs, folder, stem, cells);
  await app.commands.execute('docmanager:open', { path, factory: 'Notebook' });
}

function stemOf(name: string): string {
  const ending = /(?:\.cassette)?\.jsonl(?:\.zstd)?$|(?:\.flight)?\.json$/.exec(name);
  return (ending === null ? name : name.slice(0, ending.index)) || 'run';
}

export function failed(error: unknown): void {
  void showErrorMessage('Agent run', reasonOf(error));
}
