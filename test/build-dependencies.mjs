import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARGET = join(ROOT, 'build/dependencies')
/** Records what the packages were built from. */
const STAMP = join(TARGET, 'stamp')
/** Packages of many files that nearly every test loads. */
const PACKAGES = [
  '@clickhouse/client',
  '@fastify/compress',
  '@fastify/rate-limit',
  '@fastify/static',
  '@fastify/type-provider-typebox',
  '@modelcontextprotocol/server',
  '@sinclair/typebox',
  '@sinclair/typebox/compiler',
  '@sinclair/typebox/value',
  'fast-check',
  'fastify',
  'ioredis',
  'tap',
  'temporal-polyfill',
]
/** Packages find some of their files with functions that only CommonJS has. */
const COMMONJS = `import { createRequire as requireOf } from 'node:module'
import { fileURLToPath as pathOf } from 'node:url'
const require = requireOf(import.meta.url), __filename = pathOf(import.meta.url), __dirname = pathOf(new URL('.', import.meta.url))`

/**
 * Configuration of packages for all tests. Properties check the same cases in each run, unless `--seed` asks for
 * others.
 */
const CONFIGURATIONS = {
  'fast-check': 'all.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_126) })',
}

/** @param {string} name of a package */
const outputOf = (name) => name.replaceAll('/', '-')

/** The path in build/ of a package that is built; undefined for others. @param {string} name */
export const builtDependency = (name) => (PACKAGES.includes(name) ? `dependencies/${outputOf(name)}.js` : undefined)

/**
 * Bundles each of the packages into few files: loading their two thousand files takes half a second of CPU time, in
 * each of about two hundred test files. Only `build/` uses the bundles; `dist/` loads the packages as users do.
 */
export async function buildDependencies() {
  const inputs = [
    'package-lock.json',
    'test/build-dependencies.mjs',
    'test/tap-domain.mjs',
    'node_modules/@tapjs/test/test-built/dist/esm/index.js',
  ]
  const hash = createHash('sha256').update(process.version)
  for (const file of inputs) hash.update(readFileSync(join(ROOT, file)))
  const stamp = hash.digest('hex')
  if (stamp === stampOfLast()) return
  rmSync(TARGET, { recursive: true, force: true })
  const sources = new Map(exportsOfPackages().map(([name, exports]) => [name, reexport(name, exports)]))
  await build({
    absWorkingDir: ROOT,
    entryPoints: PACKAGES.map((name) => ({ in: `package:${name}`, out: outputOf(name) })),
    outdir: TARGET,
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    minifyWhitespace: true,
    banner: { js: COMMONJS },
    logLevel: 'warning',
    plugins: [{ name: 'packages', setup: (builder) => resolvePackages(builder, sources) }],
  })
  writeFileSync(STAMP, stamp)
}

function stampOfLast() {
  try {
    return readFileSync(STAMP, 'utf8')
  } catch {
    return undefined
  }
}

/**
 * The exports of the packages. esbuild does not know those of a CommonJS package, so Node.js lists them, in a separate
 * process, because tap takes the process that loads it for a test.
 * @returns {[name: string, exports: string[]][]}
 */
function exportsOfPackages() {
  const script = `for (const name of ${JSON.stringify(PACKAGES)}) {
    console.log(JSON.stringify([name, Object.keys(await import(name))]))
  }
  process.exit()`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  const found = stdout.split('\n').slice(0, PACKAGES.length)
  if (!found.every((line) => line.startsWith('['))) throw new Error(`The packages cannot be loaded: ${stderr}`)
  return found.map((line) => JSON.parse(line))
}

/**
 * A module with the exports of a package.
 * @param {string} name
 * @param {string[]} exports
 */
function reexport(name, exports) {
  const source = JSON.stringify(name)
  const named = exports.filter((one) => one !== 'default' && one !== 'module.exports')
  return [
    `import * as all from ${source}`,
    `export const { ${named.join(', ')} } = all`,
    ...(exports.includes('default') ? [`export { default } from ${source}`] : []),
    CONFIGURATIONS[name],
  ].join('\n')
}

/**
 * @param {import('esbuild').PluginBuild} builder
 * @param {Map<string, string>} sources
 */
function resolvePackages(builder, sources) {
  builder.onResolve({ filter: /^package:/ }, ({ path }) => ({
    path: path.slice('package:'.length),
    namespace: 'package',
  }))
  builder.onLoad({ filter: /.*/, namespace: 'package' }, ({ path }) => ({
    contents: sources.get(path),
    resolveDir: ROOT,
    loader: 'js',
  }))
  builder.onResolve({ filter: /^async-hook-domain$/ }, () => ({ path: join(ROOT, 'test/tap-domain.mjs') }))
}
