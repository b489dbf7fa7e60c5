import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The source folder of the page, with a trailing slash. */
export const SOURCE = fileURLToPath(new URL('.', import.meta.url))
/** Later folders override the styles of earlier ones. */
const STYLE_ORDER = ['ui/', 'charts/', 'views/', '']

/**
 * Adds the CSS modules of all components to styles.css. By itself, esbuild would write a stylesheet per lazy-loaded
 * view, which nothing loads and which repeats the shared modules.
 * @type {import('esbuild').Plugin}
 */
const ALL_STYLES = {
  name: 'all-styles',
  setup({ onLoad }) {
    onLoad({ filter: /\/web\/styles\.css$/ }, ({ path }) => {
      const imports = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
        .map((name) => name.replaceAll('\\', '/'))
        .filter((name) => name.endsWith('.module.css'))
        .sort((a, b) => rankFolder(a) - rankFolder(b) || (a < b ? -1 : 1))
        .map((name) => `@import "./${name}";`)
      return { contents: [readFileSync(path, 'utf8'), ...imports].join('\n'), loader: 'css', watchDirs: [SOURCE] }
    })
  },
}

/** @param {string} name path relative to `SOURCE` */
function rankFolder(name) {
  return STYLE_ORDER.findIndex((folder) => name.startsWith(folder))
}

/**
 * How esbuild bundles the page, for users as well as during development.
 * @satisfies {import('esbuild').BuildOptions}
 */
export const BUNDLE = {
  entryPoints: [`${SOURCE}main.tsx`],
  bundle: true,
  splitting: true,
  format: /** @type {const} */ ('esm'),
  target: ['es2022'],
  jsx: /** @type {const} */ ('automatic'),
  jsxImportSource: 'preact',
  loader: /** @type {const} */ ({ '.svg': 'dataurl' }),
  absWorkingDir: SOURCE,
  plugins: [ALL_STYLES],
  logLevel: /** @type {const} */ ('warning'),
  // For example, a class that a CSS module does not define.
  logOverride: /** @type {const} */ ({ 'import-is-undefined': 'error' }),
}
