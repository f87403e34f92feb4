/** What a node is called and said to be. Everything given out here has been through `show`. */
import { show } from '../text.ts';
import { count, durationText, momentText, numberText, plural, UNKNOWN } from '../words.ts';
import { Table } from '../data/table.ts';
import { CATEGORIES } from './categories.ts';
import type { Forest } from './forest.ts';
import {
  CALL,
  COMPACTION,
  FILE,
  INHERITED,
  KINDS,
  MODEL_CALL,
  REDACTED,
  REQUEST,
  SESSION,
  STEP,
  TABLES,
  TOOL_CALL,
  TURN,
  UNPLACED,
} from './kinds.ts';

export const NO_LABEL = '(no label)';

/** The table that a node's row is in. */
export function tableOf(forest: Forest, node: number): Table {
  return forest.tables[TABLES[forest.table[node]!]!] ?? Table.empty;
}

/** The node's name as it stands in the tree. */
export function labelOf(forest: Forest, node: number): string {
  const table = tableOf(forest, node);
  const row = forest.row[node]!;
  switch (forest.kind[node]) {
    case FILE:
      return show(forest.sources[forest.source[node]!] ?? '') || 'recording';
    case CALL:
      return callLabel(table, row);
    case SESSION:
      return show(table.text('label', row) ?? table.text('title', row) ?? table.text('session_id', row) ?? 'session');
    case TURN:
      return `turn ${numberText(Number(table.value('turn', row) ?? NaN))}`;
    case STEP:
      return `step ${numberText(Number(table.value('step', row) ?? NaN))}`;
    case MODEL_CALL:
      return show(table.text('model', row) ?? 'model call') + again(table, 'attempt', row);
    case TOOL_CALL:
      return show(table.text('name', row) ?? 'tool');
    case COMPACTION:
      return 'compaction';
    case REQUEST: {
      const place = ['turn', 'step', 'attempt'].map((name) => table.value(name, row)).filter((part) => part !== null);
      return `${show(table.text('model', row) ?? 'request')}${place.length > 0 ? ` ${place.map(Number).join('.')}` : ''}`;
    }
    default:
      return '';
  }
}

/** The label of a row of `calls`, with its number where it is not the first call like this. */
export function callLabel(table: Table, row: number): string {
  return (show(table.text('label', row) ?? '') || NO_LABEL) + again(table, 'occurrence', row);
}

function again(table: Table, column: string, row: number): string {
  const number = Number(table.value(column, row) ?? NaN);
  return number > 1 ? ` ~${number}` : '';
}

/** What identifies a node in its table: a call key, an id; empty where its label does. */
export function keyOf(forest: Forest, node: number): string {
  const column = (
    { [CALL]: 'call_key', [SESSION]: 'session_id', [TOOL_CALL]: 'call_id', [REQUEST]: 'record_id' } as Record<number, string>
  )[forest.kind[node]!];
  return column === undefined ? '' : show(tableOf(forest, node).text(column, forest.row[node]!) ?? '');
}

export function modelOf(forest: Forest, node: number): string {
  const columns: Record<number, string> = {
    [CALL]: 'child_model',
    [MODEL_CALL]: 'model',
    [REQUEST]: 'model',
    [COMPACTION]: 'model',
  };
  const column = columns[forest.kind[node]!];
  return column === undefined ? '' : show(tableOf(forest, node).text(column, forest.row[node]!) ?? '');
}

/** How it ended, in a word: empty for what completed, the code for an error. */
export function outcomeOf(forest: Forest, node: number): string {
  const category = CATEGORIES[forest.category[node]!]!;
  if (!category.name.endsWith('error')) return category.word ?? '';
  const table = tableOf(forest, node);
  const row = forest.row[node]!;
  const said = table.text('error_code', row) ?? table.text('error_name', row);
  return said === null ? (category.word ?? category.name) : show(said);
}

/** One line for those who hear the tree instead of seeing it. */
export function sentenceOf(forest: Forest, node: number): string {
  const kind = forest.kind[node]!;
  const parts = [labelOf(forest, node)];
  if (kind !== TURN && kind !== STEP && kind !== COMPACTION) parts.push(KINDS[kind]!);
  const category = CATEGORIES[forest.category[node]!]!;
  if (category.name !== 'none') {
    const word = outcomeOf(forest, node);
    parts.push(word === '' || word === category.name ? category.name : `${category.name} ${word}`);
  }
  parts.push(durationText(forest.duration[node]!));
  if (kind !== FILE) parts.push(`at ${durationText(forest.start[node]!)}`);
  if (forest.latency[node]! > 0) parts.push(`start latency ${durationText(forest.latency[node]!)}`);
  if (forest.firstChunk[node]! >= 0) parts.push(`first chunk after ${durationText(forest.firstChunk[node]!)}`);
  if (!Number.isNaN(forest.retryFrom[node]!))
    parts.push(`retry after ${durationText(forest.start[node]! - forest.retryFrom[node]!)}`);
  if (forest.abortedAt[node]! >= 0) parts.push(`abort asked for at ${durationText(forest.abortedAt[node]!)}`);
  if (forest.disposedAt[node]! >= 0) parts.push(`disposed at ${durationText(forest.disposedAt[node]!)}`);
  const below = forest.end[node]! - node - 1;
  if (below > 0) parts.push(`${count(below)} below`);
  if ((forest.flags[node]! & REDACTED) !== 0) parts.push('redacted');
  if ((forest.flags[node]! & INHERITED) !== 0) parts.push('inherited');
  if ((forest.flags[node]! & UNPLACED) !== 0) parts.push('no start on record');
  return parts.join(', ');
}

export interface Fact {
  readonly name: string;
  readonly text: string;
}

/** Columns of what was said, in the order in which they are shown when somebody asks. */
export const BODIES: readonly string[] = [
  'prompt',
  'output',
  'structured',
  'error_message',
  'first_prompt',
  'final_text',
  'reasoning',
  'text',
  'arguments',
  'result',
];

/** Columns that say something of a row itself: not what was said in it, nor where it is from. */
export function ownColumns(table: Table): readonly string[] {
  return table.names.filter((name) => name !== 'source' && !BODIES.includes(name));
}

/** Everything that the row of a node says, except what was said in it. */
export function factsOf(forest: Forest, node: number): Fact[] {
  const table = tableOf(forest, node);
  const row = forest.row[node]!;
  const file = { name: 'file', text: show(forest.sources[forest.source[node]!] ?? '') };
  if (row < 0)
    return [
      file,
      { name: 'duration', text: durationText(forest.duration[node]!) },
      { name: 'below', text: plural(forest.end[node]! - node - 1, 'row') },
    ];
  const facts = ownColumns(table).map((name) => ({ name: spoken(name), text: cellText(table, name, row) }));
  return [...facts.filter((fact) => fact.text !== UNKNOWN), ...(file.text === '' ? [] : [file])];
}

/** A column's name without its unit, as words. */
export function spoken(name: string): string {
  return name.replace(/_ms$/, '').replaceAll('_', ' ');
}

/** A value of a table as text: times with their unit, moments in UTC, lists with commas. */
export function cellText(table: Table, name: string, row: number): string {
  const value = table.value(name, row);
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'string') return show(value);
  if (typeof value === 'number') {
    if (name.endsWith('_ms')) return durationText(value);
    return name.endsWith('_at') ? momentText(value) : numberText(value);
  }
  if (ArrayBuffer.isView(value) || typeof value === 'object') return listText(value);
  return UNKNOWN;
}

function listText(value: object): string {
  if (!(Symbol.iterator in value)) return show(JSON.stringify(value));
  const parts = Array.from(value as Iterable<unknown>, (part) => {
    if (Array.isArray(part)) return part.map((each) => show(String(each))).join(' ');
    return typeof part === 'string' ? show(part) : show(JSON.stringify(part));
  });
  return parts.length === 0 ? 'none' : parts.join(', ');
}
