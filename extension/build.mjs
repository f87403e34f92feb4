// node build.mjs [--out FOLDER]   what is committed: widget.js and report.js of cassette_lab/views/static, and
//                                 cassette_lab/labextension; all of it into FOLDER where one is named
// node build.mjs --test           the unit tests, bundled and run by Node's own runner
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transformSync } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const option = process.argv.indexOf('--out');
const project = join(here, '..', 'cassette_lab');
const named = option < 0 ? null : resolve(process.argv[option + 1]);
const out = named ?? join(project, 'views', 'static');

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

// Names of properties that stay inside of a bundle and are written there a dozen times: they get short ones.
const inner = {
  mangleProps:
    /^(?:forest|comparison|invalidate|countedKinds|firstChunk|retryFrom|abortedAt|disposedAt|expectedRow|actualRow|chosenPale|headHeight|rowHeight|drawRow|drawOver|setFilter|chooseOnly)$/,
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
await build({
  ...common,
  ...inner,
  entryPoints: ['src/widget.ts'],
  format: 'esm',
  minify: true,
  outfile: join(out, 'widget.js'),
});
await build({
  ...common,
  ...inner,
  entryPoints: ['src/report.ts'],
  format: 'iife',
  globalName: 'cassetteLab',
  minify: true,
  outfile: join(out, 'report.js'),
});

// The extension for JupyterLab, in two steps: our sources become one module, which JupyterLab's own builder wraps so that it
// takes JupyterLab's parts from the page that it is loaded into.
const stage = join(here, '.lab-build');
const { name, version, description, license, dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
const shared = Object.keys(dependencies).filter((each) => /^@(?:jupyterlab|lumino)\//.test(each));
rmSync(stage, { recursive: true, force: true });
await build({
  ...common,
  entryPoints: ['src/lab/index.ts'],
  external: shared,
  format: 'esm',
  minify: true,
  outfile: join(stage, 'index.js'),
});
cpSync(join(here, 'schema'), join(stage, 'schema'), { recursive: true });
// Any JupyterLab from the oldest that we are built against on: the builder alone would ask for its own.
const sharedPackages = Object.fromEntries(
  shared.map((each) => [each, { bundled: false, singleton: true, requiredVersion: dependencies[each] }]),
);
const jupyterlab = {
  extension: true,
  schemaDir: 'schema',
  outputDir: 'labextension',
  rspackConfig: 'rspack.cjs',
  sharedPackages,
};
const manifest = { name, version, description, license, main: 'index.js', jupyterlab };
writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
// The same sources give the same bytes anywhere: nothing is named after the place of a file.
writeFileSync(
  join(stage, 'rspack.cjs'),
  `module.exports = ${JSON.stringify({ optimization: { moduleIds: 'natural', chunkIds: 'natural' } })};\n`,
);
const builder = join(here, 'node_modules', '@jupyter', 'builder', 'lib', 'build-labextension.js');
const core = join(here, 'node_modules', '@jupyterlab', 'core-meta', 'core.package.json');
const wrapped = spawnSync(process.execPath, [builder, '--core-package-file', core, stage], { encoding: 'utf8' });
if (wrapped.status !== 0) {
  process.stderr.write(wrapped.stdout + wrapped.stderr);
  process.exit(wrapped.status ?? 1);
}
// JupyterLab shows under which licences its extensions' parts stand; what the first step took in, the builder has not seen.
const flechette = join(here, 'node_modules', '@uwdata', 'flechette');
const about = JSON.parse(readFileSync(join(flechette, 'package.json'), 'utf8'));
const part = {
  name: about.name,
  versionInfo: about.version,
  licenseId: about.license,
  extractedText: readFileSync(join(flechette, 'LICENSE'), 'utf8'),
};
writeFileSync(
  join(stage, 'labextension', 'static', 'third-party-licenses.json'),
  `${JSON.stringify({ packages: [part] }, null, 2)}\n`,
);
const labextension = join(named ?? project, 'labextension');
rmSync(labextension, { recursive: true, force: true });
cpSync(join(stage, 'labextension'), labextension, { recursive: true });
