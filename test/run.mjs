// Runs tests by tap, compiled: all but the fault tests, or those of the files that are named. Further options are tap's.
import { spawnSync } from 'node:child_process'
import { buildTests } from './build.mjs'

await buildTests()
const args = process.argv.slice(2).map((arg) => arg.replace(/^(test\/.*)\.ts$/, 'build/$1.js'))
process.exit(spawnSync('npx', ['tap', ...args], { stdio: 'inherit' }).status ?? 1)
