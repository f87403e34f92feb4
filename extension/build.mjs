// node build.mjs [--out FOLDER]   the two bundles, into cassette_lab/views/static unless told otherwise
// node build.mjs --test           the unit tests, bundled and run by Node's own runner
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transformSync } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const option = process.argv.indexOf('--out');
const out = option < 0 ? join(here, '..', 'cassette_lab', 'views', 'static') : resolve(process.argv[option + 1]);

// The style sheet is a text in a module, which minifying leaves as it is written.
const smallStyle = {
  name: 'small-style',
  setup(made) {
    made.onLoad({ filter: /[\\/]dom[\\/]style\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(/(?<=const CSS = )`([^`]*)`/, (_, css) =>
        JSON.stringify(transformSync(css, { loader: 'css', minify: true }).code.trim()),
      ),
      loader: 'ts',
    }));
  },
};

// Paths inside the bundles and the order of their parts hang on these alone: the same sources give the same bytes anywhere.
const common = {
  absWorkingDir: here,
  bundle: true,
  charset: 'ascii',
  legalComments: 'none',
  logLevel: 'warning',
  plugins: [smallStyle],
  target: 'es2022',
};

if (process.argv.includes('--test')) {
  const folder = join(here, '.test-build');
  rmSync(folder, { recursive: true, force: true });
  const entryPoints = readdirSync(join(here, 'test')).filter((name) => name.endsWith('.test.ts'));
  await build({
    ...common,
    entryPoints: entryPoints.map((name) => join('test', name)),
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    platform: 'node',
    sourcemap: 'inline',
  });
  const files = readdirSync(folder).map((name) => join(folder, name));
  const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', '--test-reporter=spec', ...files], {
    stdio: 'inherit',
  });
  process.exit(run.status ?? 1);
}

mkdirSync(out, { recursive: true });
await build({ ...common, entryPoints: ['src/widget.ts'], format: 'esm', minify: true, outfile: join(out, 'widget.js') });
await build({
  ...common,
  entryPoints: ['src/report.ts'],
  format: 'iife',
  globalName: 'cassetteLab',
  minify: true,
  outfile: join(out, 'report.js'),
});
