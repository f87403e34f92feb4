/**
 * The notebook widget's module, for anywidget: a model with `view` (a name), `tables` (Arrow IPC bytes by name, perhaps packed
 * with gzip), `options`, and `selected`, which is told what a person selects and may say it, too.
 */
import { bytesOf, unpacked } from './data/bytes.ts';
import { mount, NOTHING, type MountOptions, type RowsByTable, type Selection, type ViewOptions } from './index.ts';

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, callback: Callback): void;
  off(event: string, callback: Callback): void;
}

type Callback = (content: unknown, buffers: unknown) => void;

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  let said = JSON.stringify(NOTHING);
  let isWhole = optionsOf(model).partial !== true;
  // Rows of a comparison have no other names than their places, which a part of its tables does not know.
  const isNamed = (): boolean => isWhole || model.get('view') !== 'diff';
  const handle = mount(el, {
    view: model.get('view') as MountOptions['view'],
    tables: await unpackedAll(model.get('tables')),
    options: optionsOf(model),
    onSelect: (selection) => {
      if (!isNamed()) return;
      said = JSON.stringify(selection);
      model.set('selected', selection);
      model.save_changes();
    },
    onAction: (id) => {
      model.send({ action: id });
    },
  });
  // For tests and for whoever looks from the console.
  Object.assign(el, { cassetteView: handle });
  const select = (): void => {
    if (isNamed()) handle.select(pickedOf(model.get('selected') as Partial<Selection> | null));
  };
  const watched: Readonly<Record<string, Callback>> = {
    'change:view': () => {
      handle.update({ view: model.get('view') as MountOptions['view'] });
    },
    'change:options': () => {
      handle.update({ options: optionsOf(model) });
    },
    'change:tables': () => {
      void unpackedAll(model.get('tables')).then((tables) => {
        handle.update({ tables });
      });
    },
    'change:selected': () => {
      // What this view said itself comes back as an echo.
      if (JSON.stringify(model.get('selected')) !== said) select();
    },
    'msg:custom': (content, buffers) => {
      const told = content as { tables?: string[]; options?: ViewOptions } | null;
      if (isWhole || told?.tables === undefined) return;
      isWhole = true;
      const packed = Object.fromEntries(told.tables.map((name, place) => [name, (buffers as unknown[])[place]]));
      void unpackedAll(packed).then((tables) => {
        // As if rows had still come: what a person did in the meantime stays.
        handle.update({ options: { ...optionsOf(model), progress: 1 } });
        handle.update({ tables, options: told.options ?? {} });
        if (model.get('view') === 'diff') select();
      });
    },
  };
  for (const [event, callback] of Object.entries(watched)) model.on(event, callback);
  select();
  // A kernel, where there is one, sends all rows; what is saved with a notebook has limits.
  if (!isWhole) model.send({ want: 'tables' });
  return () => {
    for (const [event, callback] of Object.entries(watched)) model.off(event, callback);
    handle.dispose();
  };
}

function pickedOf(selected: Partial<Selection> | null): RowsByTable {
  return selected?.picked ?? {};
}

function optionsOf(model: Model): ViewOptions & { partial?: boolean } {
  return model.get('options') ?? {};
}

async function unpackedAll(given: unknown): Promise<Record<string, Uint8Array>> {
  const tables: Record<string, Uint8Array> = {};
  for (const [name, value] of Object.entries(given ?? {})) tables[name] = await unpacked(bytesOf(value));
  return tables;
}

export default { render };
export { mount };
