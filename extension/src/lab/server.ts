/** The client of the server half: what it is asked, and its answer frame by frame. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { FrameReader, type Event } from './frames.ts';
import type { Wish } from './reading.ts';

const API = 'cassette-lab/api';

/** The server does not know our addresses. */
export class NoServerHalfError extends Error {}

/** Whether the server half gives prompts, results and the like; null where there is no server half. */
export async function givesBodies(settings: ServerConnection.ISettings): Promise<boolean | null> {
  const response = await ServerConnection.makeRequest(URLExt.join(settings.baseUrl, API, 'status'), {}, settings);
  if (!response.ok) return null;
  const { bodies } = (await response.json()) as { bodies?: unknown };
  return bodies === true;
}

/**
 * Read what is wished for; `tell` hears every event as it comes. Throws `NoServerHalfError`, and for a refusal its sentence.
 * Ending the signal ends the reading in the server, too.
 */
export async function read(
  settings: ServerConnection.ISettings,
  wish: Wish,
  bodies: boolean,
  signal: AbortSignal,
  tell: (event: Event, data: Uint8Array) => void,
): Promise<void> {
  const body = JSON.stringify({ paths: wish.paths, ...(wish.compare ? { compare: true } : {}), ...(bodies ? { bodies } : {}) });
  const response = await ServerConnection.makeRequest(
    URLExt.join(settings.baseUrl, API, 'open'),
    { method: 'POST', body, signal },
    settings,
  );
  if (!response.ok) throw await refusal(response);
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('the browser gives no answer that is read as it comes');
  const frames = new FrameReader(tell);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    frames.push(value);
  }
}

async function refusal(response: Response): Promise<Error> {
  const said = (await response.json().catch(() => ({}))) as { code?: unknown; message?: unknown };
  const message = typeof said.message === 'string' ? said.message : response.statusText;
  // What our half refuses has a code; a server without it knows no such address.
  if (response.status === 404 && said.code === undefined) return new NoServerHalfError(message);
  return new Error(message || `the server answers ${response.status}`);
}
