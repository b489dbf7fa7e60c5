// Run before the tests, which need a real Redis >= 7.0 or Valkey, and a Chromium, and can use faketime: installs what
// is missing, if possible.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const TOOLS = [
  {
    isThere: isRedisThere,
    debian: 'redis-server',
    brew: ['redis'],
    how: `The tests need redis-server >= 7.0 or valkey-server on PATH. To install it:
  Debian, Ubuntu  sudo apt-get install redis-server
  Fedora          sudo dnf install valkey
  Alpine          sudo apk add redis
  macOS           brew install redis`,
  },
  {
    isThere: isChromiumThere,
    debian: 'chromium',
    brew: ['--cask', 'google-chrome'],
    how: `The tests of the browser client need chromium or google-chrome on PATH. To install it:
  Debian          sudo apt-get install chromium
  Ubuntu          https://www.google.com/chrome, as its own chromium is a snap that cannot use the tests' folders
  Fedora          sudo dnf install chromium
  Alpine          sudo apk add chromium
  macOS           brew install --cask google-chrome`,
  },
]

/** Makes the clocks of servers differ on Linux; optional. */
const FAKETIME = { isThere: isFaketimeThere, debian: 'faketime', isOptional: true }

/** Runs the pages of most tests with less CPU time. Outside of Debian, they use Chromium. */
const SHELL = { isThere: isShellThere, debian: 'chromium-headless-shell', isOptional: true }

const hadRedis = outputOf('redis-server', ['--version']) !== null
const missing = [...TOOLS, FAKETIME, SHELL].filter(({ isThere }) => !isThere())
if (missing.length > 0) {
  const commands = installation(missing)
  if (commands.length > 0) console.log(`Installing for the tests: ${commands.map((c) => c.join(' ')).join(' ; ')}`)
  for (const command of commands) run(command)
}
for (const { isThere, how, isOptional } of missing) {
  if (isThere() || isOptional) continue
  console.error(how)
  process.exitCode = 1
}

function isRedisThere() {
  if (outputOf('valkey-server', ['--version']) !== null) return true
  const version = / v=(\d+)\./.exec(outputOf('redis-server', ['--version']) ?? '')
  return version !== null && Number(version[1]) >= 7
}

/** Looks for it like `test/browser/chromium.ts`. */
function isChromiumThere() {
  const onMac = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
  return ['chromium', 'chromium-browser', 'google-chrome', onMac].some((name) => outputOf(name, ['--version']) !== null)
}

function isShellThere() {
  return !isDebian() || outputOf('chromium-headless-shell', ['--version']) !== null
}

function isDebian() {
  try {
    return /^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8'))
  } catch {
    return false
  }
}

function isFaketimeThere() {
  return process.platform !== 'linux' || outputOf('faketime', ['-f', '+0s', 'true']) !== null
}

/** The commands in order; none if it must be done by hand. */
function installation(tools) {
  if (process.platform === 'darwin' && outputOf('brew', ['--version']) !== null) {
    return tools.map(({ brew }) => ['brew', 'install', ...brew])
  }
  if (process.platform !== 'linux' || outputOf('apt-get', ['--version']) === null) return []
  const isRoot = process.getuid() === 0
  if (!isRoot && outputOf('sudo', ['-n', 'true']) === null) return []
  const asRoot = [...(isRoot ? [] : ['sudo', '-n']), 'env', 'DEBIAN_FRONTEND=noninteractive']
  const packages = tools.map(({ debian }) => debian)
  return [
    [...asRoot, 'apt-get', 'update', '-qq'],
    // One by one, because not every Debian has all of them.
    ...packages.map((name) => [...asRoot, 'apt-get', 'install', '-qq', '-y', '--no-install-recommends', name]),
    // The package starts a service on port 6379 if the machine allows it; one that ran before is kept.
    ...(hadRedis || !packages.includes('redis-server') ? [] : [[...asRoot, 'service', 'redis-server', 'stop']]),
  ]
}

function run([program, ...args]) {
  spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
}

/** What a command prints, or null if it is missing or fails. */
function outputOf(command, args) {
  const { status, stdout } = spawnSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return status === 0 ? stdout : null
}
