import { mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { buildDependencies, builtDependency } from './build-dependencies.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARGET = join(ROOT, 'build')
/** Files and folders that compiled files find relative to themselves. */
const BESIDE = ['dist', 'docs', 'package.json', 'packages', 'schema', 'src/journal/redis/scripts', 'test/data']

/**
 * Entry points of processes, and files that a child of a test loads by their paths. Everything else goes into chunks.
 */
const ENTRIES = [
  'src/main.ts',
  'src/cli.ts',
  'src/clickhouse/client.ts',
  'src/clickhouse/migrate.ts',
  'src/clickhouse/embedded/data-dir.ts',
  'src/clickhouse/embedded/engine.ts',
  'src/clickhouse/embedded/engine-child.ts',
  'src/journal/lmdb/check-child.ts',
  'src/lib/log.ts',
  'src/process/lifetime.ts',
  'src/store/rewrite.ts',
  'test/**/*.ts',
  'bench/*.ts',
]

/**
 * Compiles the tests and the service into build/, without checking types. Shared modules go into chunks: loading the
 * service file by file takes 50 ms more CPU time, in each of about three hundred processes.
 */
export async function buildTests() {
  await buildDependencies()
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ENTRIES,
    outbase: '.',
    outdir: 'build',
    chunkNames: 'chunks/[name]-[hash]',
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    logLevel: 'warning',
    bundle: true,
    treeShaking: false,
    plugins: [
      { name: 'packages', setup: resolvePackages },
      { name: 'places', setup: keepPlaces },
    ],
  })
  for (const folder of ['src', 'test', 'bench', 'chunks']) removeOthers(folder, metafile.outputs)
  for (const path of BESIDE) {
    const link = join(TARGET, path)
    mkdirSync(dirname(link), { recursive: true })
    // Also a dangling link, as before the first build of the service.
    rmSync(link, { force: true })
    symlinkSync(join(ROOT, path), link)
  }
}

/**
 * Removes the output of files that are gone. It walks the folders itself, because the recursive `readdir` of some
 * versions of Node.js follows links.
 * @param {string} folder in build/
 * @param {import('esbuild').Metafile['outputs']} outputs
 */
function removeOthers(folder, outputs) {
  for (const entry of readdirSync(join(TARGET, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) removeOthers(path, outputs)
    else if (entry.isFile() && !(join('build', path) in outputs)) rmSync(join(TARGET, path))
  }
}

/**
 * Leaves packages external, but uses the bundles of some.
 * @param {import('esbuild').PluginBuild} builder
 */
function resolvePackages(builder) {
  builder.onResolve({ filter: /^[^.]/ }, ({ kind, path }) => {
    if (kind === 'entry-point') return undefined
    const built = builtDependency(path)
    return { path: built ? pathToFileURL(join(TARGET, built)).href : path, external: true }
  })
}

/**
 * Keeps a file that looks for others next to it in its place instead of in a chunk.
 * @param {import('esbuild').PluginBuild} builder
 */
function keepPlaces(builder) {
  builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
    const source = await readFile(path, 'utf8')
    if (!source.includes('import.meta.url')) return undefined
    const place = join(TARGET, relative(ROOT, path)).replace(/ts$/, 'js')
    return { contents: source.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(place).href)), loader: 'ts' }
  })
}
