/** Files that are opened by name: a document of JupyterLab whose content JupyterLab does not download. */
import { showErrorMessage } from '@jupyterlab/apputils';
import { ABCWidgetFactory, DocumentWidget, TextModelFactory, type DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { cassetteIcon } from './icon.ts';
import { fillToolbar, type Buttons } from './toolbar.ts';
import { RunView, type Surroundings } from './view.ts';

export const FACTORY = 'Agent Run';
export const MODEL = 'cassette-lab-by-name';

/** A model without content: the server half reads the file, or the view itself does. */
export class ByNameModelFactory extends TextModelFactory {
  override get name(): string {
    return MODEL;
  }

  override get contentType(): Contents.ContentType {
    return 'file';
  }

  override get fileFormat(): Contents.FileFormat {
    return null;
  }
}

export type RunDocument = DocumentWidget<RunView>;

export class RunDocumentFactory extends ABCWidgetFactory<RunDocument> {
  constructor(
    options: DocumentRegistry.IWidgetFactoryOptions<RunDocument>,
    private readonly around: Surroundings,
    private readonly buttons: Buttons,
  ) {
    super(options);
  }

  protected override createNewWidget(context: DocumentRegistry.Context): RunDocument {
    keepAsItIs(context);
    const view = new RunView({ paths: [context.path], compare: false }, this.around);
    const document = new DocumentWidget<RunView>({ content: view, context });
    document.title.icon = cassetteIcon;
    fillToolbar(document.toolbar, view, this.buttons);
    const load = (): void => {
      view.load().catch(this.buttons.failed);
    };
    const start = (): void => {
      if (view.isDisposed) return;
      load();
      context.fileChanged.connect(load);
      context.pathChanged.connect(() => {
        view.rename(context.path);
      });
      view.disposed.connect(() => {
        context.fileChanged.disconnect(load);
      });
    };
    // Where the file is not there, JupyterLab says so and closes the document.
    context.ready.then(start, () => undefined);
    return document;
  }
}

/** What is opened here is evidence: no command of JupyterLab may write what it takes for the content, which is none. */
function keepAsItIs(context: DocumentRegistry.Context): void {
  context.save = () => Promise.resolve();
  context.saveAs = () => showErrorMessage('Agent run', 'A recording is only read here; copy it in the file browser.');
  // A checkpoint is a copy of the whole file.
  context.createCheckpoint = () => Promise.resolve({ id: 'none', last_modified: '' });
}
