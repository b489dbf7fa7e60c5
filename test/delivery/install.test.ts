import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startClickHouse, startRedis, temporaryFolder, until } from '../helper.js'

const run = promisify(execFile)
/**
 * Longer than any installation takes, because the timeout ends only the command itself, and not the processes that it
 * started.
 */
const INSTALL_LIMIT_MS = 900_000

/** Only files that are committed or staged, as in a clone. */
const folder = await temporaryFolder(t)
await run('git', ['checkout-index', '--all', `--prefix=${folder}/`])
/** The environment without what the npm that runs the tests has added: the certificates of a proxy stay. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))
const shell = async (command: string, env: NodeJS.ProcessEnv = {}) => {
  return await run('sh', ['-c', command], {
    cwd: folder,
    env: { ...ENV, ...env },
    timeout: INSTALL_LIMIT_MS,
    maxBuffer: 1e8,
  })
}

/** The commands of the processes of a group that have not ended. */
function listGroup(group: number): string[] {
  const { stdout } = spawnSync('ps', ['-A', '-ww', '-o', 'pgid=,stat=,args='], { encoding: 'utf8' })
  const all = stdout.split('\n').map((line) => /^ *(\d+) +(\S+) +(.*)$/.exec(line) ?? [])
  return all.flatMap(([, of, state, command = '']) =>
    Number(of) === group && !state?.startsWith('Z') ? [command] : [],
  )
}

/** `npm start` as the leader of a group, so that what it leaves behind can be counted. */
async function npmStart(env: NodeJS.ProcessEnv) {
  const npm = spawn('npm', ['start'], {
    cwd: folder,
    env: { ...ENV, PORT: '0', LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  for (const stream of [npm.stdout, npm.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const members = () => listGroup(npm.pid ?? 0)
  t.teardown(() => members().length > 0 && process.kill(-(npm.pid ?? 0), 'SIGKILL'))
  const url = await until('the service to listen', () => {
    if (npm.exitCode !== null) throw new Error(`npm start ended: ${output}`)
    return /Tallyhouse serves at (\S+)/.exec(output)?.[1]
  })
  return { npm, url, members, output: () => output }
}

/** Checks that a browser gets the page and its script. */
async function hasPage(t: Test, url: string): Promise<void> {
  const answer = await fetch(url, { headers: { accept: 'text/html' } })
  t.equal(answer.status, 200)
  const [, script = ''] = /<script [^>]*src="([^"]+)"/.exec(await answer.text()) ?? []
  const { status, headers } = await fetch(new URL(script, url))
  t.equal(status, 200, script)
  t.match(headers.get('content-type'), /javascript/)
}

t.test('a clone is installed and started as docs/deployment.md says for a server without Docker', async (t) => {
  const manual = await readFile('docs/deployment.md', 'utf8')
  const command = 'npm ci && npm run build && npm prune --omit=dev --omit=optional'
  t.ok(manual.includes(command))
  await shell(command)
  for (const name of ['typescript', 'chdb', 'ffi-rs', 'lmdb'])
    t.notOk(existsSync(join(folder, 'node_modules', name)), name)

  const [redis, clickhouse] = [await startRedis(t), await startClickHouse(t)]
  const env = { REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL'] as const) {
    const { npm, url, members, output } = await npmStart(env)
    t.equal((await fetch(`${url}/health/ready`)).status, 200, output())
    await hasPage(t, url)
    const ended = once(npm, 'exit')
    npm.kill(signal)
    await ended
    await until(`the end of all that npm started, after ${signal}`, () => members().length === 0)
    await t.rejects(fetch(`${url}/health/live`))
  }
  const { stdout, stderr } = await shell('npx tallyhouse keys list', env)
  t.match(stdout, /secret.*default/)
  t.match(stderr, /Store: database analytics of http:/)
  const failed = await shell('npm start', { REDIS_URL: redis.url }).catch((error) => error)
  t.match(failed.stderr, /The service could not start: .*optional packages.*set CLICKHOUSE_URL/)
})

t.test(
  'an installation without the optional packages builds and starts; a stop during the build ends it',
  async (t) => {
    await shell('rm -rf node_modules dist && npm install --omit=optional')
    const [redis, clickhouse] = [await startRedis(t), await startClickHouse(t)]
    const { npm, members } = await npmStart({ REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url })
    const ended = once(npm, 'exit')
    npm.kill('SIGTERM')
    await ended
    await until('its end', () => members().length === 0)

    // A supervisor stops npm alone, Ctrl-C everything that npm has started.
    for (const [signal, isOfGroup] of [
      ['SIGTERM', false],
      ['SIGINT', true],
    ] as const) {
      await shell('rm -rf dist')
      const building = spawn('npm', ['start'], { cwd: folder, detached: true, stdio: 'ignore' })
      const group = building.pid ?? 0
      t.teardown(() => listGroup(group).length > 0 && process.kill(-group, 'SIGKILL'))
      await until('the compiler', () => listGroup(group).some((command) => /^node .*tsc -p /.test(command)))
      const stopped = once(building, 'exit')
      process.kill(isOfGroup ? -group : group, signal)
      await stopped
      await until(`the end of the build after ${signal}`, () => listGroup(group).length === 0)
      t.notOk(existsSync(join(folder, 'dist/.tsbuildinfo')), `the compiler did not finish after ${signal}`)
    }
  },
)

t.test('the package, installed globally, has the command', async (t) => {
  const { stdout } = await shell('npm pack --silent')
  const file = stdout.trim().split('\n').at(-1) ?? ''
  const { stdout: list } = await run('tar', ['tzf', join(folder, file)])
  t.notMatch(list, /tsbuildinfo/)
  for (const name of ['dist/cli.js', 'dist/main.js', 'schema/events.sql', 'docs/tallyhouse.service']) {
    t.match(list, `package/${name}`)
  }
  const prefix = await temporaryFolder(t)
  // --prefix would move npm's global configuration along, which names the certificates of a proxy.
  const { stdout: globalConfig } = await shell('npm config get globalconfig')
  await shell(`npm install --global --silent --prefix "${prefix}" --globalconfig "${globalConfig.trim()}" ./${file}`)
  const { stdout: version } = await run(join(prefix, 'bin/tallyhouse'), ['--version'])
  t.match(version, /^tallyhouse \d/)
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

t.test('the systemd unit is valid', { skip: !hasSystemd && 'needs systemd-analyze' }, async (t) => {
  const unit = join(await temporaryFolder(t), 'tallyhouse.service')
  const text = await readFile('docs/tallyhouse.service', 'utf8')
  await writeFile(unit, text.replace('/opt/tallyhouse/dist/cli.js', resolve('dist/cli.js')))
  const { stdout, stderr } = await run('systemd-analyze', ['verify', unit])
  t.equal(stdout + stderr, '')
})
