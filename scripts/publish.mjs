// Publishes the three packages to npm with a statement of provenance. Only `.github/workflows/release.yml` runs it. What was
// published is skipped, so that it can run again.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const PACKAGES = ['.', 'packages/client', 'packages/browser']

for (const path of PACKAGES) {
  const { name, version } = JSON.parse(readFileSync(`${path}/package.json`, 'utf8'))
  if (process.env.GITHUB_REF_NAME !== `v${version}`) {
    fail(`${name} has the version ${version}, but the tag is ${process.env.GITHUB_REF_NAME}.`)
  }
  const { stdout } = spawnSync('npm', ['view', `${name}@${version}`, 'version'], { encoding: 'utf8' })
  if (stdout.trim() === version) {
    console.log(`${name} ${version} is published already.`)
    continue
  }
  const tag = version.includes('-') ? 'next' : 'latest'
  const publish = spawnSync('npm', ['publish', '--provenance', '--access', 'public', '--tag', tag], {
    cwd: path,
    stdio: 'inherit',
  })
  if (publish.status !== 0) fail(`${name} could not be published.`)
}

/** @param {string} reason */
function fail(reason) {
  console.error(reason)
  process.exit(1)
}
