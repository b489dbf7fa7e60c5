// Builds the two client packages from src/client and src/browser. Each gets an ES module and a CommonJS build, with
// their own types, in dist/esm and dist/cjs. Then packs both into dist/packages, from which the service serves them,
// along with t.js: tallyhouse-browser as a single script.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import ts from 'typescript'
import { compile } from './question-types.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const require = createRequire(import.meta.url)
/** The files of src/routes/packages.ts and src/routes/script.ts. */
const PACKED = join(ROOT, 'dist/packages')
const TERSER = join(dirname(require.resolve('terser/package.json')), 'bin/terser')

const KINDS = /** @type {const} */ ({
  esm: { type: 'module', options: {} },
  // Deprecated in the compiler, but the only way to emit CommonJS from sources that are ES
  // modules.
  cjs: {
    type: 'commonjs',
    options: {
      module: ts.ModuleKind.CommonJS,
      moduleResolution: ts.ModuleResolutionKind.Node10,
      verbatimModuleSyntax: false,
    },
  },
})

rmSync(PACKED, { recursive: true, force: true })
mkdirSync(PACKED, { recursive: true })
for (const name of ['client', 'browser']) {
  const target = join(ROOT, 'packages', name)
  rmSync(join(target, 'dist'), { recursive: true, force: true })
  for (const [kind, { type, options }] of Object.entries(KINDS)) {
    const folder = join(target, 'dist', kind)
    mkdirSync(folder, { recursive: true })
    compile(join(ROOT, 'src', name, 'tsconfig.json'), { ...options, outDir: folder })
    writeFileSync(join(folder, 'package.json'), `{"type":"${type}"}\n`)
    if (name !== 'browser') continue
    for (const type of ['js', 'd.ts']) rmSync(join(folder, `browser/script.${type}`))
    for (const file of scriptsIn(join(folder, name))) minify(file, kind)
  }
  copyFileSync(join(ROOT, 'LICENSE'), join(target, 'LICENSE'))
  pack(target)
}
await bundleScript(join(PACKED, 't.js'))

/** @param {string} file */
async function bundleScript(file) {
  await build({
    entryPoints: [join(ROOT, 'src/browser/script.ts')],
    outfile: file,
    bundle: true,
    minify: true,
    format: 'iife',
    target: ['es2022'],
    logLevel: 'warning',
  })
  // Class bodies are strict anyway; dropping the directive makes the script smaller.
  minify(file, 'esm')
  const bytes = readFileSync(file)
  writeFileSync(`${file}.br`, brotliCompressSync(bytes))
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }))
}

/** @param {string} folder */
function scriptsIn(folder) {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.js'))
    .map((name) => join(folder, name))
}

/**
 * The file has the same name in every version, so that instructions to install it need not change.
 * @param {string} folder of a package
 */
function pack(folder) {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  // The options of an `npm pack` or `npm publish` that runs this script apply to its children as well.
  const options = ['--ignore-scripts', '--dry-run=false', '--json=false', '--loglevel=error']
  run('npm', ['pack', folder, ...options, '--pack-destination', PACKED], ['ignore', 'ignore', 'inherit'])
  renameSync(join(PACKED, `${name}-${version}.tgz`), join(PACKED, `${name}.tgz`))
}

/**
 * @param {string} file
 * @param {string} kind
 */
function minify(file, kind) {
  const options = ['--compress', 'ecma=2020,passes=3,unsafe_arrows', '--mangle', '--output', file]
  run(process.execPath, [TERSER, file, ...(kind === 'esm' ? ['--module'] : ['--toplevel']), ...options], 'inherit')
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').StdioOptions} stdio
 */
function run(program, args, stdio) {
  const { status } = spawnSync(program, args, { cwd: ROOT, stdio })
  if (status !== 0) process.exit(1)
}
