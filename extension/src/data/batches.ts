/** A batch of a column, as the Arrow library gives it. */
import type { Batch } from '@uwdata/flechette';

/** Whether there is a value; a batch without nulls has no bitmap to ask. */
export function known(batch: Batch<unknown>, i: number): boolean {
  if (batch.nullCount === 0) return true;
  // A column of nothing but nulls has none either, whatever the library's types say.
  return (batch.validity as Uint8Array | undefined) !== undefined && batch.isValid(i);
}
