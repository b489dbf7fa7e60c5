// What the production packages are: none with a known hole of level high, none under a licence that asks for more than
// to be named. Reads the lock, which has the packages of every platform.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const ALLOWED = new Set(['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT'])

const isGood = [auditIsGood(), licencesAreGood()]
process.exitCode = isGood.every(Boolean) ? 0 : 1

/** A registry without the audit endpoint, or none at all, is told from holes that were found: only these fail. */
function auditIsGood() {
  const args = ['audit', '--omit=dev', '--audit-level=high', '--json']
  const { status, stdout } = spawnSync('npm', args, { encoding: 'utf8', timeout: 120_000 })
  const report = parse(stdout)
  if (!report?.vulnerabilities) {
    console.log(`Audit: not done, the registry did not answer (${report?.message ?? 'no reason given'}).`)
    return true
  }
  const found = Object.values(report.vulnerabilities).map(({ name, severity }) => `${name} (${severity})`)
  console.log(`Audit: ${found.join(', ') || 'nothing is known against the production packages'}.`)
  return status === 0
}

function licencesAreGood() {
  const { packages } = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'))
  const used = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)
  const refused = used.filter(([, { license }]) => !ALLOWED.has(license))
  for (const [path, { license }] of refused) {
    console.log(`Licences: ${path.replace(/^.*node_modules\//, '')} is under ${license ?? 'none that it names'}.`)
  }
  if (refused.length === 0) console.log(`Licences: all ${used.length} production packages are under allowed ones.`)
  return refused.length === 0
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
