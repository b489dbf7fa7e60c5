import { readFileSync } from 'node:fs'

/** Of this package; its file is one folder above the sources as above what is built from them. */
export const VERSION = String(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
