import { fileURLToPath } from 'node:url'

/** The folder of the page's sources, with a slash at its end. */
export const SOURCE = fileURLToPath(new URL('.', import.meta.url))

/**
 * How esbuild bundles the page, for users as well as while it is developed.
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
  logLevel: /** @type {const} */ ('warning'),
}
