/** What other front ends build on. */
export { bytesOf, fromBase64, unpacked } from './data/bytes.ts';
export {
  mount,
  save,
  type Action,
  type DiffFacts,
  type Handle,
  type MountOptions,
  type RowsByTable,
  type Selection,
  type ThemeChoice,
  type Trust,
  type ViewName,
  type ViewOptions,
} from './mount.ts';
export { reasonOf, show } from './text.ts';
export { NOTHING } from './views/state.ts';
