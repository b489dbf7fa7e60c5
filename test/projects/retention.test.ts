import t from 'tap'
import { type Client, LAYOUTS, settingsFor, startApp } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'

const DAY_MS = 86_400_000
const OLD = 'expired-user'

/** Every read of the project's events, each a path and perhaps a body. */
function reads(ids: { event: string }): [string, object?][] {
  const range = { from: 0, to: Date.now() + DAY_MS }
  const series = { kind: 'series', ...range, interval: 'none', series: [{ event: '*' }], breakdown: ['distinct_id'] }
  return [
    ['/public/events?limit=1000'],
    ['/public/events?limit=1000&order=desc'],
    [`/public/events?limit=1000&distinct_id=${OLD}`],
    ['/public/events?limit=1000&format=ndjson'],
    ['/public/events?limit=1000&format=csv'],
    [`/public/events/${ids.event}`],
    ['/public/export?format=ndjson'],
    [`/public/users/${OLD}/export`],
    ['/public/sessions?limit=100'],
    [`/public/sessions?limit=100&distinct_id=${OLD}`],
    ['/public/sessions/expired-session'],
    ['/public/schema/events'],
    ['/public/query', series],
    ['/public/query', { kind: 'funnel', ...range, steps: [{ event: 'old' }, { event: 'old too' }] }],
    ['/public/query', { kind: 'paths', ...range, start: 'old' }],
    ['/public/query', { kind: 'users', of: series, cell: { series: 0, breakdown: [OLD] } }],
  ]
}

async function read({ call }: Client, [path, body]: [string, object?]) {
  const { body: text } = await call(body ? 'POST' : 'GET', path, body)
  return text
}

async function check(client: Client, t: import('tap').Test) {
  const { call } = client
  const ok = async (...args: Parameters<typeof call>) => {
    const response = await call(...args)
    if (response.statusCode !== 200) throw new Error(`${args[1]}: ${response.body}`)
    return response
  }
  const now = Date.now()
  const old = { event: 'old', distinct_id: OLD, timestamp: now - 40 * DAY_MS, properties: { is: 'expired' } }
  const event = String((await ok('POST', '/public/track', old)).headers['x-event-id'])
  await ok('POST', '/public/track/batch', {
    events: [
      { ...old, event: 'old too', timestamp: old.timestamp + 1 },
      { event: 'new', distinct_id: 'bob', timestamp: now - 20 * DAY_MS },
    ],
  })
  const before = await Promise.all(reads({ event }).map((one) => read(client, one)))
  for (const [i, text] of before.entries()) {
    const [path] = reads({ event })[i] ?? []
    if (!path?.includes('session')) t.match(text, /old|expired/, `${path} has it`)
  }
  const changed = await ok('PATCH', '/public/project', { keep: { events: '30d' } })
  t.match(changed.json(), { project: { keep: { events: '30d', sessions: null }, revision: 1 } })
  for (const one of reads({ event })) {
    const text = await read(client, one)
    t.notMatch(
      text.replaceAll(`"start":{"event":"old"`, '').replaceAll(/"query":.*/g, ''),
      /"old|,old|"expired"/,
      `${JSON.stringify(one)} has nothing of it`,
    )
  }
  t.match(await read(client, ['/public/events?limit=1000']), /"event":"new"/)
  await ok('PATCH', '/public/project', { keep: { events: '60d' } })
  t.match(await read(client, ['/public/events?limit=1000']), /"event":"old"/, 'until it leaves the disk')
}

for (const storage of LAYOUTS) {
  t.test(`${storage}: what has expired is in no response`, async (t) => {
    await check(await startApp(t, await settingsFor(t, storage)), t)
  })
}

t.test('nor over several shards', async (t) => {
  const nodes = await startNodes(t, 2)
  const env = await settingsFor(t, 'lanes')
  await check(await startApp(t, { ...env, CLICKHOUSE_URL: shardsUrl(nodes) }), t)
})
