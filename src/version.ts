import { readFileSync } from 'node:fs'

/** The version of this package. Its package.json is one folder above src/ as well as dist/. */
export const VERSION = String(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
