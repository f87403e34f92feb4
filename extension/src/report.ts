/**
 * The report's script: mounts a view into every element that asks for one, from data blocks of the same page. Runs under a
 * policy that allows this script and nothing else.
 *
 *     <div data-cassette-view="explorer" data-cassette-tables="calls=clab-calls" data-cassette-options="clab-options"></div>
 *     <script type="application/vnd.apache.arrow.stream;base64" id="clab-calls">…</script>
 *     <script type="application/json" id="clab-options">{"title": "…"}</script>
 *
 * `html[data-cassette-live]` tells the page's style sheet that views are alive (`yes`), or that one could not be shown
 * (`failed`): until then, and then again, still pictures stand there. Tables that name themselves (`data-cassette-csv`) get a
 * button that saves them.
 */
import { button } from './dom/build.ts';
import { save } from './mount.ts';
import { csvLine } from './views/grid.ts';
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
    // Tables that cannot be read are told by the view itself; what the page has in its place shall be seen, too.
    if (element.querySelector('.clab-view > .clab-message[role=alert]') !== null) failed();
  } catch (error) {
    failed();
    element.textContent = `This view cannot be shown: ${reasonOf(error)}`;
    element.setAttribute('role', 'alert');
  }
}

function failed(): void {
  document.documentElement.dataset['cassetteLive'] = 'failed';
}

function blockOf(id: string): string {
  const block = document.getElementById(id);
  if (block === null) throw new Error(`the page has no data block ${id}`);
  return block.textContent;
}

/** A table of the page as comma-separated values, as it is read. */
function tableText(table: HTMLTableElement): string {
  return Array.from(
    table.rows,
    (row) => `${csvLine(Array.from(row.cells, (cell) => (cell.querySelector('bdi') ?? cell).textContent.trim()))}\r\n`,
  ).join('');
}

function addSaving(place: HTMLElement): void {
  const name = place.dataset['cassetteCsv'] ?? '';
  const table = place.querySelector('table');
  if (table === null) return;
  const act = (): void => {
    save(`${name}.csv`, new Blob([tableText(table)], { type: 'text/csv' }));
  };
  place.after(button('CSV', act, { class: 'save', title: `save this table as ${name}.csv` }));
}

function start(): void {
  document.documentElement.dataset['cassetteLive'] = 'yes';
  document.querySelectorAll<HTMLElement>('[data-cassette-csv]').forEach(addSaving);
  document.querySelectorAll<HTMLElement>('[data-cassette-view]').forEach((element, place) => {
    void mountFrom(element, place);
  });
}

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
else start();
