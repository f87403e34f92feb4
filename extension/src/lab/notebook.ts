/** A new notebook with cells, beside the files that it is about. */
import type { Contents, KernelSpec } from '@jupyterlab/services';

const MOST_NAMES = 50;

/** Writes it and returns its path. `stem` is what it is called, with a number where that name is taken. */
export async function writeNotebook(
  contents: Contents.IManager,
  specs: KernelSpec.ISpecModels | null,
  folder: string,
  stem: string,
  cells: readonly string[],
): Promise<string> {
  const made = await contents.newUntitled({ path: folder, type: 'notebook' });
  const kernel = pythonOf(specs);
  const notebook = {
    cells: cells.map((source, number) => ({
      cell_type: 'code',
      execution_count: null,
      id: `cassette-lab-${number}`,
      metadata: {},
      outputs: [],
      source,
    })),
    metadata: kernel === null ? {} : { kernelspec: kernel },
    nbformat: 4,
    nbformat_minor: 5,
  };
  await contents.save(made.path, { type: 'notebook', format: 'json', content: notebook });
  for (let number = 0; number < MOST_NAMES; number++) {
    const name = number === 0 ? `${stem}.ipynb` : `${stem}-${number}.ipynb`;
    const path = made.path.slice(0, made.path.length - made.name.length) + name;
    try {
      return (await contents.rename(made.path, path)).path;
    } catch {
      // The name is taken, or no name for a file there; the next one, or the one that it has.
    }
  }
  return made.path;
}

function pythonOf(specs: KernelSpec.ISpecModels | null): { name: string; display_name: string; language: string } | null {
  if (specs === null) return null;
  const known = [specs.kernelspecs[specs.default], ...Object.values(specs.kernelspecs)];
  const spec = known.find((each) => each?.language.toLowerCase() === 'python');
  return spec === undefined ? null : { name: spec.name, display_name: spec.display_name, language: spec.language };
}
