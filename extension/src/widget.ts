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
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
}

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  const handle = mount(el, {
    view: model.get('view') as MountOptions['view'],
    tables: await tablesOf(model),
    options: optionsOf(model),
    onSelect: (selection) => {
      said = JSON.stringify(selection);
      model.set('selected', selection);
      model.save_changes();
    },
    onAction: (id) => {
      model.send({ action: id });
    },
  });
  let said = JSON.stringify(NOTHING);
  const watched: Readonly<Record<string, () => void>> = {
    'change:view': () => {
      handle.update({ view: model.get('view') as MountOptions['view'] });
    },
    'change:options': () => {
      handle.update({ options: optionsOf(model) });
    },
    'change:tables': () => {
      void tablesOf(model).then((tables) => {
        handle.update({ tables });
      });
    },
    'change:selected': () => {
      const selected = model.get('selected') as Partial<Selection> | null;
      // What this view said itself comes back as an echo.
      if (JSON.stringify(selected) !== said) handle.select(pickedOf(selected));
    },
  };
  for (const [event, callback] of Object.entries(watched)) model.on(event, callback);
  const picked = pickedOf(model.get('selected') as Partial<Selection> | null);
  if (Object.keys(picked).length > 0) handle.select(picked);
  return () => {
    for (const [event, callback] of Object.entries(watched)) model.off(event, callback);
    handle.dispose();
  };
}

function pickedOf(selected: Partial<Selection> | null): RowsByTable {
  return selected?.picked ?? {};
}

function optionsOf(model: Model): ViewOptions {
  return model.get('options') ?? {};
}

async function tablesOf(model: Model): Promise<Record<string, Uint8Array>> {
  const given = (model.get('tables') ?? {}) as Record<string, unknown>;
  const tables: Record<string, Uint8Array> = {};
  for (const [name, value] of Object.entries(given)) {
    tables[name] = await unpacked(bytesOf(value));
  }
  return tables;
}

export default { render };
export { mount };
