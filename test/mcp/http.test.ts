import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { makeKey } from '../../src/keys/keys.js'
import { runCommand } from '../cli/command-line.js'
import { freePort, PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { callTool, connect } from './clients.js'

t.test('MCP over HTTP and stdio', async (t) => {
  // A test inserts events directly into the store, so facts do not know of them.
  const settings: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const client = await startApp(t, settings, { keysRefreshMs: 200 })
  const url = await addressOf(client)
  const clickhouse = new ClickHouse({ url: settings.CLICKHOUSE_URL ?? '' })
  t.teardown(() => clickhouse.close())

  const ACCEPT = { accept: 'application/json, text/event-stream' }
  const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const post = (body: unknown, headers: object = {}) => client.call('POST', '/mcp', body, { ...ACCEPT, ...headers })

  async function makeKeyOf(kind: string): Promise<string> {
    const { stdout, stderr } = await runCommand(['keys', 'create', '--project', 'p', '--kind', kind], '', settings)
    const key = /=([a-z]k_[\w-]{43})/.exec(stdout)?.[1]
    if (key === undefined) throw new Error(stderr)
    // Unknown keys are looked up once per second.
    await until('the key', async () => (await post(LIST, { 'x-api-key': key })).statusCode !== 401)
    return key
  }

  t.test('each message gets a JSON response, without a handshake or a session', async (t) => {
    const response = await post(LIST)
    t.equal(response.statusCode, 200)
    t.match(response.headers['content-type'], /^application\/json/)
    t.notOk(response.headers['mcp-session-id'])
    t.equal(response.headers['access-control-allow-origin'], undefined)
    t.equal(response.json().result.tools.length, 6)
    const noted = await post({ jsonrpc: '2.0', method: 'notifications/initialized' })
    t.equal(noted.statusCode, 202)
    t.equal(noted.body, '')
    t.equal((await post({ ...LIST, method: 'resources/list' })).json().error.code, -32601)
    t.equal((await post([LIST, LIST])).statusCode, 400, 'one at a time')
    t.equal((await post({ hello: 1 })).statusCode, 400)
    t.equal((await post('{', { 'content-type': 'application/json' })).json().code, 'invalid_json')
    t.equal((await post(LIST, { 'content-type': 'text/plain' })).statusCode, 415)
    const long = JSON.stringify({ ...LIST, params: { x: 'x'.repeat(1 << 20) } })
    t.equal((await post(long)).statusCode, 413)
    for (const method of ['GET', 'DELETE', 'HEAD'] as const) {
      const refused = await client.call(method, '/mcp')
      t.equal(refused.statusCode, 405)
      t.equal(refused.headers.allow, 'POST')
    }
  })

  t.test('a subscription is refused, because nothing would ever be sent', async (t) => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'subscriptions/listen',
      params: { notifications: { toolsListChanged: true }, _meta: meta },
    }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': body.method }
    const response = await post(body, headers)
    t.match(response.json().error, { message: /Subscription limit/ })
  })

  t.test('web pages of any origin are refused', async (t) => {
    for (const origin of ['http://evil.example', 'http://localhost:3000', 'null']) {
      t.equal((await post(LIST, { origin })).statusCode, 403)
      const preflight = await client.call('OPTIONS', '/mcp', undefined, {
        origin,
        'access-control-request-method': 'POST',
      })
      t.equal(preflight.headers['access-control-allow-origin'], undefined)
    }
  })

  t.test("keys that may read are accepted as a bearer token or in the API's header", async (t) => {
    const status = async (headers: object) => {
      const { statusCode } = await client.app.inject({
        method: 'POST',
        url: '/mcp',
        headers: { ...ACCEPT, 'content-type': 'application/json', ...headers },
        payload: JSON.stringify(LIST),
      })
      return statusCode
    }
    t.equal(await status({}), 401)
    t.equal(await status({ authorization: `Bearer ${SECRET_KEY}` }), 200)
    t.equal(await status({ authorization: `bearer ${SECRET_KEY}` }), 200)
    t.equal(await status({ authorization: `Basic ${SECRET_KEY}` }), 401)
    t.equal(await status({ authorization: `Bearer ${makeKey('read')}` }), 401)
    t.equal(await status({ authorization: 'Bearer of.a.proxy', 'x-api-key': SECRET_KEY }), 200)
    t.equal(await status({ authorization: `Bearer ${PUBLIC_KEY}` }), 403)
    t.equal(await status({ authorization: `Bearer ${await makeKeyOf('write')}` }), 403)
    const elsewhere = {
      method: 'GET',
      url: '/public/events',
      headers: { authorization: `Bearer ${SECRET_KEY}` },
    } as const
    t.equal((await client.app.inject(elsewhere)).statusCode, 401, 'nowhere else')
  })

  t.test('a read key sees its project only, until it is revoked', async (t) => {
    await client.call('POST', '/public/track', { event: 'of another project', distinct_id: 'x' })
    const key = await makeKeyOf('read')
    const byHeader = await connect(t, url, { over: 'http', key, keyHeader: 'x-api-key' })
    const [http, stdio] = [await connect(t, url, { over: 'http', key }), await connect(t, url, { over: 'stdio', key })]
    for (const assistant of [byHeader, http, stdio]) {
      t.strictSame((await callTool(assistant, 'list_events')).value, { events: [], pending: 0 })
    }
    await runCommand(['keys', 'revoke', key], '', settings)
    await until('the key to end', async () => (await post(LIST, { 'x-api-key': key })).statusCode === 401)
    await t.rejects(callTool(http, 'list_events'), /401|not known/)
    const { isError, note } = await callTool(stdio, 'list_events')
    t.ok(isError)
    t.match(note, /^unauthorized: The service at http:\S+ refuses the key.*\n.*Only a person can replace it/)
    t.notMatch(note, key)
  })

  t.test('over stdio, an unreachable service is an error of the tool, with its address', async (t) => {
    const assistant = await connect(t, `http://127.0.0.1:${await freePort()}`, { over: 'stdio' })
    const { isError, note } = await callTool(assistant, 'list_events')
    t.ok(isError)
    t.match(note, /^unavailable: The service cannot be reached at http:\S+: nothing listens there/)
  })

  t.test('a question is aborted when the client hangs up or cancels it', async (t) => {
    await clickhouse.command(`
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    SELECT 'default', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', toString(number),
      1760000000000 + number, 0, '{}', ''
    FROM numbers(2000000)`)
    const filters = Array.from({ length: 90 }, (_, i) => ['matches', 'distinct_id', `${i}(.?){30}x+y*${i}$`])
    const range = { from: '2025-10-01', to: '2025-11-01' }
    const question = { kind: 'series', series: [{ event: 'a' }], ...range, where: ['or', filters] }
    const running = () => {
      return clickhouse.rows(
        `SELECT 1 FROM system.processes WHERE query LIKE '%match(%' AND query NOT LIKE '%system.processes%'`,
      )
    }
    const begun = () => until('the question', async () => (await running()).length > 0)
    // Without the abort, it would take the 30 s of QUERY_TIMEOUT.
    const ended = () => until('its end', async () => (await running()).length === 0, 20_000)

    const { port } = client.app.server.address() as AddressInfo
    const headers = { ...ACCEPT, 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
    const call = request({ port, path: '/mcp', method: 'POST', headers }).on('error', () => undefined)
    call.end(JSON.stringify({ ...LIST, method: 'tools/call', params: { name: 'query', arguments: { question } } }))
    await begun()
    call.destroy()
    await ended()

    const [http, stdio] = [await connect(t, url, { over: 'http' }), await connect(t, url, { over: 'stdio' })]
    for (const assistant of [http, stdio]) {
      const stop = new AbortController()
      const answer = callTool(assistant, 'query', { question }, stop.signal).catch(() => 'taken back')
      await begun()
      stop.abort()
      await ended()
      t.equal(await answer, 'taken back')
      t.match(await callTool(assistant, 'list_events'), { isError: false }, 'the connection still works')
    }

    const answer = callTool(stdio, 'query', { question }).catch(() => 'closed')
    await begun()
    await stdio.close()
    await ended()
    t.equal(await answer, 'closed')
  })
})
