// Bundles the page into dist/web. Files are named by content hash and compressed in advance.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { BUNDLE, SOURCE } from './bundle.mjs'

/** The view that a project without page views opens first. */
const FIRST_VIEW = 'views/boards/boards.tsx'
const TARGET = fileURLToPath(new URL('../../dist/web/', import.meta.url))

rmSync(TARGET, { recursive: true, force: true })
mkdirSync(TARGET, { recursive: true })
const { metafile } = await build({
  ...BUNDLE,
  outdir: join(TARGET, 'assets'),
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  minify: true,
  legalComments: 'none',
  metafile: true,
})
writePage(metafile)
removeStylesOfViews(metafile)
for (const folder of ['', 'assets']) {
  for (const { name } of readdirSync(join(TARGET, folder), { withFileTypes: true }).filter((entry) => entry.isFile())) {
    compress(join(TARGET, folder, name))
  }
}

/** @param {import('esbuild').Metafile} metafile */
function writePage({ outputs }) {
  // Chunks that are loaded later have their own entry points.
  const entry = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === 'main.tsx')
  if (!entry) throw new Error('esbuild made no entry point')
  const [script, { cssBundle = '' }] = entry
  const firstView = Object.keys(outputs).find((path) => outputs[path]?.entryPoint === FIRST_VIEW)
  if (!firstView) throw new Error(`esbuild made nothing of ${FIRST_VIEW}`)
  // Without preloading, the browser would discover imports only after it has loaded their importer.
  const preloads = listImports(outputs, [script, firstView]).map((path) => {
    return `<link rel="modulepreload" href="assets/${basename(path)}" />\n    `
  })
  const html = readFileSync(join(SOURCE, 'index.html'), 'utf8')
    .replace('main.tsx', `assets/${basename(script)}`)
    .replace('styles.css', `assets/${basename(cssBundle)}`)
    .replace('<script ', `${preloads.join('')}<script `)
  writeFileSync(join(TARGET, 'index.html'), html)
}

/**
 * Removes the stylesheets of views; the main stylesheet contains them.
 * @param {import('esbuild').Metafile} metafile
 */
function removeStylesOfViews({ outputs }) {
  const used = Object.values(outputs).find(({ entryPoint }) => entryPoint === 'main.tsx')?.cssBundle
  for (const path of Object.keys(outputs)) {
    if (path.endsWith('.css') && path !== used) rmSync(join(SOURCE, path))
  }
}

/**
 * The scripts and their static imports, recursively.
 * @param {import('esbuild').Metafile['outputs']} outputs @param {string[]} scripts
 */
function listImports(outputs, scripts) {
  const all = new Set(scripts)
  // The set grows during the iteration.
  for (const path of all) {
    for (const { path: next, kind } of outputs[path]?.imports ?? []) if (kind === 'import-statement') all.add(next)
  }
  return [...all]
}

/** @param {string} file */
function compress(file) {
  const bytes = readFileSync(file)
  writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 10 } }))
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }))
}
