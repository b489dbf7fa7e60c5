import { spawnSync } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import Fastify from 'fastify'
import t from 'tap'
import { Workers } from '../../src/process/workers.js'
import { startClickHouse, startRedis, startService, temporaryFolder, until } from '../helper.js'

t.test('workers share one port, the primary stores, and a worker that is killed is replaced', async (t) => {
  const redis = await startRedis(t)
  const env = { REDIS_URL: redis.url, DATA_DIR: await temporaryFolder(t), WORKERS: '2', LOG_LEVEL: 'error' }
  const blocker = createServer().listen(0, '127.0.0.1')
  await once(blocker, 'listening')
  const PORT = String((blocker.address() as AddressInfo).port)
  await t.rejects(startService(t, { ...env, PORT }), /Cannot listen on/)
  blocker.close()

  const { url, process, ended, output } = await startService(t, env)
  const [secret = ''] = output().match(/sk_[\w-]{43}/) ?? []
  t.ok(secret, 'the start that could not listen stored no keys')
  const headers = { 'content-type': 'application/json', 'x-api-key': secret }
  // A new connection for each request, so that the processes take turns.
  const track = async (event: string) => {
    const body = JSON.stringify({ event, distinct_id: 'ada' })
    const answer = await fetch(`${url}/public/track`, {
      method: 'POST',
      headers: { ...headers, connection: 'close' },
      body,
    }).catch(() => null)
    return answer?.status
  }
  const metrics = async () => (await fetch(`${url}/metrics`)).text()
  const accepted = (text: string) =>
    Array.from(text.matchAll(/^tallyhouse_events_accepted_total\{process="(.*)"\} (\d+)$/gm), ([, name, n]) => [
      name,
      n,
    ])

  for (let i = 0; i < 10; i++) t.equal(await track(`event ${i}`), 200)
  // The start ends with the first worker that listens.
  const text = await until('the metrics of all three processes', async () => {
    const text = await metrics()
    return accepted(text).length === 3 && text
  })
  t.strictSame(
    accepted(text)
      .map(([name]) => name)
      .sort(),
    ['worker-1', 'worker-2', 'writer'],
  )
  t.equal(
    accepted(text).reduce((sum, [, n]) => sum + Number(n), 0),
    10,
  )
  t.equal(text.match(/^# TYPE tallyhouse_events_accepted_total counter$/gm)?.length, 1)

  const workers = () =>
    spawnSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)], { encoding: 'utf8' })
      .stdout.split('\n')
      .filter((line) => line.includes('main.js'))
      .map((line) => Number.parseInt(line, 10))
  const before = workers()
  t.equal(before.length, 2)
  globalThis.process.kill(before[0] ?? 0, 'SIGKILL')
  await until('another worker', () => workers().length === 2 && !workers().includes(before[0] ?? 0))
  let taken = 10
  for (let i = 0; i < 10; i++) if ((await track(`after ${i}`)) === 200) taken++
  const answer = await fetch(`${url}/public/events?limit=100`, { headers })
  const { events } = (await answer.json()) as { events: unknown[] }
  t.equal(events.length, taken)

  process.kill('SIGTERM')
  t.equal(await ended, 0)
})

t.test('a port in use is named before any worker starts', async (t) => {
  const blocker = createServer().listen(0, '127.0.0.1')
  t.teardown(() => blocker.close())
  await once(blocker, 'listening')
  const PORT = String((blocker.address() as AddressInfo).port)
  for (const HOST of ['127.0.0.1', 'localhost']) {
    // Nothing listens there: the check of the address comes first.
    const env = { REDIS_URL: 'redis://127.0.0.1:1', CLICKHOUSE_URL: 'http://127.0.0.1:1', WORKERS: '2', HOST, PORT }
    await t.rejects(startService(t, env), new RegExp(`Cannot listen on HOST=${HOST} and PORT=${PORT}\\..*EADDRINUSE`))
  }
})

t.test('the metrics show a journal and a store that do not respond', async (t) => {
  const [redis, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)])
  const env = { REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url, WORKERS: '2', LOG_LEVEL: 'error' }
  const { url } = await startService(t, { ...env, DATA_DIR: await temporaryFolder(t) })
  const up = async (part: string) => {
    const answer = await fetch(`${url}/metrics`)
    t.equal(answer.status, 200)
    const samples = (await answer.text()).matchAll(
      new RegExp(`^tallyhouse_${part}_up\\{process="(.*)"\\} (\\d)$`, 'gm'),
    )
    return Array.from(samples, ([, name, value]) => `${name} ${value}`).sort()
  }
  const all = (value: number) => ['worker-1', 'worker-2', 'writer'].map((name) => `${name} ${value}`)
  await until('all processes', async () => (await up('store')).join() === all(1).join())
  const engine = clickhouse.pid()
  if (engine === undefined) throw new Error('the engine has no process')
  process.kill(engine, 'SIGSTOP')
  t.strictSame(await up('store'), all(0))
  redis.process.kill('SIGSTOP')
  t.strictSame(await up('journal'), all(0))
})

t.test('workers close the connections above the limit', async (t) => {
  const redis = await startRedis(t)
  const env = { REDIS_URL: redis.url, DATA_DIR: await temporaryFolder(t), WORKERS: '2', MAX_CONNECTIONS: '2' }
  const { port, hostname } = new URL((await startService(t, env)).url)
  const sockets = Array.from({ length: 20 }, () => connect(Number(port), hostname).on('error', () => undefined))
  t.teardown(() => sockets.map((socket) => socket.destroy()))
  let closed = 0
  for (const socket of sockets) socket.once('close', () => closed++)
  // One worker may not listen yet.
  await until('those beyond the limit to be closed', () => closed >= 16, 10_000)
  await wait(100)
  t.ok(closed < sockets.length, 'the others stay')
})

t.test('a start whose workers never listen fails with a reason and kills them', async (t) => {
  const exec = join(await temporaryFolder(t), 'hangs.cjs')
  // It handles no SIGTERM.
  const hang = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)'
  await writeFile(exec, `process.on('SIGTERM', () => undefined); ${hang}`)
  cluster.setupPrimary({ exec, execArgv: [], silent: true })
  const faults: Error[] = []
  const workers = new Workers({
    count: 2,
    env: () => ({}),
    log: Fastify().log,
    metrics: async () => [],
    onFatal: (error) => faults.push(error),
    startLimitMs: 100,
  })
  const started = workers.start()
  const processes = Object.values(cluster.workers ?? {}).map((worker) => worker?.process)
  t.equal(processes.length, 2)
  t.teardown(() => processes.map((child) => child?.kill('SIGKILL')))
  await t.rejects(started, { message: /no worker was listening after 0\.1 s/ })
  const forked: unknown[] = []
  cluster.on('fork', (worker) => forked.push(worker))
  await until('their end', () => Object.keys(cluster.workers ?? {}).length === 0)
  t.ok(processes.every((child) => child?.signalCode === 'SIGKILL'))
  // A worker that dies later is replaced after half a second.
  await wait(700)
  t.strictSame(forked, [], 'none is replaced')
  t.strictSame(faults, [])
})
