/** What a node can be, and the tables it can come from. */
import type { Table } from '../data/table.ts';

export const KINDS = ['file', 'call', 'session', 'turn', 'step', 'model call', 'tool call', 'request', 'compaction'] as const;
export const [FILE, CALL, SESSION, TURN, STEP, MODEL_CALL, TOOL_CALL, REQUEST, COMPACTION] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
] as const;

/** Names of the lab's tables that views draw. */
export const TABLES = ['calls', 'sessions', 'turns', 'steps', 'model_calls', 'tool_calls', 'compactions', 'flights'] as const;
export type TableName = (typeof TABLES)[number];
export type Tables = Readonly<Partial<Record<string, Table>>>;

export const REDACTED = 1;
/** Taken over from a parent session: shown, never counted. */
export const INHERITED = 2;
/** No start on record: drawn where its parent begins. */
export const UNPLACED = 4;
