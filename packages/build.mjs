// Builds the two client packages from src/client and src/browser. Each gets an ES module and a CommonJS build, with
// their own types, in dist/esm and dist/cjs.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { compile } from './question-types.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const require = createRequire(import.meta.url)
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

for (const name of ['client', 'browser']) {
  const target = join(ROOT, 'packages', name)
  rmSync(join(target, 'dist'), { recursive: true, force: true })
  for (const [kind, { type, options }] of Object.entries(KINDS)) {
    const folder = join(target, 'dist', kind)
    mkdirSync(folder, { recursive: true })
    compile(join(ROOT, 'src', name, 'tsconfig.json'), { ...options, outDir: folder })
    writeFileSync(join(folder, 'package.json'), `{"type":"${type}"}\n`)
    if (name === 'browser') minify(join(folder, 'browser/index.js'), kind)
  }
  copyFileSync(join(ROOT, 'LICENSE'), join(target, 'LICENSE'))
}

/**
 * @param {string} file
 * @param {string} kind
 */
function minify(file, kind) {
  run(TERSER, [file, ...(kind === 'esm' ? ['--module'] : ['--toplevel']), '--compress', '--mangle', '--output', file])
}

/**
 * @param {string} program
 * @param {string[]} args
 */
function run(program, args) {
  const { status } = spawnSync(process.execPath, [program, ...args], { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
