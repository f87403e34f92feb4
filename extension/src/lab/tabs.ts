/** Tabs that are no document: a folder as a lab, two files side by side. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { SplitPanel, TabPanel } from '@lumino/widgets';
import { show } from '../index.ts';
import { cassetteIcon } from './icon.ts';
import type { Wish } from './reading.ts';
import { fillToolbar, type Buttons } from './toolbar.ts';
import { RunView, titleOf, type Surroundings } from './view.ts';

export type RunTab = MainAreaWidget<RunView>;

let made = 0;

export function makeTab(wish: Wish, around: Surroundings, buttons: Buttons): RunTab {
  const view = new RunView(wish, around);
  const tab = new MainAreaWidget({ content: view });
  tab.id = `cassette-lab-runs-${++made}`;
  tab.title.icon = cassetteIcon;
  tab.title.closable = true;
  const name = (): void => {
    tab.title.label = show(titleOf(view.wish));
    tab.title.caption = show(view.wish.paths.join(' → ') || '/');
  };
  name();
  fillToolbar(tab.toolbar, view, buttons);
  view.told.connect(name);
  view.load().catch(buttons.failed);
  return tab;
}

/** Put a tab where the page has room for one: JupyterLab's main area, the tabs of Notebook 7's file page, or under a document. */
export function showTab(app: JupyterFrontEnd, tab: RunTab): void {
  const { shell } = app;
  const current = shell.currentWidget;
  if (app.name !== 'JupyterLab' && current instanceof TabPanel) {
    current.addWidget(tab);
    current.currentWidget = tab;
    return;
  }
  const isUnder = app.name !== 'JupyterLab' && current !== null;
  shell.add(tab, isUnder ? 'down' : 'main');
  shell.activateById(tab.id);
  if (isUnder) widen(tab);
}

/** The room under a document begins with hardly any height. */
function widen(tab: RunTab): void {
  let parent = tab.parent;
  while (parent !== null && !(parent instanceof SplitPanel && parent.orientation === 'vertical')) parent = parent.parent;
  if (parent instanceof SplitPanel) parent.setRelativeSizes([2, 3]);
}
