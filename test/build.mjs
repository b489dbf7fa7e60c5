import { mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { buildDependencies, builtDependency } from './build-dependencies.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARGET = join(ROOT, 'build')
/** What compiled files find by a path from their own. */
const BESIDE = ['dist', 'docs', 'package.json', 'packages', 'schema', 'test/data']

/**
 * Compiles the tests and what they test into build/, file by file: where a hook compiles each file as it is loaded, a test,
 * and every process that it forks, takes twice the CPU time. Nothing checks types here.
 */
export async function buildTests() {
  await buildDependencies()
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/**/*.ts', 'src/**/*.tsx', 'test/**/*.ts', 'bench/*.ts'],
    outbase: '.',
    outdir: 'build',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    logLevel: 'warning',
    // Only so that imports are resolved, which leads those of some packages to what was built of them.
    bundle: true,
    treeShaking: false,
    plugins: [{ name: 'imports', setup: resolveImports }],
  })
  for (const folder of ['src', 'test', 'bench']) removeOthers(folder, metafile.outputs)
  mkdirSync(join(TARGET, 'test'), { recursive: true })
  for (const path of BESIDE) {
    const link = join(TARGET, path)
    // Also one that leads nowhere yet, as before the first build of the service.
    rmSync(link, { force: true })
    symlinkSync(join(ROOT, path), link)
  }
}

/**
 * Removes what was compiled from files that are gone. It walks by itself: some versions of Node.js follow links where they
 * read a folder and those in it.
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
 * Leaves all imports as they are but those of built packages.
 * @param {import('esbuild').PluginBuild} builder
 */
function resolveImports(builder) {
  builder.onResolve({ filter: /.*/ }, ({ kind, path, resolveDir }) => {
    if (kind === 'entry-point') return undefined
    const built = builtDependency(path)
    return { path: built ? relative(resolveDir, join(ROOT, built)) : path, external: true }
  })
}
