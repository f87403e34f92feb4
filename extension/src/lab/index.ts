/** The JupyterLab extension: a double-click on a recording opens it in the explorer; folders and comparisons by command. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { IDisposable } from '@lumino/disposable';
import { addCommands, COMPARE, failed, OPEN_FOLDER, writePython } from './commands.ts';
import { ByNameModelFactory, FACTORY, MODEL, RunDocumentFactory, type RunDocument } from './documents.ts';
import { cassetteIcon } from './icon.ts';
import { FILE_KINDS, OTHER_KINDS } from './kinds.ts';
import { PLUGIN, Settings } from './settings.ts';
import { makeTab, showTab, type RunTab } from './tabs.ts';
import type { Buttons } from './toolbar.ts';
import type { Surroundings } from './view.ts';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The viewer of agent runs: cassettes, session logs, flight records.',
  autoStart: true,
  optional: [ISettingRegistry, ILayoutRestorer, ICommandPalette, ILauncher, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    browsers: IFileBrowserFactory | null,
  ) => {
    const settings = new Settings();
    const { contents, serverSettings: server } = app.serviceManager;
    const around: Surroundings = { contents, server, settings };
    const buttons: Buttons = {
      python: (view) => {
        writePython(app, view).catch(failed);
      },
      failed,
    };
    const documents = new WidgetTracker<RunDocument>({ namespace: 'cassette-lab-documents' });
    const tabs = new WidgetTracker<RunTab>({ namespace: 'cassette-lab-tabs' });

    addDocuments(app.docRegistry, around, buttons, documents);
    addCommands(app, {
      palette,
      launcher,
      browsers,
      open: (wish) => {
        const tab = makeTab(wish, around, buttons);
        showTab(app, tab);
        void tabs.add(tab);
        tab.content.told.connect(() => {
          void tabs.save(tab);
        });
        return tab;
      },
    });
    if (restorer !== null) {
      void restorer.restore(documents, {
        command: 'docmanager:open',
        args: ({ context }) => ({ path: context.path, factory: FACTORY }),
        name: ({ context }) => context.path,
      });
      void restorer.restore(tabs, {
        // The command that made it decides by what it is given.
        command: 'cassette-lab:restore',
        args: ({ content }) => ({ paths: [...content.wish.paths], compare: content.wish.compare }),
        name: ({ content }) => JSON.stringify(content.wish),
      });
    }
    app.commands.addCommand('cassette-lab:restore', {
      label: 'Open Agent Runs Again',
      isVisible: () => false,
      describedBy: { args: { type: 'object' } },
      execute: (args) => {
        const paths = (Array.isArray(args['paths']) ? args['paths'] : []).map(String);
        const [first = '', second = ''] = paths;
        return args['compare'] === true
          ? app.commands.execute(COMPARE, { expected: first, actual: second })
          : app.commands.execute(OPEN_FOLDER, { path: first });
      },
    });
    if (registry !== null) settings.follow(registry).catch(failed);
  },
};

/** Which files a double-click opens, or only "Open With", as the settings say. */
function addDocuments(
  registry: DocumentRegistry,
  around: Surroundings,
  buttons: Buttons,
  documents: WidgetTracker<RunDocument>,
): void {
  for (const { name, displayName, extensions, pattern, fileFormat } of FILE_KINDS)
    registry.addFileType({
      name,
      displayName,
      extensions: [...extensions],
      ...(pattern === undefined ? {} : { pattern }),
      mimeTypes: [],
      fileFormat,
      contentType: 'file',
      icon: cassetteIcon,
    });
  registry.addModelFactory(new ByNameModelFactory());
  const ours = FILE_KINDS.map(({ name }) => name);
  const { settings } = around;
  let added: IDisposable | null = null;
  let isFirst: boolean | null = null;
  const add = (): void => {
    if (isFirst === settings.doubleClick) return;
    isFirst = settings.doubleClick;
    added?.dispose();
    const factory = new RunDocumentFactory(
      {
        name: FACTORY,
        label: 'Agent Run',
        modelName: MODEL,
        fileTypes: [...ours, ...OTHER_KINDS],
        defaultFor: isFirst ? ours : [],
        readOnly: true,
      },
      around,
      buttons,
    );
    factory.widgetCreated.connect((_, document) => {
      void documents.add(document);
      document.context.pathChanged.connect(() => {
        void documents.save(document);
      });
    });
    // The registry's types and the base class's differ in an optional member that may be undefined.
    added = registry.addWidgetFactory(factory as unknown as DocumentRegistry.WidgetFactory);
  };
  add();
  settings.changed.connect(add);
}

export default plugin;
