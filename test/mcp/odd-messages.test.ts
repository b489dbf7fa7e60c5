import fc from 'fast-check'
import t from 'tap'
import { TOOLS } from '../../src/mcp/tools.js'
import { codePoint } from '../fuzz/texts.js'
import { newProject } from '../shared-app.js'

t.test('odd messages', async (t) => {
  const client = await newProject()
  await client.call('POST', '/public/track', { event: 'a', distinct_id: 'ada', properties: { n: 1 } })

  const post = (body: unknown, headers: object = {}) => {
    const accept = 'application/json, text/event-stream'
    return client.call('POST', '/mcp', JSON.stringify(body), { accept, ...headers })
  }

  const values = fc.jsonValue({ maxDepth: 3, stringUnit: codePoint })
  const nearly = <T>(value: T) => fc.oneof({ weight: 4, arbitrary: fc.constant<unknown>(value) }, values)
  const names = fc.constantFrom(...TOOLS.map(({ name }) => name))

  t.test('no message causes an internal error', async (t) => {
    const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    const methods = fc.constantFrom('initialize', 'server/discover', 'tools/list', 'tools/call', 'ping', 'toString')
    const messages = fc.record(
      {
        jsonrpc: nearly('2.0'),
        id: nearly(1),
        method: fc.oneof(methods, values),
        params: fc.oneof(values, fc.record({ name: fc.oneof(names, values), arguments: values, _meta: nearly(meta) })),
      },
      { requiredKeys: [] },
    )
    const headers = fc.constantFrom({}, { 'mcp-protocol-version': '2026-07-28' }, { 'mcp-protocol-version': 'x\u00ff' })
    await fc.assert(
      fc.asyncProperty(fc.oneof(messages, values), headers, async (body, headers) => {
        const { statusCode, body: answer } = await post(body, headers)
        return statusCode < 500 && (answer === '' || typeof JSON.parse(answer) === 'object')
      }),
      { numRuns: 40 },
    )
    t.equal((await post({ jsonrpc: '2.0', id: 1, method: 'ping' })).statusCode, 200)
  })

  t.test('a tool answers any arguments, or explains what is wrong', async () => {
    const fields = fc.oneof(fc.constantFrom('properties.n', 'event', 'user.a'), values)
    const questions = fc.record(
      {
        kind: nearly('series'),
        series: nearly([{ event: 'a' }]),
        where: fc.oneof(values, fc.tuple(fc.constantFrom('is', 'contains', 'gt', 'matches', 'set'), fields, values)),
        breakdown: fc.array(fields, { maxLength: 2 }),
        timezone: nearly('UTC'),
      },
      { requiredKeys: ['kind', 'series'] },
    )
    const given = fc.record(
      { question: fc.oneof(questions, values), field: fields, event: nearly('a'), distinct_id: nearly('ada') },
      { requiredKeys: [] },
    )
    const schemas = new Map(TOOLS.map(({ name, schema }) => [name, schema.properties]))
    await fc.assert(
      fc.asyncProperty(names, given, async (name, all) => {
        // Unknown arguments are refused before the others are checked.
        const known = Object.entries(all).filter(([argument]) => Object.hasOwn(schemas.get(name) ?? {}, argument))
        const params = { name, arguments: Object.fromEntries(known) }
        const { result } = (await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })).json()
        const [first] = result.content
        return result.isError
          ? /^(invalid_request|not_found|query_too_large):/.test(first.text)
          : result.structuredContent !== undefined
      }),
      { numRuns: 40 },
    )
  })
})
