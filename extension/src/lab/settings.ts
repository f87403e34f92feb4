/** What a person set in JupyterLab's settings editor. */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal, type ISignal } from '@lumino/signaling';
import type { ViewName } from '../mount.ts';

export const PLUGIN = 'cassette-lab:plugin';

/** The views of one reading; a comparison has its own. */
export const VIEWS = ['explorer', 'timeline', 'topology', 'stop_reasons', 'table'] as const satisfies readonly ViewName[];

export type Choice = (typeof VIEWS)[number];

/** The settings as they are now; without a registry the ones that the schema has. */
export class Settings {
  view: Choice = 'explorer';
  doubleClick = true;
  maxRows = 300_000;
  checkSeconds = 5;
  readonly #changed = new Signal<this, void>(this);

  get changed(): ISignal<this, void> {
    return this.#changed;
  }

  async follow(registry: ISettingRegistry): Promise<void> {
    const settings = await registry.load(PLUGIN);
    const take = (): void => {
      this.view = VIEWS.find((each) => each === settings.composite['view']) ?? 'explorer';
      this.doubleClick = settings.composite['doubleClick'] !== false;
      this.maxRows = numberOf(settings.composite['maxRows'], this.maxRows);
      this.checkSeconds = numberOf(settings.composite['checkSeconds'], this.checkSeconds);
      this.#changed.emit();
    };
    settings.changed.connect(take);
    take();
  }
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}
