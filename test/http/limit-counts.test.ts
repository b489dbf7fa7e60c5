import t from 'tap'
import { LimitCounts } from '../../src/http/limit-counts.js'
import { settingsFor, startApp } from '../helper.js'
import { startSdkApp } from '../routes/vendors/sdk-app.js'

const NAME = 'tallyhouse_limit_refusals_total'

/** The counts of limits in the metrics of a service. */
async function counted({ app }: Pick<Awaited<ReturnType<typeof startApp>>, 'app'>): Promise<string[]> {
  const { body } = await app.inject('/metrics')
  return body
    .split('\n')
    .filter((line) => line.startsWith(`${NAME}{`))
    .map((line) => line.slice(NAME.length))
}

t.test('countLimits counts a refusal for its project and kind of key, in every format of response', async (t) => {
  const { client, keys, post, inject } = await startSdkApp(t, {
    FACTS: 'off',
    RATE_LIMIT: '1',
    RATE_LIMIT_WINDOW: '86400',
    WRONG_KEY_LIMIT: '1',
  })
  const batch = { batch: [{ type: 'track', event: 'e', userId: 'u' }] }
  for (const status of [200, 429, 429]) {
    const { statusCode } = await post('/segment/v1/batch', batch, { 'content-type': 'application/json' })
    t.equal(statusCode, status)
  }
  const read = { url: '/public/events', headers: { 'x-api-key': keys.read } }
  for (const status of [200, 429]) t.equal((await inject(read)).statusCode, status)
  for (const [i, status] of [401, 429].entries()) {
    t.equal((await inject({ ...read, headers: { 'x-api-key': `unknown-key-number-${i}` } })).statusCode, status)
  }
  t.equal((await client.call('GET', '/public/nothing')).statusCode, 404)
  t.strictSame((await counted(client)).sort(), [
    '{limit="requests",project="sdk",kind="read"} 1',
    '{limit="requests",project="sdk",kind="write"} 2',
    '{limit="wrong_keys",project="",kind=""} 1',
  ])
})

t.test('countLimits counts refused tool calls of MCP', async (t) => {
  const slotLimits = { slots: 1, perProject: 0, waitMs: 1, stalledMs: 1000 }
  const client = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }, { slotLimits })
  const params = { name: 'recent_events', arguments: {} }
  const accept = 'application/json, text/event-stream'
  const response = await client.call(
    'POST',
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    { accept },
  )
  t.match(response.body, /overloaded/)
  t.strictSame(await counted(client), ['{limit="reads",project="default",kind="secret"} 1'])
})

t.test('countLimits uses bounded memory for any number of projects, and loses no count', async (t) => {
  const counts = new LimitCounts()
  for (let i = 0; i < 5000; i++) counts.add('reads', { projectId: `project-${i}`, keyKind: 'read' })
  for (let i = 0; i < 10; i++) counts.add('reads', { projectId: 'project-1', keyKind: 'read' })
  const { all } = counts
  t.ok(all.length <= 1001, `${all.length}`)
  t.equal(
    all.reduce((sum, { count }) => sum + count, 0),
    5010,
  )
  t.match(all[1], { projectId: 'project-1', keyKind: 'read', count: 11 })
})
