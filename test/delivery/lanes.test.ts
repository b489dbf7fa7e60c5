import { once } from 'node:events'
import t from 'tap'
import { runProcess, startCommand } from '../cli/command-line.js'
import { SECRET_KEY, type Service, startRedis, startService, temporaryFolder } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'

/** Runs the command until it succeeds, and kills it with SIGKILL at each new line of its output. */
async function setLanes(lanes: number, env: NodeJS.ProcessEnv): Promise<string[]> {
  const seen: string[] = []
  for (;;) {
    const child = startCommand(['lanes', 'set', String(lanes)], env)
    let output = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output += text
      const lines = output
        .split('\n')
        .slice(0, -1)
        .filter((line) => !line.includes(' bytes of lane '))
      const news = lines.find((line) => !seen.includes(line))
      if (news === undefined || child.killed) return
      seen.push(news)
      child.kill('SIGKILL')
    })
    const [code, signal] = await once(child, 'close')
    if (signal === 'SIGKILL') continue
    if (code !== 0) throw new Error(`lanes set ended with ${code}: ${output}`)
    return seen
  }
}

interface Answer {
  status: number
  id: string | null
  text: string
}

async function call(service: Service, path: string, key?: string, body?: object): Promise<Answer> {
  const headers = {
    'x-api-key': SECRET_KEY,
    'content-type': 'application/json',
    ...(key && { 'idempotency-key': key }),
  }
  const method = body ? 'POST' : 'GET'
  const response = await fetch(service.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  return { status: response.status, id: response.headers.get('x-event-id'), text: await response.text() }
}

t.test('the command is killed at every line that it prints, with a service running', async (t) => {
  const [redis, nodes] = await Promise.all([Promise.all([1, 2, 3].map(() => startRedis(t))), startNodes(t, 2)])
  const envOf = (lanes: number, shards: number) => ({
    SECRET_KEY,
    REDIS_URL: redis
      .slice(0, lanes)
      .map(({ url }) => url)
      .join(','),
    CLICKHOUSE_URL: shardsUrl(nodes.slice(0, shards)),
  })
  const done = new Map<string, Answer>()
  const track = (service: Service, name: string) =>
    call(service, '/public/track', name, { event: name, distinct_id: 'ada', timestamp: 1 })
  const add = (service: Service, name: string) =>
    call(service, '/public/users/profile', name, { distinct_id: `user-${name}`, operations: { $add: { visits: 1 } } })

  let service = await startService(t, envOf(1, 1))
  let [lanes, shards] = [1, 1]
  for (const [nextLanes, nextShards] of [
    [3, 1],
    [2, 2],
  ] as const) {
    for (let i = 0; i < 10; i++) {
      const name = `${lanes}-${shards}-${i}`
      done.set(name, await track(service, name))
      t.equal((await add(service, `add-${name}`)).status, 200)
    }
    // To reduce the number of lanes, the settings must name the current ones.
    const steps = await setLanes(nextLanes, envOf(Math.max(lanes, nextLanes), nextShards))
    t.ok(steps.length > 10, `it was killed ${steps.length} times`)
    const late = await track(service, 'late')
    t.match(late, { status: 503, text: /layout/ }, 'a service with the settings of before is refused')
    service.process.kill('SIGTERM')
    await service.ended
    await t.rejects(startService(t, envOf(lanes, shards)), /tallyhouse lanes set/, 'and does not start again')

    ;[lanes, shards] = [nextLanes, nextShards]
    service = await startService(t, envOf(lanes, shards))
    for (const [name, first] of done) {
      const again = await track(service, name)
      t.same([again.status, again.id], [200, first.id], 'a repeated call gets the id of the first')
      t.equal((await add(service, `add-${name}`)).status, 200)
      const user = await call(service, `/public/users/user-add-${name}`)
      t.equal(JSON.parse(user.text).user?.properties.visits, 1, user.text)
    }
    const { events } = JSON.parse((await call(service, '/public/events?limit=1000')).text)
    t.same(events.map(({ event }: { event: string }) => event).sort(), [...done.keys()].sort())

    const shown = await runProcess(['lanes', '--json'], '', envOf(lanes, shards))
    t.equal(shown.code, 0, shown.stderr)
    const status = JSON.parse(shown.stdout)
    t.match(status, { active: { lanes, shards }, layout: { state: 'active' } })
    t.same(
      status.lanes.map(({ state, shard }: { state: string; shard: number }) => [state, shard]),
      Array.from({ length: lanes }, (_, lane) => ['up', lane % shards]),
    )
    t.same(
      status.shards.map(({ state }: { state: string }) => state),
      Array(shards).fill('up'),
    )
  }
})

t.test('the embedded service: shown while it runs, changed while it does not', async (t) => {
  const env = { SECRET_KEY, DATA_DIR: await temporaryFolder(t) }
  const service = await startService(t, env)
  const first = await call(service, '/public/track', 'key', { event: 'e', distinct_id: 'ada', timestamp: 1 })
  t.match(await runProcess(['lanes'], '', env), {
    code: 0,
    stdout: /Layout 1: 1 lane on 1 shard\n\nLANE .*\n0 +0 +up .*journal\n\nSHARD .*\n0 +up /,
  })
  t.match(await runProcess(['lanes', 'set', '2'], '', env), { code: 1, stderr: /Stop the service first/ })
  service.process.kill('SIGTERM')
  await service.ended
  t.ok((await setLanes(2, env)).length > 5)
  t.match(await runProcess(['lanes'], '', { ...env, LANES: '2' }), { code: 0, stdout: /Layout 2: 2 lanes on 1 shard/ })
  t.match(await runProcess(['lanes'], '', env), { code: 0, stderr: /These settings have 1 lane on 1 shard/ })
  const after = await startService(t, { ...env, LANES: '2' })
  const again = await call(after, '/public/track', 'key', { event: 'e', distinct_id: 'ada', timestamp: 1 })
  t.same([again.status, again.id], [200, first.id])
})
