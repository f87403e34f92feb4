/**
 * Cassettes and flight snapshots read in the browser, where the server half is missing: the columns that views draw, and
 * nothing of what was said. Nothing is verified here, and that is said.
 */
import {
  columnFromArray,
  float64,
  tableFromColumns,
  tableToIPC,
  timestamp,
  TimeUnit,
  utf8,
  type DataType,
} from '@uwdata/flechette';
import { count } from '../words.ts';
import { isCassette, isFlight } from './kinds.ts';
import { nameOf, sentence, type Shown } from './reading.ts';

/** How a server without its half can have it; also where it was switched off. */
const ENABLE = 'jupyter server extension enable cassette_lab.server.jupyter';

/** Larger files are left to the server half. */
export const MOST_BYTES = 20 * 1024 * 1024;

type Json = Readonly<Record<string, unknown>>;
type Cell = string | number | null;
type Columns = Readonly<Record<string, (record: Json) => Cell>>;

/** Where `name` can be read: the sentence that says why it cannot, else null. */
export function hindrance(name: string, bytes: number): string | null {
  if (!isCassette(name) && !isFlight(name)) return 'this kind of file is read by the server half of cassette_lab';
  if (bytes > MOST_BYTES) return `files of more than ${count(MOST_BYTES)} bytes are read by the server half of cassette_lab`;
  return null;
}

/** The rows in the text of a file. */
export function readText(path: string, text: string): Shown {
  try {
    return isFlight(nameOf(path)) ? flight(path, text) : cassette(path, text);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return shown({}, sentence({ code: '', file: path, field: null, line: error.line, message: error.message }), true);
  }
}

/** Nothing, and why. */
export function refused(reason: string): Shown {
  return { ...shown({}, null, true), problem: `${reason}; enable it: ${ENABLE}` };
}

function shown(tables: Shown['tables'], problem: string | null, isBroken = false): Shown {
  const words = isBroken ? 'not read' : 'not verified here';
  const how = `The server half of cassette_lab verifies; enable it: ${ENABLE}`;
  return {
    tables,
    isDiff: false,
    trust: { state: isBroken ? 'broken' : 'unverified', words },
    bodies: false,
    progress: null,
    problem: problem === null ? how : `${problem} · ${how}`,
    diff: {},
    changed: false,
  };
}

class Unreadable extends Error {
  constructor(
    message: string,
    readonly line: number | null,
  ) {
    super(message);
  }
}

const CATEGORIES: readonly unknown[] = ['completed', 'aborted', 'error', 'max-tokens', 'refusal', 'other'];

const CALLS: Columns = {
  sequence: (call) => number(call['sequence']),
  call_key: (call) => words(call['callKey']),
  parent_key: (call) => words(call['parentKey']),
  label: (call) => words(asked(call)['label']),
  occurrence: (call) => number(call['occurrence']),
  started_at: (call) => moment(member(call, 'timing')['startedAt']),
  start_latency_ms: (call) => number(member(call, 'timing')['startLatencyMs']),
  duration_ms: (call) => number(member(call, 'timing')['durationMs']),
  signal_aborted_at_ms: (call) => number(member(call, 'timing')['signalAbortedAtMs']),
  dispose_called_at_ms: (call) => number(member(call, 'timing')['disposeCalledAtMs']),
  outcome_kind: (call) => words(member(call, 'outcome')['kind']),
  stop_reason: (call) => {
    const reason = member(member(call, 'outcome'), 'result')['stopReason'];
    return typeof reason !== 'string' ? null : CATEGORIES.includes(reason) ? reason : 'other';
  },
  error_code: (call) => words(member(member(call, 'outcome'), 'error')['code']),
  error_name: (call) => words(member(member(call, 'outcome'), 'error')['name']),
  redactions: (call) => number(member(call, 'outcome')['redactions']),
  child_model: (call) => words(asked(call)['childModel'] ?? member(asked(call), 'agentOptions')['model']),
};

const FLIGHTS: Columns = {
  record_id: (record) => words(record['id']),
  session_id: (record) => words(record['sessionId']),
  turn: (record) => step(record, 'turn'),
  step: (record) => step(record, 'step'),
  attempt: (record) => step(record, 'attempt'),
  model: (record) => words(member(record, 'request')['model']),
  started_at: (record) => number(record['startedAt']),
  first_chunk_ms: (record) => number(member(record, 'outcome')['firstChunkMs']),
  duration_ms: (record) => number(member(record, 'outcome')['totalMs']),
  outcome_kind: (record) => words(member(record, 'outcome')['kind']),
  finish_kind: (record) => words(member(member(record, 'outcome'), 'finish')['kind']),
  error_kind: (record) => words(member(member(record, 'outcome'), 'error')['kind']),
  error_code: (record) => words(member(record, 'extra')['errorCode']),
  aborted_by: (record) => words(member(record, 'extra')['aborted']),
};

const TEXTS = new Set([
  'source', 'call_key', 'parent_key', 'label', 'outcome_kind', 'stop_reason', 'error_code', 'error_name', 'child_model', 'record_id',
  'session_id', 'model', 'finish_kind', 'error_kind', 'aborted_by',
]); // prettier-ignore

function cassette(path: string, text: string): Shown {
  const rows: Json[] = [];
  let problem: string | null = null;
  let line = 0;
  let hasHeader = false;
  for (const each of text.split('\n')) {
    line++;
    if (each.trim() === '') continue;
    const record = parsed(each);
    if (!hasHeader) {
      if (record?.['kind'] !== 'cassette/header') throw new Unreadable('this is no header of a cassette', line);
      hasHeader = true;
    } else if (record?.['kind'] === 'cassette/interaction') rows.push(record);
    else {
      problem = sentence({
        code: '',
        file: path,
        line,
        field: null,
        message: 'this is no recorded call; it and what follows are not shown',
      });
      break;
    }
  }
  if (!hasHeader) throw new Unreadable('the file is empty', null);
  return shown(rows.length === 0 ? {} : { calls: table(path, CALLS, rows) }, problem);
}

function flight(path: string, text: string): Shown {
  const snapshot = parsed(text);
  if (snapshot === null || !Array.isArray(snapshot['records']))
    throw new Unreadable('this is no snapshot of a flight recorder', null);
  const ours = member(member(snapshot, 'extensions'), 'cassette_lab');
  const extras = member(ours, 'extras');
  const told = (list: unknown): Json[] =>
    (Array.isArray(list) ? list : []).filter(isObject).map((record) => ({ ...record, extra: extras[String(record['id'])] }));
  // Both lists have the newest first.
  const rows = [...told(snapshot['records']).reverse(), ...told(ours['auxiliary']).reverse()];
  rows.sort((one, other) => (number(one['startedAt']) ?? 0) - (number(other['startedAt']) ?? 0));
  return shown(rows.length === 0 ? {} : { flights: table(path, FLIGHTS, rows) }, null);
}

function table(path: string, columns: Columns, rows: readonly Json[]): Uint8Array {
  const typeOf = (name: string): DataType =>
    name === 'started_at' ? timestamp(TimeUnit.MILLISECOND, 'UTC') : TEXTS.has(name) ? utf8() : float64();
  const made = Object.entries({ source: () => path, ...columns }).map(
    ([name, cell]) => [name, columnFromArray(rows.map(cell), typeOf(name))] as [string, ReturnType<typeof columnFromArray>],
  );
  return tableToIPC(tableFromColumns(made), { format: 'stream' }) ?? new Uint8Array(0);
}

/** What is kept of the request, or the request itself. */
function asked(call: Json): Json {
  const request = member(call, 'request');
  return isObject(request['metadata']) ? request['metadata'] : member(request, 'value');
}

/** A number that only a step of an agent loop has. */
function step(record: Json, name: string): Cell {
  return member(record, 'extra')['auxiliary'] === true ? null : number(record[name]);
}

function parsed(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function member(object: Json, name: string): Json {
  const value = object[name];
  return isObject(value) ? value : {};
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function words(value: unknown): Cell {
  return typeof value === 'string' ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

function moment(value: unknown): Cell {
  const ms = typeof value === 'string' ? Date.parse(value) : NaN;
  return Number.isNaN(ms) ? null : ms;
}
