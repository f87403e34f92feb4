/** The Python that shows the same: what a notebook's cells begin with. */
import { asPython, type RowsByTable } from '../views/state.ts';
import type { Choice } from './settings.ts';

export interface Scene {
  /** Paths as they are named from the notebook's folder. */
  readonly paths: readonly string[];
  readonly compare: boolean;
  readonly view: Choice;
  readonly selection: RowsByTable;
  readonly bodies: boolean;
  /** Whether everything could be read and verified; where not, the rest is loaded all the same. */
  readonly isWhole: boolean;
}

const DRAWN: Readonly<Record<Choice, string>> = {
  explorer: 'cl.explore(lab)',
  timeline: 'cl.timeline(lab)',
  topology: 'cl.topology(lab)',
  stop_reasons: 'cl.stop_reasons(lab)',
  table: '',
};

/** The cells, one text each. */
export function pythonCells(scene: Scene): string[] {
  const options = `${scene.bodies ? ', bodies=True' : ''}${scene.isWhole ? '' : ', on_error="collect"'}`;
  const load = (path: string): string => `cl.load(${literal(path)}${options})`;
  const [first = '', second = ''] = scene.paths;
  const cells: string[] = [];
  if (scene.compare) {
    const names = `expected = ${literal(first)}\nactual = ${literal(second)}`;
    cells.push(`import cassette_lab as cl\n\n${names}\ncl.diff(expected, actual)`, 'cl.side_by_side(expected, actual)');
    for (const [side, rows] of Object.entries(scene.selection))
      if (rows.length > 0) cells.push(asPython({ calls: rows }, `cl.load(${side}${options})`));
    return cells;
  }
  const begin =
    scene.paths.length === 1
      ? `lab = ${load(first)}`
      : `lab = cl.load(\n${scene.paths.map((path) => `    ${literal(path)},\n`).join('')}${options === '' ? '' : `    ${options.slice(2)},\n`})`;
  cells.push(`import cassette_lab as cl\n\n${begin}\nlab${scene.isWhole ? '' : '.problems'}`);
  if (DRAWN[scene.view] !== '') cells.push(DRAWN[scene.view]);
  else cells.push('lab.to_pandas()');
  for (const [name, rows] of Object.entries(scene.selection)) if (rows.length > 0) cells.push(asPython({ [name]: rows }));
  return cells;
}

/** A text as Python writes it; what cannot be seen, or turns round what stands beside it, is an escape. */
export function literal(text: string): string {
  const escaped = text.replace(/["\\]|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) => {
    if (character === '"' || character === '\\') return `\\${character}`;
    const code = character.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
  return `"${escaped}"`;
}

/** The path of a file as it is named from a folder, both from the root. */
export function fromFolder(path: string, folder: string): string {
  const to = path.split('/').filter((part) => part !== '');
  const from = folder.split('/').filter((part) => part !== '');
  let same = 0;
  while (same < from.length && same < to.length && from[same] === to[same]) same++;
  return [...from.slice(same).map(() => '..'), ...to.slice(same)].join('/') || '.';
}
