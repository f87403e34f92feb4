/** From the lab's tables to nodes that are not yet ordered. */
import { Interner } from '../data/interner.ts';
import { Table } from '../data/table.ts';
import { callCategory, endCategory, finishCategory, flightCategory, NONE, toolCategory } from './categories.ts';
import {
  CALL,
  COMPACTION,
  FILE,
  INHERITED,
  MODEL_CALL,
  REDACTED,
  REQUEST,
  SESSION,
  STEP,
  TABLES,
  TOOL_CALL,
  TURN,
  type TableName,
  type Tables,
} from './kinds.ts';

/** Longer than anything that ran; a made-up time beyond it does not spoil the axis for all others. */
const LONGEST_MS = 1e13;

/** Nodes while they are collected; columns are as in `Forest`, `start` is a moment, `rank` orders siblings. */
export class Raw {
  size = 0;
  readonly sources: string[] = [];
  readonly kind: Uint8Array;
  readonly table: Uint8Array;
  readonly category: Uint8Array;
  readonly flags: Uint8Array;
  readonly row: Int32Array;
  readonly parent: Int32Array;
  readonly source: Int32Array;
  readonly rank: Float64Array;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly latency: Float64Array;
  readonly firstChunk: Float64Array;
  readonly abortedAt: Float64Array;
  readonly disposedAt: Float64Array;
  readonly retryFrom: Float64Array;
  readonly #places = new Map<string, number>();
  readonly #files = new Map<string, number>();

  constructor(readonly tables: Tables) {
    const room = TABLES.reduce((sum, name) => sum + this.of(name).rows + this.of(name).words('source').words.length + 1, 0);
    this.kind = new Uint8Array(room);
    this.table = new Uint8Array(room);
    this.category = new Uint8Array(room).fill(NONE);
    this.flags = new Uint8Array(room);
    this.row = new Int32Array(room).fill(-1);
    this.parent = new Int32Array(room).fill(-1);
    this.source = new Int32Array(room).fill(-1);
    const numbers = (): Float64Array => new Float64Array(room).fill(NaN);
    [this.rank, this.start, this.duration, this.latency] = [numbers(), numbers(), numbers(), numbers()];
    [this.firstChunk, this.abortedAt, this.disposedAt, this.retryFrom] = [numbers(), numbers(), numbers(), numbers()];
  }

  of(name: TableName): Table {
    return this.tables[name] ?? Table.empty;
  }

  add(kind: number, table: TableName, row: number, parent: number, source: number): number {
    const node = this.size++;
    this.kind[node] = kind;
    this.table[node] = TABLES.indexOf(table);
    this.row[node] = row;
    this.parent[node] = parent;
    this.source[node] = source;
    return node;
  }

  time(node: number, start: number, duration: number): void {
    this.start[node] = start;
    this.rank[node] = start;
    this.duration[node] = bounded(duration);
  }

  sourcePlace(name: string): number {
    let place = this.#places.get(name);
    if (place === undefined) {
      place = this.sources.push(name) - 1;
      this.#places.set(name, place);
    }
    return place;
  }

  /** The node of a file, made when it is first asked for. */
  file(table: TableName, source: number): number {
    const key = `${table} ${source}`;
    let node = this.#files.get(key);
    if (node === undefined) {
      node = this.add(FILE, table, -1, -1, source);
      this.rank[node] = this.#files.size;
      this.#files.set(key, node);
    }
    return node;
  }
}

function bounded(ms: number): number {
  return Number.isNaN(ms) ? NaN : Math.min(Math.max(ms, 0), LONGEST_MS);
}

/** Adds rows of a table as nodes that have its times. */
function adder(raw: Raw, kind: number, name: TableName): (row: number, parent: number, source: number) => number {
  const table = raw.of(name);
  const [start, duration, inherited] = [table.numbers('started_at'), table.numbers('duration_ms'), table.numbers('inherited')];
  return (row, parent, source) => {
    const node = raw.add(kind, name, row, parent, source);
    raw.time(node, start[row]!, duration[row]!);
    if (inherited[row]! > 0) raw.flags[node] = INHERITED;
    return node;
  };
}

/** Calls under the calls whose agents made them; of several files, under a node for each. */
export function readCalls(raw: Raw): void {
  const table = raw.of('calls');
  if (table.rows === 0) return;
  const { places, several } = sourcesOf(raw, table, raw.of('sessions').rows > 0 || raw.of('flights').rows > 0);
  const parents = parentRows(table, places);
  const [sequence, started, duration] = [table.numbers('sequence'), table.numbers('started_at'), table.numbers('duration_ms')];
  const [latency, redactions] = [table.numbers('start_latency_ms'), table.numbers('redactions')];
  const [aborted, disposed] = [table.numbers('signal_aborted_at_ms'), table.numbers('dispose_called_at_ms')];
  const [kinds, reasons] = [table.words('outcome_kind'), table.words('stop_reason')];
  const first = raw.size;
  // Files come before their calls, so that a call's node is its row's plus a constant.
  const files = several ? [...new Set(places)].map((place) => [place, raw.file('calls', place)] as const) : [];
  const fileOf = new Map(files);
  const base = first + files.length;
  // Column by column: a hundred thousand calls are here before anybody notices.
  const past = base + table.rows;
  raw.size = past;
  raw.kind.fill(CALL, base, past);
  raw.table.fill(TABLES.indexOf('calls'), base, past);
  raw.start.set(started, base);
  const category = categoryTable(kinds.words, reasons.words);
  for (let row = 0; row < table.rows; row++) {
    const node = base + row;
    raw.row[node] = row;
    raw.source[node] = places[row]!;
    raw.parent[node] = parents[row]! >= 0 ? base + parents[row]! : (fileOf.get(places[row]!) ?? -1);
    raw.rank[node] = Number.isNaN(sequence[row]!) ? row : sequence[row]!;
    raw.duration[node] = bounded(duration[row]!);
    raw.latency[node] = bounded(latency[row]!);
    raw.abortedAt[node] = bounded(aborted[row]!);
    raw.disposedAt[node] = bounded(disposed[row]!);
    raw.category[node] = category[(kinds.codes[row]! + 1) * (reasons.words.length + 1) + reasons.codes[row]! + 1]!;
    if (redactions[row]! > 0) raw.flags[node] = REDACTED;
  }
}

/** Category of each pair of an outcome kind and a stop reason, either of which may be unknown. */
function categoryTable(kinds: readonly string[], reasons: readonly string[]): Uint8Array {
  const pairs = [null, ...kinds].flatMap((kind) => [null, ...reasons].map((reason) => callCategory(kind, reason)));
  return Uint8Array.from(pairs);
}

/** For each call the row of the call whose agent made it, -1 for the root agent's. */
export function parentRows(table: Table, places: ArrayLike<number>): Int32Array {
  const interner = new Interner();
  const keys = interner.ids(table.column('call_key'), table.rows);
  const parentKeys = interner.ids(table.column('parent_key'), table.rows);
  const files = new Map<number, Int32Array>();
  for (let row = 0; row < table.rows; row++) {
    let rows = files.get(places[row]!);
    if (rows === undefined) {
      rows = new Int32Array(interner.size).fill(-1);
      files.set(places[row]!, rows);
    }
    if (keys[row]! >= 0 && rows[keys[row]!]! < 0) rows[keys[row]!] = row;
  }
  const parents = new Int32Array(table.rows).fill(-1);
  for (let row = 0; row < table.rows; row++) {
    if (parentKeys[row]! >= 0) parents[row] = files.get(places[row]!)![parentKeys[row]!]!;
  }
  return parents;
}

function sourcesOf(raw: Raw, table: Table, others: boolean): { places: Int32Array; several: boolean } {
  const { codes, words } = table.words('source');
  const known = words.map((word) => raw.sourcePlace(word));
  const unnamed = codes.includes(-1) ? raw.sourcePlace('') : -1;
  return {
    places: codes.map((code) => (code < 0 ? unnamed : known[code]!)),
    several: others || words.length + (unnamed < 0 ? 0 : 1) > 1,
  };
}

/**
 * Sessions, their turns, steps, model calls, tools and compactions; a subagent's session under the tool call that started it,
 * or, where no log says which that was, under the step of its parent that it began in.
 */
export function readSessions(raw: Raw): void {
  const sessions = raw.of('sessions');
  const nodes = new Map<string, number>();
  const place = sourceReader(raw, sessions);
  const ids = sessions.words('session_id');
  const open = sessions.numbers('open');
  const add = adder(raw, SESSION, 'sessions');
  const own: number[] = [];
  for (let row = 0; row < sessions.rows; row++) {
    const source = place(row);
    const node = add(row, -1, source);
    raw.category[node] = endCategory(open[row]! > 0 ? null : sessions.text('end_kind', row));
    own.push(node);
    const id = ids.words[ids.codes[row]!] ?? '';
    nodes.set(`${source} ${id}`, node);
    if (!nodes.has(`any ${id}`)) nodes.set(`any ${id}`, node);
  }
  const sessionOf: SessionOf = (table, name) => {
    const source = sourceReader(raw, table);
    const codes = table.words('session_id');
    return (row) => {
      const key = `${source(row)} ${codes.words[codes.codes[row]!] ?? ''}`;
      const node = nodes.get(key);
      return node === undefined ? [raw.file(name, source(row)), key, source(row)] : [node, key, source(row)];
    };
  };
  readTurns(raw, nodes, sessionOf);
  readSteps(raw, nodes, sessionOf);
  readModelCalls(raw, nodes, sessionOf);
  const starters = readToolCalls(raw, nodes, sessionOf);
  readCompactions(raw, nodes, sessionOf);
  const parents = sessions.words('parent_session');
  let within: Map<number, number[]> | null = null;
  for (let row = 0; row < sessions.rows; row++) {
    const id = parents.words[parents.codes[row]!];
    const above = id === undefined ? undefined : (nodes.get(`${raw.source[own[row]!]!} ${id}`) ?? nodes.get(`any ${id}`));
    if (above === undefined || above === own[row]) continue;
    raw.parent[own[row]!] =
      starters.get(`${above} ${ids.words[ids.codes[row]!] ?? ''}`) ??
      innermost(raw, (within ??= stretches(raw)), above, own[row]!);
  }
}

type SessionOf = (table: Table, name: TableName) => (row: number) => [node: number, key: string, source: number];

function readTurns(raw: Raw, nodes: Map<string, number>, sessionOf: SessionOf): void {
  const table = raw.of('turns');
  const session = sessionOf(table, 'turns');
  const add = adder(raw, TURN, 'turns');
  const turn = table.numbers('turn');
  for (let row = 0; row < table.rows; row++) {
    const [parent, key, source] = session(row);
    const node = add(row, parent, source);
    raw.category[node] = endCategory(table.text('end_kind', row));
    nodes.set(`${key} ${turn[row]!}`, node);
  }
}

function readSteps(raw: Raw, nodes: Map<string, number>, sessionOf: SessionOf): void {
  const table = raw.of('steps');
  const session = sessionOf(table, 'steps');
  const add = adder(raw, STEP, 'steps');
  const [turn, step] = [table.numbers('turn'), table.numbers('step')];
  for (let row = 0; row < table.rows; row++) {
    const [above, key, source] = session(row);
    const node = add(row, nodes.get(`${key} ${turn[row]!}`) ?? above, source);
    nodes.set(`${key} ${turn[row]!} ${step[row]!}`, node);
  }
}

/** The step that a row belongs to, else its turn, else its session. */
function stepOf(table: Table, nodes: Map<string, number>, session: ReturnType<SessionOf>): (row: number) => [number, number] {
  const [turn, step] = [table.numbers('turn'), table.numbers('step')];
  return (row) => {
    const [above, key, source] = session(row);
    return [nodes.get(`${key} ${turn[row]!} ${step[row]!}`) ?? nodes.get(`${key} ${turn[row]!}`) ?? above, source];
  };
}

function readModelCalls(raw: Raw, nodes: Map<string, number>, sessionOf: SessionOf): void {
  const table = raw.of('model_calls');
  const above = stepOf(table, nodes, sessionOf(table, 'model_calls'));
  const add = adder(raw, MODEL_CALL, 'model_calls');
  const [first, interrupted] = [table.numbers('first_chunk_ms'), table.numbers('interrupted')];
  const [start, duration] = [table.numbers('started_at'), table.numbers('duration_ms')];
  const ended = new Map<number, number>();
  for (let row = 0; row < table.rows; row++) {
    const [parent, source] = above(row);
    const node = add(row, parent, source);
    raw.firstChunk[node] = bounded(first[row]!);
    raw.category[node] = finishCategory(
      table.text('finish_kind', row),
      interrupted[row]! > 0,
      table.text('error_code', row) !== null,
    );
    const before = ended.get(parent);
    if (before !== undefined && start[row]! > before) raw.retryFrom[node] = start[row]! - before;
    if (!Number.isNaN(duration[row]!)) ended.set(parent, start[row]! + duration[row]!);
  }
}

/** Returns which tool call started which session: by the node of the calling session and the id of the started one. */
function readToolCalls(raw: Raw, nodes: Map<string, number>, sessionOf: SessionOf): Map<string, number> {
  const starters = new Map<string, number>();
  const table = raw.of('tool_calls');
  const session = sessionOf(table, 'tool_calls');
  const above = stepOf(table, nodes, session);
  const add = adder(raw, TOOL_CALL, 'tool_calls');
  const isError = table.numbers('is_error');
  const made: number[] = [];
  for (let row = 0; row < table.rows; row++) {
    const [parent, source] = above(row);
    const node = add(row, parent, source);
    made.push(node);
    raw.category[node] = toolCategory(isError[row]!, table.text('error_code', row));
    nodes.set(`tool ${session(row)[1]} ${table.text('call_id', row) ?? ''}`, node);
    const child = table.text('child_session_id', row);
    if (child !== null && raw.flags[node] !== INHERITED) starters.set(`${session(row)[0]} ${child}`, node);
  }
  for (let row = 0; row < table.rows; row++) {
    const id = table.text('parent_call_id', row);
    const caller = id === null ? undefined : nodes.get(`tool ${session(row)[1]} ${id}`);
    if (caller !== undefined && caller !== made[row]) raw.parent[made[row]!] = caller;
  }
  return starters;
}

function readCompactions(raw: Raw, nodes: Map<string, number>, sessionOf: SessionOf): void {
  const table = raw.of('compactions');
  const above = stepOf(table, nodes, sessionOf(table, 'compactions'));
  const add = adder(raw, COMPACTION, 'compactions');
  const [duration, failed] = [table.numbers('duration_ms'), table.numbers('failed')];
  for (let row = 0; row < table.rows; row++) {
    const [parent, source] = above(row);
    const node = add(row, parent, source);
    raw.category[node] = toolCategory(Number.isNaN(duration[row]!) ? NaN : failed[row]!, null);
  }
}

/** Turns and steps by the node they stand under. */
function stretches(raw: Raw): Map<number, number[]> {
  const found = new Map<number, number[]>();
  for (let node = 0; node < raw.size; node++) {
    if ((raw.kind[node] !== TURN && raw.kind[node] !== STEP) || (raw.flags[node]! & INHERITED) !== 0) continue;
    const there = found.get(raw.parent[node]!);
    if (there === undefined) found.set(raw.parent[node]!, [node]);
    else there.push(node);
  }
  return found;
}

/** The step, else the turn, else the session itself, of session node `above` during which `node` began. */
function innermost(raw: Raw, within: Map<number, number[]>, above: number, node: number): number {
  const start = raw.start[node]!;
  const next = within.get(above)?.find((each) => {
    const length = raw.duration[each]!;
    return start >= raw.start[each]! && (Number.isNaN(length) || start <= raw.start[each]! + length);
  });
  return next === undefined ? above : innermost(raw, within, next, node);
}

/** Requests that flight recorders saw, under their files. */
export function readFlights(raw: Raw): void {
  const table = raw.of('flights');
  const place = sourceReader(raw, table);
  const add = adder(raw, REQUEST, 'flights');
  const first = table.numbers('first_chunk_ms');
  for (let row = 0; row < table.rows; row++) {
    const node = add(row, raw.file('flights', place(row)), place(row));
    raw.firstChunk[node] = bounded(first[row]!);
    raw.category[node] = flightCategory(
      table.text('outcome_kind', row),
      table.text('finish_kind', row),
      table.text('error_kind', row),
      table.text('aborted_by', row) !== null,
    );
  }
}

function sourceReader(raw: Raw, table: Table): (row: number) => number {
  const { codes, words } = table.words('source');
  const known = words.map((word) => raw.sourcePlace(word));
  return (row) => known[codes[row]!] ?? raw.sourcePlace('');
}
