/** The files that the viewer opens, and how JupyterLab tells them. */

export interface FileKind {
  readonly name: string;
  readonly displayName: string;
  readonly extensions: readonly string[];
  readonly pattern?: string;
  readonly fileFormat: 'text' | 'json' | 'base64';
}

export const FILE_KINDS: readonly FileKind[] = [
  { name: 'cassette', displayName: 'Cassette', extensions: ['.cassette.jsonl'], fileFormat: 'text' },
  {
    name: 'agent-session',
    displayName: 'Session log',
    extensions: [],
    pattern: '^session[^/]*(?<!\\.cassette)\\.jsonl$',
    fileFormat: 'text',
  },
  {
    name: 'agent-session-zstd',
    displayName: 'Session log (zstd)',
    extensions: [],
    pattern: '^session[^/]*\\.jsonl\\.zstd$',
    fileFormat: 'base64',
  },
  { name: 'agent-flight', displayName: 'Flight record', extensions: ['.flight.json'], fileFormat: 'json' },
];

/** Kinds that may hold one of ours under another name: there the viewer is offered, and not the first choice. */
export const OTHER_KINDS: readonly string[] = ['jsonl', 'json'];

/** Whether a name is one that a double-click opens here. */
export function isOurs(name: string): boolean {
  return FILE_KINDS.some(
    ({ extensions, pattern }) =>
      extensions.some((each) => name.endsWith(each)) || (pattern !== undefined && new RegExp(pattern).test(name)),
  );
}

export function isCassette(name: string): boolean {
  return name.endsWith('.cassette.jsonl');
}

export function isFlight(name: string): boolean {
  return name.endsWith('.flight.json');
}
