// Prepares a release in a worktree of its own: versions, changelog, packages, image. Nothing else changes without --go, which
// adds the commit to the branch and tags it. docs/releasing.md says what happens once the tag is pushed.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { withRelease } from './changelog.mjs'

const USAGE = `usage: npm run release -- VERSION [options]

  --go           commits and tags the release; without it, everything is only tried
  --skip-image   does not build the image`

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PACKAGES = ['.', 'packages/client', 'packages/browser']
const BRANCH = 'main'
/** As semver has it, without build metadata. */
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/
const CHECKS = 'https://api.github.com/repos/tallyhouse/tallyhouse/commits'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { go: { type: 'boolean', default: false }, 'skip-image': { type: 'boolean', default: false } },
})
const [version = '', ...more] = positionals
if (!VERSION.test(version) || more.length > 0) {
  console.error(USAGE)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'tallyhouse-release-'))
const tree = join(folder, 'tree')
let isReady = false
try {
  const commit = await release()
  isReady = true
  if (values.go) {
    const tag = `v${version}`
    run('git', ['tag', '--annotate', tag, '--message', `Tallyhouse ${version}`, commit], ROOT)
    try {
      run('git', ['merge', '--ff-only', '--quiet', commit], ROOT)
    } catch (error) {
      // With the tag, the next attempt would take the version for released.
      run('git', ['tag', '--delete', tag], ROOT)
      throw error
    }
    console.log(`\n${version} is committed and tagged. To publish it: git push origin ${BRANCH} v${version}`)
  } else {
    console.log(`\nThis was a dry run: nothing has changed. To release ${version}, add --go.`)
  }
} catch (error) {
  console.error(`\nNot released: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
} finally {
  spawnSync('git', ['worktree', 'remove', '--force', tree], { cwd: ROOT, stdio: 'ignore' })
  // The packages of a release are kept, to be looked at.
  if (!isReady) rmSync(folder, { recursive: true, force: true })
}

/** @returns the commit of the release */
async function release() {
  heading('Checks')
  await checkTree()
  run('git', ['worktree', 'add', '--quiet', '--detach', tree, 'HEAD'], ROOT)
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))

  heading('Versions and changelog')
  for (const path of PACKAGES) {
    run('npm', ['version', version, '--no-git-tag-version', '--allow-same-version'], join(tree, path))
  }
  const changelog = join(tree, 'CHANGELOG.md')
  const today = new Date().toISOString().slice(0, 10)
  writeFileSync(changelog, withRelease(readFileSync(changelog, 'utf8'), version, today))
  run('git', ['commit', '--quiet', '--all', '--message', `Release ${version}`], tree)

  heading('Packages')
  run('npm', ['run', '--silent', 'build'], tree)
  for (const path of PACKAGES) {
    run('npm', ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', folder], join(tree, path))
  }
  console.log(`They are in ${folder}`)

  heading('Stores that later versions have to open')
  if (!existsSync(join(tree, 'test/upgrade', version))) {
    run(process.execPath, ['--import=tsx', 'test/upgrade/make.ts'], tree)
    run('git', ['add', 'test/upgrade'], tree)
    run('git', ['commit', '--quiet', '--amend', '--no-edit'], tree)
  }

  if (!values['skip-image']) {
    heading('Image')
    run('docker', ['build', '--tag', `tallyhouse:${version}`, '.'], tree)
  }
  return output('git', ['rev-parse', 'HEAD'], tree)
}

/** A release is made of what is committed on the branch and has passed CI. A dry run only says what would stop it. */
async function checkTree() {
  const commit = output('git', ['rev-parse', 'HEAD'], ROOT)
  const branch = output('git', ['rev-parse', '--abbrev-ref', 'HEAD'], ROOT)
  const faults = [
    branch !== BRANCH && `the branch is ${branch}, not ${BRANCH}`,
    output('git', ['status', '--porcelain'], ROOT) !== '' && 'there are changes that are not committed',
    output('git', ['tag', '--list', `v${version}`], ROOT) !== '' && `there is a tag v${version} already`,
    await faultOfChecks(commit),
  ].filter((fault) => fault !== false)
  if (faults.length > 0 && values.go) throw new Error(`${faults.join('; ')}.`)
  console.log(faults.length > 0 ? `With --go this would stop the release: ${faults.join('; ')}.` : 'passed')
}

/** @param {string} commit */
async function faultOfChecks(commit) {
  try {
    const answer = await fetch(`${CHECKS}/${commit}/check-runs`, { signal: AbortSignal.timeout(10_000) })
    if (!answer.ok) return `GitHub does not say whether CI has passed (${answer.status})`
    const { check_runs: runs } = await answer.json()
    if (runs.length === 0) return 'CI has not run for this commit'
    return runs.some(({ conclusion }) => conclusion !== 'success') && 'CI has not passed for this commit'
  } catch (error) {
    return `GitHub does not respond (${error instanceof Error ? error.message : error})`
  }
}

/** @param {string} text */
function heading(text) {
  console.log(`\n== ${text}`)
}

/** @param {string} command @param {string[]} args @param {string} cwd */
function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' })
  if (error) throw new Error(`${command} cannot be run: ${error.message}`)
  if (status !== 0) throw new Error(`${command} ${args[0]} failed`)
}

/** @param {string} command @param {string[]} args @param {string} cwd */
function output(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args[0]} failed: ${stderr}`)
  return stdout.trim()
}
