import { execFile } from 'node:child_process'
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { InjectOptions } from 'fastify'
import openapiTS, { astToString } from 'openapi-typescript'
import t from 'tap'
import { ERROR_STATUS } from '../../src/contract/errors.js'
import { PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, temporaryFolder } from '../helper.js'
import { listRoutes } from '../list-routes.js'

interface Operation {
  operationId: string
  security: Record<string, string[]>[]
  parameters?: { name: string; in: string; example?: string | number; required?: boolean; description?: string }[]
  requestBody?: { content: Record<string, Content> }
  responses: Record<string, { content: Record<string, Content>; headers: object }>
}

interface Schema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  allOf?: Schema[]
  required?: string[]
  properties?: Record<string, Schema>
  items?: Schema
}

interface Content {
  schema?: Schema
  example?: unknown
  examples?: Record<string, { value: unknown }>
}

interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas?: Record<string, Schema>; examples: Record<string, { value: { code: string } }> }
}

const { app } = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' })
const source = (await app.inject({ url: '/openapi.json' })).body
const document = JSON.parse(source) as Document
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)

/**
 * Not in the document: the calls of other vendors' SDKs (docs/vendors/), /mcp (docs/mcp.md), the calls that only the
 * page uses (docs/page.md), /packages (docs/clients.md) and /t.js (docs/web.md).
 */
const NOT_OURS =
  /^(HEAD|OPTIONS) | \/(docs|openapi\.json|mcp|packages\/|t\.|session$|assets\/|segment|jitsu|posthog|mixpanel|amplitude|openpanel|$)/

t.test('the document has every call, and nothing else', async (t) => {
  const routes = listRoutes(app).filter((route) => !NOT_OURS.test(route))
  const described = operations.map(({ path, method }) => `${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`)
  t.strictSame(described.sort(), routes.sort())
})

t.test('every path that the manuals name exists', async (t) => {
  const known = Object.keys(document.paths).map((path) => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`))
  const manuals = (await readdir('docs', { recursive: true })).map((name) => `docs/${name}`)
  const files = ['README.md', 'CONTRIBUTING.md', ...manuals].filter((name) => /\.(md|ya?ml)$/.test(name))
  const named = await Promise.all(files.map(async (name) => [name, await readFile(name, 'utf8')] as const))
  const paths = named.flatMap(([name, text]) =>
    Array.from(text.matchAll(/\/(?:public\/|health)[\w:/-]*/g), ([path]) => ({ name, path })),
  )
  t.ok(paths.length > 50)
  t.strictSame(
    // A slash at the end comes from `/public/users/*` and the like.
    paths.filter(({ path }) => !path.endsWith('/') && !known.some((route) => route.test(path))),
    [],
  )
})

t.test('the document passes a linter', async (t) => {
  const config = await createConfig({ extends: ['recommended-strict'], rules: { 'operation-4xx-response': 'off' } })
  const problems = await lintFromString({ source, config })
  t.equal(document.openapi, '3.1.0')
  t.strictSame(
    problems.map(({ ruleId, message, location }) => ({ ruleId, message, at: location[0]?.pointer })),
    [],
  )
  const broken = { openapi: '3.1.0', paths: { '/broken': { get: {} } } }
  t.not((await lintFromString({ source: JSON.stringify(broken), config })).length, 0, 'the linter does find problems')
})

t.test('the document has every error of the contract', async (t) => {
  const documented = operations.flatMap(({ operation }) =>
    Object.entries(operation.responses).flatMap(([status, { content }]) =>
      status === '200'
        ? []
        : Object.keys(content['application/json']?.examples ?? {}).map((code) => `${status} ${code}`),
    ),
  )
  const expected = Object.entries(ERROR_STATUS).map(([code, status]) => `${status} ${code}`)
  t.strictSame([...new Set(documented)].sort(), expected.sort())
  for (const [code, { value }] of Object.entries(document.components.examples)) t.equal(value.code, code)
})

t.test('the document says that every read refuses unknown parameters', async (t) => {
  const reads = operations.filter(({ path, method }) => method === 'GET' && path.startsWith('/public/'))
  t.ok(reads.length > 0)
  for (const { path, operation } of reads)
    t.ok(operation.responses[400]?.content['application/json']?.examples?.invalid_request, path)
})

t.test('the document has a CSRF error for calls that need the token, which no GET does', async (t) => {
  for (const { path, method, operation } of operations) {
    const isSignedIn = operation.security.some((required) => 'read' in required || 'secret' in required)
    const refused = 'invalid_csrf_token' in (operation.responses[403]?.content['application/json']?.examples ?? {})
    const isSending = operation.security.some((required) => 'write' in required)
    t.equal(refused, method !== 'GET' && isSignedIn && !isSending, `${method} ${path}`)
  }
})

t.test('every optional field of a body may be null', async (t) => {
  const found = operations.flatMap(({ path, method, operation: { requestBody } }) =>
    Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
      optionalFields(schema).map((field) => ({ call: `${method} ${path}`, ...field })),
    ),
  )
  t.ok(found.some(({ name }) => name === 'dry_run'))
  t.strictSame(
    found.filter(({ schema }) => !mayBeNull(schema)).map(({ call, name }) => `${call}: ${name}`),
    [],
  )
})

t.test('the document contains no internals', async (t) => {
  t.notMatch(source, /"message":"must|TypeBox|undefined/)
  t.notMatch(source, SECRET_KEY)
})

t.test('the examples get the documented responses', async (t) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(
    JSON.parse(source),
    'document',
    false,
    false,
  )
  const order = ['POST', 'PUT', 'PATCH', 'GET', 'DELETE']
  const inOrder = [...operations].sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method))
  /** Ids from earlier responses, for parameters of paths. */
  const ids: Record<string, string> = {}
  for (const { path, method, operation } of inOrder) {
    const success = operation.responses[200]
    // Never ends; test/routes/live.test.ts reads it.
    if (!success || 'text/event-stream' in success.content) continue
    const json = success.content['application/json']
    const responses = `#/paths/${encodeURI(path.replaceAll('/', '~1'))}/${method.toLowerCase()}/responses`
    const isValid = ajv.getSchema(`document${responses}/200/content/application~1json/schema`)
    const headers: Record<string, string> = {}
    const schemes = operation.security.flatMap((required) => Object.keys(required))
    if (schemes.length > 0) headers['x-api-key'] = schemes.includes('secret') ? SECRET_KEY : PUBLIC_KEY
    let url = path
    const query = new URLSearchParams()
    for (const { name, in: where, example } of operation.parameters ?? []) {
      if (where === 'path') url = url.replace(`{${name}}`, ids[name] ?? String(example))
      if (where === 'query' && example !== undefined) query.set(name, String(example))
    }
    const content: Record<string, Content> = operation.requestBody?.content ?? { '': {} }
    const bodies = Object.entries(content).flatMap(([type, { example, examples = { first: { value: example } } }]) => {
      return Object.entries(examples).map(([name, { value }]) => ({ type, name, example: value }))
    })
    for (const { type, name, example } of bodies) {
      const payload = typeof example === 'string' ? example : JSON.stringify(example)
      const response = await app.inject({
        method: method as NonNullable<InjectOptions['method']>,
        url: `${url}?${query}`,
        headers: { ...headers, ...(type !== '' && { 'content-type': type }) },
        ...(example !== undefined && { payload }),
      })
      // The second content type finds the session ended by the first.
      if (operation.operationId === 'startSession' || response.statusCode !== 409)
        t.equal(response.statusCode, 200, `${method} ${url}: ${response.body}`)
      ids.eventId ||= String(response.headers['x-event-id'] ?? '')
      if (operation.operationId === 'createKey') ids.keyId = response.json().key.id
      if ('x-event-id' in success.headers) t.ok(response.headers['x-event-id'])
      if (!json) continue
      const expected = json.examples?.[name]?.value ?? json.example
      t.ok(isValid?.(response.json()), `${method} ${url} returns ${response.body}`)
      t.ok(isValid?.(expected), `${method} ${path} describes ${JSON.stringify(expected)}`)
      t.strictSame(Object.keys(response.json()), Object.keys(expected as object), `${method} ${path}`)
      const filled = (answer: unknown) => (answer as { query?: unknown }).query
      t.strictSame(filled(response.json()), filled(expected), `${method} ${path} fills in all of the question`)
    }
  }
})

t.test('the document has the formats of the export', async (t) => {
  const types = Object.keys(document.paths['/public/events']?.get?.responses[200]?.content ?? {})
  t.equal(types.length, 4)
  for (const type of types) {
    const response = await app.inject({ url: '/public/events', headers: { 'x-api-key': SECRET_KEY, accept: type } })
    t.equal(response.statusCode, 200)
    t.equal(String(response.headers['content-type']).replace(/;.*/, ''), type)
  }
})

t.test('the page with the reference loads nothing from other hosts, and its policy forbids it', async (t) => {
  const page = await app.inject({ url: '/docs/' })
  t.equal(page.statusCode, 200)
  t.match(page.headers['content-type'], 'text/html')
  const policy = String(page.headers['content-security-policy'])
  t.match(policy, /default-src 'self'/)
  t.match(policy, /frame-ancestors 'none'/)
  t.notMatch(policy, /https?:|unsafe-(inline|eval)|upgrade-insecure/)
  t.equal(page.headers['x-content-type-options'], 'nosniff')
  const links = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link)
  t.ok(links.length >= 4)
  for (const link of links) {
    t.match(link, /^\.\//)
    t.equal((await app.inject({ url: new URL(link, 'http://host/docs/').pathname })).statusCode, 200, link)
  }
  t.notMatch(page.body, /<script>[^<]|<style>[^<]/, 'there is nothing that the policy would block')
  t.strictSame((await app.inject({ url: '/docs/json' })).json(), document)
  t.equal((await app.inject({ url: '/docs/nothing' })).json().code, 'not_found')
})

t.test(
  'the document marks parameters with a default as optional, and describes every parameter of a read',
  async (t) => {
    for (const path of ['/public/events', '/public/users', '/public/sessions']) {
      const query = document.paths[path]?.get?.parameters?.filter((parameter) => parameter.in === 'query') ?? []
      t.ok(query.length >= 2, path)
      for (const { name, required, description } of query) {
        t.not(required, true, name)
        t.match(description, /^(?!Must)\w.+\.$/, name)
      }
    }
  },
)

/** The README's curl examples as calls of a client that is generated from the document. */
const GENERATED_CALLS = `
import createClient from 'openapi-fetch'
import type { paths } from './schema.js'

const [baseUrl = '', key = ''] = process.argv.slice(2)
const client = createClient<paths, 'application/json'>({ baseUrl, headers: { 'x-api-key': key } })
const user = { distinct_id: 'generated' }
const tracked = await client.POST('/public/track', {
  body: { ...user, event: 'signed up', properties: { plan: 'pro', price: 9.9 } },
})
await client.POST('/public/track/batch', {
  params: { header: { 'idempotency-key': 'generated' } },
  body: { events: [{ ...user, event: 'again', timestamp: 5 }] },
})
await client.POST('/public/users/profile', {
  body: { ...user, operations: { $set: { a: 1 }, $add: { visits: 1 }, $unset: ['b'], $union: { seats: ['a'] } } },
})
// @ts-expect-error an operand of $add must be a number
const mistyped = () => client.POST('/public/users/profile', { body: { ...user, operations: { $add: { visits: '1' } } } })
// @ts-expect-error an event needs its name
const nameless = () => client.POST('/public/track', { body: user })
const all = await client.GET('/public/events')
const some = await client.GET('/public/events', {
  params: { query: { limit: 1, distinct_id: 'generated', from: 6, to: Date.now() + 1000, format: 'json' } },
})
const [event] = some.data?.events ?? []
if (!event) throw new Error('there is none')
const eventId: string = event.eventId
await client.PUT('/public/events/{eventId}', { params: { path: { eventId } }, body: { properties: { plan: 'free' } } })
const deleted = await client.DELETE('/public/events/{eventId}', { params: { path: { eventId } } })
const unknown = await client.DELETE('/public/events/{eventId}', { params: { path: { eventId } } })
const users = await client.GET('/public/users')
const visits: unknown = users.data?.users.find(({ distinct_id }) => distinct_id === 'generated')?.properties.visits
console.log(
  JSON.stringify({
    tracked: tracked.response.status, all: all.data?.status, event: event.event, deleted: deleted.data?.status,
    unknown: unknown.error?.code, visits, mistyped: typeof mistyped, nameless: typeof nameless,
  }),
)
`

t.test('a generated client compiles and makes the calls of the README', async (t) => {
  const folder = await temporaryFolder(t)
  await symlink(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(join(folder, 'schema.d.ts'), astToString(await openapiTS(source)))
  await writeFile(join(folder, 'calls.ts'), GENERATED_CALLS)
  const run = promisify(execFile)
  const options = ['--strict', '--target', 'ES2022', '--module', 'NodeNext', '--types', 'node', '--skipLibCheck']
  const tsc = join(process.cwd(), 'node_modules/typescript/bin/tsc')
  await run(process.execPath, [tsc, ...options, 'calls.ts'], { cwd: folder }).catch(({ stdout }) => t.fail(stdout))
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  const { stdout } = await run(process.execPath, ['calls.js', address, SECRET_KEY], { cwd: folder })
  t.strictSame(JSON.parse(stdout), {
    tracked: 200,
    all: 1,
    event: 'signed up',
    deleted: 1,
    unknown: 'not_found',
    visits: 1,
    mistyped: 'function',
    nameless: 'function',
  })
})

t.test('only the page with the reference has the headers for browser pages', async (t) => {
  for (const url of ['/health/live', '/openapi.json', '/metrics', '/public/events']) {
    const { headers } = await app.inject({ url, headers: { 'x-api-key': SECRET_KEY } })
    t.notOk('content-security-policy' in headers, url)
  }
})

/** The fields that may be absent, at every level of a schema. */
function optionalFields(schema: Schema | undefined, around = new Set<Schema>()): { name: string; schema: Schema }[] {
  const { anyOf = [], allOf = [], items, properties = {}, required = [] } = resolved(schema)
  if (!schema || around.has(schema)) return []
  const inside = new Set([...around, schema])
  const own = Object.entries(properties).flatMap(([name, field]) => [
    ...(required.includes(name) ? [] : [{ name, schema: field }]),
    ...optionalFields(field, inside),
  ])
  return [...own, ...[...anyOf, ...allOf, items].flatMap((inner) => optionalFields(inner, inside))]
}

function mayBeNull(schema: Schema): boolean {
  const { type, anyOf, allOf, ...rest } = resolved(schema)
  if (anyOf) return anyOf.some(mayBeNull)
  if (type) return [type].flat().includes('null')
  return !allOf && !('const' in rest) && !('enum' in rest)
}

function resolved(schema: Schema = {}): Schema {
  const name = schema.$ref?.split('/').at(-1)
  return name === undefined ? schema : (document.components.schemas?.[name] ?? {})
}
