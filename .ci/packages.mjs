// Packs the three packages, installs them in an empty folder under each supported Node.js, as their users do, and runs
// short-run.mjs there. Uses what `npm run build` has made.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PACKAGES = ['.', 'packages/client', 'packages/browser']
const VERSIONS = ['20.19', '22', '24']
const SHORT_RUN = join(ROOT, '.ci/short-run.mjs')

const folder = mkdtempSync(join(tmpdir(), 'tallyhouse-packages-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
/** What npm sets for its scripts, such as the folder of the repository, is not there for users. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(?!config_)/.test(name)))

const files = PACKAGES.map((path) => {
  const options = ['--silent', '--ignore-scripts', '--pack-destination', folder]
  const output = execFileSync('npm', ['pack', ...options], { cwd: join(ROOT, path), encoding: 'utf8', env })
  return join(folder, output.trim().split('\n').at(-1) ?? '')
})
for (const version of process.argv.length > 2 ? process.argv.slice(2) : VERSIONS) {
  const project = join(folder, version)
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{"private":true}\n')
  /** @param {string[]} command run with this Node.js first in PATH */
  const run = (command) =>
    execFileSync('npx', ['--yes', '--package', `node@${version}`, ...command], { cwd: project, stdio: 'inherit', env })
  run(['npm', 'install', '--no-audit', '--no-fund', '--loglevel=error', ...files])
  run(['node', SHORT_RUN, project])
  rmSync(project, { recursive: true, force: true })
}
