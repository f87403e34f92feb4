/**
 * Equal texts get equal numbers, across columns and tables, without decoding them: keys and fingerprints of 100,000 rows are
 * compared as bytes, in milliseconds.
 */
import type { Column } from '@uwdata/flechette';
import { known } from './batches.ts';

export class Interner {
  #size = 0;
  #slots = new Int32Array(1 << 12).fill(-1);
  /** By number: the text's hash, and where its bytes are. */
  #hashes = new Int32Array(1 << 11);
  #places = new Int32Array(1 << 11);
  #starts = new Int32Array(1 << 11);
  #ends = new Int32Array(1 << 11);
  /** Another one each time, so that no file can be made whose keys all fall into one slot. */
  readonly #seed = (Math.random() * 0x1_0000_0000) | 0;
  readonly #buffers: Uint8Array[] = [];
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  /** How many different texts were seen. */
  get size(): number {
    return this.#size;
  }

  /** A number for each row's text, -1 for none; a column that is not there has none in any of `rows`. */
  ids(column: Column<unknown> | null, rows: number): Int32Array {
    const ids = new Int32Array(rows).fill(-1);
    let at = 0;
    for (const batch of column?.data ?? []) {
      const { values, offsets, length } = batch;
      if (values instanceof Uint8Array && offsets instanceof Int32Array && !('dictionary' in batch)) {
        const buffer = this.#buffers.push(values) - 1;
        const all = batch.nullCount === 0;
        for (let i = 0; i < length; i++) {
          if (all || known(batch, i)) ids[at + i] = this.#id(buffer, values, offsets[i]!, offsets[i + 1]!);
        }
      } else {
        const seen = new Map<string, number>();
        for (let i = 0; i < length; i++) {
          if (!known(batch, i)) continue;
          const word = String(batch.value(i));
          let id = seen.get(word);
          if (id === undefined) {
            id = this.id(word);
            seen.set(word, id);
          }
          ids[at + i] = id;
        }
      }
      at += length;
    }
    return ids;
  }

  /** The number of one text. */
  id(text: string): number {
    const bytes = this.#encoder.encode(text);
    return this.#id(this.#buffers.push(bytes) - 1, bytes, 0, bytes.length);
  }

  /** The text of a number. */
  text(id: number): string {
    return this.#decoder.decode(this.#buffers[this.#places[id]!]!.subarray(this.#starts[id], this.#ends[id]));
  }

  #id(buffer: number, values: Uint8Array, start: number, end: number): number {
    const hash = hashOf(this.#seed, values, start, end);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let id = this.#slots[slot]!; id >= 0; slot = (slot + 1) & mask, id = this.#slots[slot]!) {
      if (this.#hashes[id] === hash && this.#same(id, values, start, end)) return id;
    }
    if (this.#size === this.#hashes.length) this.#grow();
    const id = this.#size++;
    this.#hashes[id] = hash;
    this.#places[id] = buffer;
    this.#starts[id] = start;
    this.#ends[id] = end;
    this.#put(id);
    return id;
  }

  #same(id: number, values: Uint8Array, start: number, end: number): boolean {
    const first = this.#starts[id]!;
    const length = end - start;
    if (this.#ends[id]! - first !== length) return false;
    const other = this.#buffers[this.#places[id]!]!;
    for (let i = 0; i < length; i++) {
      if (other[first + i] !== values[start + i]) return false;
    }
    return true;
  }

  #put(id: number): void {
    const mask = this.#slots.length - 1;
    let slot = this.#hashes[id]! & mask;
    while (this.#slots[slot]! >= 0) slot = (slot + 1) & mask;
    this.#slots[slot] = id;
  }

  /** Twice the room; half of the slots stay free. */
  #grow(): void {
    const longer = (values: Int32Array): Int32Array<ArrayBuffer> => {
      const made = new Int32Array(2 * values.length);
      made.set(values);
      return made;
    };
    [this.#hashes, this.#places, this.#starts, this.#ends] = [
      longer(this.#hashes),
      longer(this.#places),
      longer(this.#starts),
      longer(this.#ends),
    ];
    this.#slots = new Int32Array(2 * this.#slots.length).fill(-1);
    for (let id = 0; id < this.#size; id++) this.#put(id);
  }
}

/** Four bytes at a time: keys of deep calls are long. */
function hashOf(seed: number, values: Uint8Array, start: number, end: number): number {
  let hash = seed ^ (end - start);
  let i = start;
  for (; i + 4 <= end; i += 4) {
    hash = Math.imul(hash ^ (values[i]! | (values[i + 1]! << 8) | (values[i + 2]! << 16) | (values[i + 3]! << 24)), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  for (; i < end; i++) hash = Math.imul(hash ^ values[i]!, 0x01000193);
  hash ^= hash >>> 13;
  return Math.imul(hash, 0x85ebca6b);
}
