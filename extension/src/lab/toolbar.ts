/** The buttons above a view. */
import { Toolbar, ToolbarButton } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { choice } from '../dom/build.ts';
import { VIEWS } from './settings.ts';
import type { RunView } from './view.ts';

export interface Buttons {
  /** Write the equivalent Python into a new notebook. */
  readonly python: (view: RunView) => void;
  /** Tell that something could not be done. */
  readonly failed: (error: unknown) => void;
}

export function fillToolbar(toolbar: Toolbar, view: RunView, buttons: Buttons): void {
  const select = choice(
    'view',
    VIEWS.map((each) => each.replace('_', ' ')),
    (place) => {
      view.choose(VIEWS[place] ?? 'explorer');
    },
  );
  // A choice of the system's, in JupyterLab's colours.
  Object.assign(select.style, {
    font: 'inherit',
    color: 'var(--jp-ui-font-color1)',
    background: 'var(--jp-layout-color1)',
    border: '1px solid var(--jp-border-color1)',
    borderRadius: '2px',
    padding: '1px 4px',
    margin: '0 6px 0 2px',
  });
  const holder = new Widget();
  holder.node.append(select);
  const load = (bodies?: boolean): void => {
    view.load(bodies).catch(buttons.failed);
  };
  const made = {
    swap: button('Swap', 'compare the other way round', () => {
      view.swap().catch(buttons.failed);
    }),
    texts: button('Load texts', 'read the files again with what was said: prompts, results, arguments, error messages', () => {
      load(!view.hasBodies);
    }),
    python: button('Python', 'write the Python that shows this into a new notebook', () => {
      buttons.python(view);
    }),
    reload: button('Reload', 'read the files again', () => {
      load();
    }),
  };
  toolbar.addItem('view', holder);
  for (const [name, each] of Object.entries(made)) toolbar.addItem(name, each);
  toolbar.addItem('spacer', Toolbar.createSpacerItem());
  const tell = (): void => {
    select.value = String(VIEWS.indexOf(view.view));
    holder.setHidden(view.wish.compare);
    made.swap.setHidden(!view.wish.compare);
    made.texts.setHidden(!view.givesBodies || view.hasBodies);
    made.reload.node.style.fontWeight = view.isChanged ? 'bold' : '';
    made.reload.toggleClass('clab-changed', view.isChanged);
  };
  view.told.connect(tell);
  tell();
}

function button(label: string, tooltip: string, onClick: () => void): ToolbarButton {
  return new ToolbarButton({ label, tooltip, onClick });
}
