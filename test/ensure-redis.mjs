// Run before the tests, which need a real Redis >= 7.0 or Valkey on PATH: installs Redis where it is missing and can be installed.
import { spawnSync } from 'node:child_process'

const HOW = `The tests need redis-server >= 7.0 or valkey-server on PATH. To install it:
  Debian, Ubuntu  sudo apt-get install redis-server
  Fedora          sudo dnf install valkey
  Alpine          sudo apk add redis
  macOS           brew install redis`

if (!isThere()) {
  const hadRedis = outputOf('redis-server', ['--version']) !== null
  const commands = installation(hadRedis)
  if (commands.length > 0)
    console.log(`Installing Redis for the tests: ${commands.map((c) => c.join(' ')).join(' && ')}`)
  commands.every(run)
  if (!isThere()) {
    console.error(HOW)
    process.exitCode = 1
  }
}

function isThere() {
  if (outputOf('valkey-server', ['--version']) !== null) return true
  const version = / v=(\d+)\./.exec(outputOf('redis-server', ['--version']) ?? '')
  return version !== null && Number(version[1]) >= 7
}

/** The commands, in their order; none where it cannot be done without a person. */
function installation(hadRedis) {
  if (process.platform === 'darwin' && outputOf('brew', ['--version']) !== null) {
    return [['brew', 'install', 'redis']]
  }
  if (process.platform !== 'linux' || outputOf('apt-get', ['--version']) === null) return []
  const isRoot = process.getuid() === 0
  if (!isRoot && outputOf('sudo', ['-n', 'true']) === null) return []
  const asRoot = [...(isRoot ? [] : ['sudo', '-n']), 'env', 'DEBIAN_FRONTEND=noninteractive']
  return [
    [...asRoot, 'apt-get', 'update', '-qq'],
    [...asRoot, 'apt-get', 'install', '-qq', '-y', '--no-install-recommends', 'redis-server'],
    // The package starts a service on port 6379 where the machine allows it; who had one keeps it.
    ...(hadRedis ? [] : [[...asRoot, 'service', 'redis-server', 'stop']]),
  ]
}

function run([program, ...args]) {
  return spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0
}

/** What a command prints, or null where it is missing or fails. */
function outputOf(command, args) {
  const { status, stdout } = spawnSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return status === 0 ? stdout : null
}
