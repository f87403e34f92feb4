/**
 * The report's script: mounts a view into every element that asks for one, from data blocks of the same page. Runs under a
 * policy that allows this script and nothing else.
 *
 *     <div data-cassette-view="explorer" data-cassette-tables="calls=clab-calls" data-cassette-options="clab-options"></div>
 *     <script type="application/vnd.apache.arrow.stream;base64" id="clab-calls">…</script>
 *     <script type="application/json" id="clab-options">{"title": "…"}</script>
 */
import { fromBase64, mount, reasonOf, unpacked, type Handle, type ViewName, type ViewOptions } from './index.ts';

export * from './index.ts';

/** Handles of what was mounted, by the `id` of its element (or its place on the page). */
export const views = new Map<string, Handle>();

async function mountFrom(element: HTMLElement, place: number): Promise<void> {
  const { cassetteView = 'explorer', cassetteTables = '', cassetteOptions = '', cassetteTheme = 'auto' } = element.dataset;
  try {
    const tables: Record<string, Uint8Array> = {};
    for (const pair of cassetteTables.split(/\s+/).filter((part) => part !== '')) {
      const [name = '', id = name] = pair.split('=');
      tables[name] = await unpacked(fromBase64(blockOf(id)));
    }
    const options = (cassetteOptions === '' ? {} : JSON.parse(blockOf(cassetteOptions))) as ViewOptions;
    const theme = cassetteTheme === 'light' || cassetteTheme === 'dark' ? cassetteTheme : 'auto';
    views.set(element.id || String(place), mount(element, { view: cassetteView as ViewName, tables, options, theme }));
    element.dataset['cassetteMounted'] = 'yes';
  } catch (error) {
    element.textContent = `This view cannot be shown: ${reasonOf(error)}`;
    element.setAttribute('role', 'alert');
  }
}

function blockOf(id: string): string {
  const block = document.getElementById(id);
  if (block === null) throw new Error(`the page has no data block ${id}`);
  return block.textContent;
}

function start(): void {
  document.querySelectorAll<HTMLElement>('[data-cassette-view]').forEach((element, place) => {
    void mountFrom(element, place);
  });
}

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
else start();
