/** How things end, and what each ending looks like. Colours of Okabe and Ito; a mark, a fill or a word says the same as the colour. */

export type Fill = 'solid' | 'hatched' | 'dotted' | 'hollow' | 'fading' | 'frame';
export type End = 'plain' | 'cap' | 'notch' | 'cross';

export interface Category {
  readonly name: string;
  readonly colour: string;
  /** Stands beside the bar; null: the error's own code or name does. */
  readonly word: string | null;
  readonly fill: Fill;
  readonly end: End;
}

const all = [
  { name: 'completed', colour: '#009e73', word: '', fill: 'solid', end: 'plain' },
  { name: 'max-tokens', colour: '#e69f00', word: 'limit', fill: 'solid', end: 'cap' },
  { name: 'refusal', colour: '#cc79a7', word: 'refused', fill: 'solid', end: 'notch' },
  { name: 'aborted', colour: '#7f7f7f', word: 'aborted', fill: 'hatched', end: 'plain' },
  { name: 'error', colour: '#d55e00', word: 'error', fill: 'solid', end: 'cross' },
  { name: 'result-error', colour: '#d55e00', word: null, fill: 'solid', end: 'cross' },
  { name: 'start-error', colour: '#d55e00', word: null, fill: 'hollow', end: 'cross' },
  { name: 'other', colour: '#56b4e9', word: 'other', fill: 'dotted', end: 'plain' },
  { name: 'open', colour: '#8a8a8a', word: 'open', fill: 'fading', end: 'plain' },
  // Files and steps: they hold things that end, and have no ending of their own.
  { name: 'none', colour: '#8a8a8a', word: '', fill: 'frame', end: 'plain' },
] as const satisfies readonly Category[];

export const CATEGORIES: readonly Category[] = all;
type CategoryName = (typeof all)[number]['name'];

/** How many categories can be counted: all but the last. */
export const COUNTED = CATEGORIES.length - 1;
export const NONE = COUNTED;

function categoryNumber(name: CategoryName): number {
  return all.findIndex((category) => category.name === name);
}

/** Opacity of the first part of a bar, while a call was starting. */
export const PALE = 0.38;

const named = new Map<string, number>(CATEGORIES.slice(0, 8).map((category, number) => [category.name, number]));
const [COMPLETED, ABORTED, ERROR, OTHER, OPEN] = (['completed', 'aborted', 'error', 'other', 'open'] as const).map(
  categoryNumber,
) as [number, number, number, number, number];

/** Whether a person would look at it: what ended, or is still open, other than completed. */
export function isNotCompleted(category: number): boolean {
  return category !== COMPLETED && category !== NONE;
}

/** Of a row of `calls`: the stop reason of a result, else the kind of error. An unknown word is `other`. */
export function callCategory(outcomeKind: string | null, stopReason: string | null): number {
  return named.get((outcomeKind === 'result' ? stopReason : outcomeKind) ?? 'other') ?? OTHER;
}

/** Of a session or turn: how it ended; no ending on record is `open`. */
export function endCategory(endKind: string | null): number {
  return endKind === null ? OPEN : (named.get(endKind) ?? OTHER);
}

/** Of a model call: why its stream ended. Answers and calls of tools are what one hopes for. */
export function finishCategory(finishKind: string | null, interrupted: boolean, failed: boolean): number {
  if (failed) return ERROR;
  if (interrupted) return ABORTED;
  if (finishKind === null) return OPEN;
  if (finishKind === 'stop' || finishKind === 'tool-calls') return COMPLETED;
  return named.get(finishKind) ?? OTHER;
}

/** Of a tool call. */
export function toolCategory(isError: number, errorCode: string | null): number {
  if (Number.isNaN(isError)) return OPEN;
  if (isError === 0) return COMPLETED;
  return errorCode === 'ABORTED' ? ABORTED : ERROR;
}

/** Of a request that a flight recorder saw. */
export function flightCategory(
  outcomeKind: string | null,
  finishKind: string | null,
  errorKind: string | null,
  aborted: boolean,
): number {
  if (outcomeKind === null || outcomeKind === 'running') return OPEN;
  if (aborted || errorKind === 'abort-error') return ABORTED;
  if (outcomeKind === 'threw') return ERROR;
  if (outcomeKind === 'incomplete') return OTHER;
  return finishCategory(finishKind ?? 'stop', false, false);
}
