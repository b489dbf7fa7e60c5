import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { makeKey } from '../../src/keys/keys.js'
import { CLOSE_LIMIT_MS } from '../../src/process/lifetime.js'
import {
  dataFolder,
  PUBLIC_KEY,
  SECRET_KEY,
  type Service,
  settingsFor,
  startService,
  temporaryFolder,
  until,
} from '../helper.js'

const run = promisify(execFile)

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/**
 * Ends a service while it serves calls and an idle client is attached.
 * @param secret a key for `/public/track`
 */
async function endAtWork(t: Test, service: Service, secret: string): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const [idle] = await once(get(`${service.url}/health/live`, { agent }), 'response')
  idle.resume()
  await once(idle, 'end')

  const inFlight = Array.from({ length: 20 }, async (_, i) => {
    const headers = { 'content-type': 'application/json', 'x-api-key': secret }
    const body = JSON.stringify({ event: `e${i}`, distinct_id: 'u' })
    return (await fetch(`${service.url}/public/track`, { method: 'POST', headers, body })).status
  })
  const first = await Promise.race(inFlight)
  const sentAt = performance.now()
  service.process.kill('SIGTERM')
  const code = await service.ended
  const ms = performance.now() - sentAt
  // About 1 s; idle clients are let go of after two minutes.
  t.ok(ms < 30_000)
  // A busy machine may need longer than a shutdown may take.
  t.ok(code === 0 || (code === 1 && ms > CLOSE_LIMIT_MS), `it ended with ${code} after ${ms} ms`)
  t.equal(first, 200)
  const answers = await Promise.allSettled(inFlight)
  t.ok(answers.every((answer) => answer.status === 'rejected' || answer.value === 200))
}

t.test('the first start that listens makes keys and prints calls that work; the next one prints neither', async (t) => {
  const env = { DATA_DIR: await temporaryFolder(t) }
  const blocker = createServer().listen(0, '127.0.0.1')
  t.teardown(() => blocker.close())
  await once(blocker, 'listening')
  const { port } = blocker.address() as AddressInfo
  const cannotListen = new RegExp(`Cannot listen on.* PORT=${port}\\..*EADDRINUSE`)
  const failed = await t.rejects(startService(t, { ...env, PORT: String(port) }), cannotListen)
  t.notMatch(String(failed), /[ps]k_[\w-]{43}/)

  const first = await startService(t, env)
  const keys = first.output().match(/[ps]k_[\w-]{43}/g) ?? []
  t.ok(keys.length >= 2)
  t.notMatch(first.output(), /Warning/, 'Node.js has nothing to object')
  const calls = first.output().match(/^ {2}curl .*$/gm) ?? []
  t.equal(calls.length, 3)
  const answers = []
  for (const call of calls) answers.push(JSON.parse((await run('bash', ['-c', `${call} -s`])).stdout))
  t.strictSame(
    answers.map(({ status }) => status),
    [1, 1, 1],
  )
  t.match(answers[2], { events: [{ event: 'signed up', distinct_id: 'ada', properties: { plan: 'pro' } }] })
  await t.rejects(startService(t, env), /folder .* is in use by process \d+/)

  const secret = keys.find((key) => key.startsWith('sk_')) ?? ''
  await endAtWork(t, first, secret)
  const second = await startService(t, env)
  t.notOk(/[ps]k_[\w-]{43}/.test(second.output()))
  t.match(second.output(), /If they are lost, create a new pair with: npx tallyhouse keys create --project default/)
  const answer = await fetch(`${second.url}/public/events`, { headers: { 'x-api-key': secret } })
  t.equal(answer.status, 200, 'the keys are still valid')
})

t.test('a start that fails prints the reason and exits', async (t) => {
  const env = { DATA_DIR: await dataFolder(t), SECRET_KEY, PUBLIC_API_KEY: PUBLIC_KEY }
  await t.rejects(startService(t, { ...env, PORT: 'http' }), /PORT must be a port from 0 to 65535, but is "http"/)
  await t.rejects(startService(t, { ...env, SECRET_KEY: makeKey('read') }), /could not start: SECRET_KEY is a read key/)
  await t.rejects(startService(t, { ...env, HOST: '192.0.2.1' }), /Cannot listen on HOST=192\.0\.2\.1 /)
})

t.test('the service ends with the process that started it, even if that is killed', async (t) => {
  const DATA_DIR = await dataFolder(t)
  const env = { PATH: process.env.PATH, LOG_LEVEL: 'warn', PORT: '0', DATA_DIR }
  // As with npm start; the shell plays npm's part.
  const script = `dist/cli.js serve --parent=$$ & echo "pid $!"; wait`
  const parent = spawn('sh', ['-c', script], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => parent.kill('SIGKILL'))
  let output = ''
  parent.stdout.on('data', (chunk) => {
    output += chunk
  })
  await until('the service to listen', () => output.includes('Tallyhouse serves at'))
  const pid = Number(/^pid (\d+)$/m.exec(output)?.[1])
  const engine = Number(/^PID: (\d+)/m.exec(await readFile(join(DATA_DIR, 'clickhouse/status'), 'utf8'))?.[1])
  t.ok(isRunning(pid) && isRunning(engine))
  parent.kill('SIGKILL')
  await until('their end', () => !isRunning(pid) && !isRunning(engine))
  t.match(output, /the process that started the service has ended/)
})

t.test('an argument stops the start', async (t) => {
  const service = ['dist/main.js', `--parent=${process.pid}`, '--port=4000']
  const error = await run(process.execPath, service, { env: { DATA_DIR: await temporaryFolder(t) } }).catch((e) => e)
  t.equal(error.code, 1)
  t.match(error.stderr, /^The service takes no arguments, but got --port=4000\. Set the variables .* npm start\.$/m)
})

t.test('npx tallyhouse serve ends with npx, and has one server for localhost, with all limits', async (t) => {
  const settings = { PORT: '0', HOST: 'localhost', DATA_DIR: await dataFolder(t) }
  const env = { PATH: process.env.PATH, ...settings, npm_command: 'exec' }
  // npx starts a shell, which plays its part here.
  const script = `"$0" dist/cli.js serve & echo "pid $!"; wait`
  const parent = spawn('sh', ['-c', script, process.execPath], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => parent.kill('SIGKILL'))
  let output = ''
  parent.stdout.on('data', (chunk) => {
    output += chunk
  })
  await until('the service to listen', () => output.includes('Tallyhouse serves at'))
  const pid = Number(/^pid (\d+)$/m.exec(output)?.[1])
  t.ok(isRunning(pid))
  const port = /serves at http:\/\/[^:]+:(\d+)/.exec(output)?.[1]
  t.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200)
  await t.rejects(fetch(`http://[::1]:${port}/health/live`))
  parent.kill('SIGTERM')
  await until('its end', () => !isRunning(pid))
})

t.test('a signal ends tallyhouse serve while it is still starting', async (t) => {
  const { REDIS_URL, CLICKHOUSE_URL } = { REDIS_URL: 'redis://127.0.0.1:1', CLICKHOUSE_URL: 'http://127.0.0.1:1/a' }
  const env = { PATH: process.env.PATH, PORT: '0', REDIS_URL, CLICKHOUSE_URL }
  const service = spawn(process.execPath, ['dist/cli.js', 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => service.kill('SIGKILL'))
  const ended = once(service, 'exit')
  await once(service.stdout, 'data')
  service.kill('SIGTERM')
  t.strictSame(await ended, [null, 'SIGTERM'])
})

t.test('the start prints the address of the API reference, unless the role is writer', async (t) => {
  const { CLICKHOUSE_URL, REDIS_URL } = await settingsFor(t, 'servers')
  const servers = { CLICKHOUSE_URL, REDIS_URL }
  const writer = await startService(t, { ...servers, ROLE: 'writer' })
  t.match(writer.output(), /ROLE=writer/)
  const keys = writer.output().match(/[ps]k_[\w-]{43}/g) ?? []
  t.equal(keys.length, 2)
  t.notMatch(writer.output(), /curl|serves|\/docs/)
  t.match(await (await fetch(writer.url)).json(), { status: 1, name: 'tallyhouse', metrics: '/metrics' })

  const api = await startService(t, { ...servers, ROLE: 'api' })
  t.match(api.output(), `${api.url}/docs`)
  const links = (await (await fetch(api.url)).json()) as { docs: string; openapi: string }
  t.match(links, { status: 1, error: null, version: /^\d/ })
  for (const link of [links.docs, links.openapi]) t.equal((await fetch(api.url + link)).status, 200)
  await endAtWork(t, api, keys.find((key) => key.startsWith('sk_')) ?? '')
})
