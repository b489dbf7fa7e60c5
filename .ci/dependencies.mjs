// Checks the production packages: none may have a known vulnerability of level high, and every licence may ask for
// attribution at most. Reads the lock file, which has the packages of every platform.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Unlicense',
])

const isGood = [auditIsGood(), licencesAreGood()]
process.exitCode = isGood.every(Boolean) ? 0 : 1

/** Only vulnerabilities that were found fail; a registry that is unreachable or has no audit endpoint does not. */
function auditIsGood() {
  const args = ['audit', '--omit=dev', '--audit-level=high', '--json']
  const { status, stdout } = spawnSync('npm', args, { encoding: 'utf8', timeout: 120_000 })
  const report = parse(stdout)
  if (!report?.vulnerabilities) {
    console.log(`Audit: skipped, the registry did not respond (${report?.message ?? 'no reason given'}).`)
    return true
  }
  const found = Object.values(report.vulnerabilities).map(({ name, severity }) => `${name} (${severity})`)
  console.log(`Audit: ${found.join(', ') || 'no known vulnerabilities in the production packages'}.`)
  return status === 0
}

function licencesAreGood() {
  const { packages } = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'))
  const used = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)
  const refused = used.filter(([, { license }]) => !ALLOWED.has(license))
  for (const [path, { license }] of refused) {
    console.log(
      `Licences: ${path.replace(/^.*node_modules\//, '')} has the licence ${license ?? '(none named)'}, which is not allowed.`,
    )
  }
  if (refused.length === 0) console.log(`Licences: all ${used.length} production packages have an allowed one.`)
  return refused.length === 0
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
