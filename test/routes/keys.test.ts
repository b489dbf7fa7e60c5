import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import type { AuditLogEntry, CreatedKey, ListedKey, RotatedKey } from '../../src/contract/key-schemas.js'
import { KeyChanges } from '../../src/keys/key-changes.js'
import { MAX_KEYS } from '../../src/keys/key-rules.js'
import { type KeyKind, makeKey, storedKey } from '../../src/keys/keys.js'
import { COMMAND_LINE } from '../../src/model/audit-entry.js'
import { insertKeys, listKeys, openKeyStore, readKeys, revokeKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { type Client, dataFolder, PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { sharedApp } from '../shared-app.js'

const WHOLE_KEY = /[psrw]k_[\w-]{43}/
const DAY_MS = 86_400_000

type Body = Record<string, unknown>

/** The calls of a project with one of its keys. */
function callsWith({ app }: Client, key: string, cookie?: string) {
  const send = (method: NonNullable<InjectOptions['method']>, url: string, body?: Body, headers = {}) =>
    app.inject({
      method,
      url,
      headers: { ...(cookie ? { cookie } : { 'x-api-key': key }), ...headers },
      ...(body && { payload: body }),
    })
  return {
    send,
    create: async (body: Body) => (await send('POST', '/public/keys', body)).json() as CreatedKey,
    list: async () => (await send('GET', '/public/keys')).json().keys as ListedKey[],
    audit: async (query = '') => (await send('GET', `/public/audit${query}`)).json(),
  }
}

function isRefused(t: Test, response: LightMyRequestResponse, status: number, code: string, message?: RegExp): void {
  t.equal(response.statusCode, status, response.body)
  t.equal(response.json().code, code)
  if (message) t.match(response.json().error, message)
}

/** Creates a project with a secret key, as the command does. */
async function addProject(client: Client, projectId: string, kind: KeyKind = 'secret'): Promise<string> {
  const key = makeKey(kind)
  const { clickhouse, close } = await openStore(client.config)
  await insertKeys(clickhouse, [storedKey(key, { projectId, kind })], Date.now())
  await close()
  await until('the key', async () => (await callsWith(client, key).send('GET', '/public/key')).statusCode !== 401)
  return key
}

t.test('keys by the API', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const options = { keysRefreshMs: 500, keyUsageMs: 500 }
  const client = await startApp(t, env, options)
  const other = await startApp(t, env, options)
  const secret = await addProject(client, 'shop')
  const calls = callsWith(client, secret)
  const track = ({ app }: Client, apiKey: string, origin = 'https://shop.example') =>
    app.inject({
      method: 'POST',
      url: '/public/track',
      payload: { apiKey, event: 'e', distinct_id: 'u' },
      headers: { origin },
    })
  const waitForStatus = (client: Client, key: string, status: number, origin?: string) =>
    until(`a ${status}`, async () => (await track(client, key, origin)).statusCode === status)

  t.test('a new key is shown once, works immediately, and is in the list', async (t) => {
    const body = { kind: 'write', label: ' Shop ', origins: ['https://shop.example'], events_only: true }
    const response = await calls.send('POST', '/public/keys', body)
    t.equal(response.statusCode, 200, response.body)
    t.equal(response.headers['cache-control'], 'no-store')
    const { apiKey, key } = response.json() as CreatedKey
    t.match(apiKey, /^wk_[\w-]{43}$/)
    t.equal((await track(client, apiKey)).statusCode, 200)
    t.equal((await track(client, apiKey, 'https://other.example')).statusCode, 403)
    await waitForStatus(other, apiKey, 200)
    const listed = (await calls.list()).find(({ id }) => id === key.id)
    t.match(listed, { ...body, label: 'Shop', source: 'store', state: 'valid', revoked_at: null, current: false })
    t.ok(apiKey.startsWith(key.id))
    t.notMatch((await calls.send('GET', '/public/keys')).body, WHOLE_KEY)
    t.notMatch((await calls.send('GET', '/public/audit')).body, WHOLE_KEY)
    t.equal((await calls.list()).filter(({ current }) => current).length, 1, 'the key of the call')
  })

  t.test('changed limits apply in every process, and absent or null ones stay', async (t) => {
    const { apiKey, key } = await calls.create({ kind: 'write', origins: ['https://shop.example'] })
    const patch = (body: Body) => calls.send('PATCH', `/public/keys/${key.id}`, body)
    const renamed = await patch({ label: 'Renamed', origins: null })
    t.match(renamed.json().key, { label: 'Renamed', origins: ['https://shop.example'], events_only: false })
    await patch({ origins: ['https://b.example', 'https://a.example', 'https://b.example'], events_only: true })
    t.equal((await track(client, apiKey)).statusCode, 403)
    t.equal((await track(client, apiKey, 'https://a.example')).statusCode, 200)
    await waitForStatus(other, apiKey, 200, 'https://b.example')
    await waitForStatus(other, apiKey, 403)
    t.match(
      (await calls.list()).find(({ id }) => id === key.id),
      {
        label: 'Renamed',
        origins: ['https://a.example', 'https://b.example'],
        events_only: true,
      },
    )
    const before = (await calls.audit()).entries.length
    t.equal((await patch({ label: 'Renamed' })).statusCode, 200)
    t.equal((await calls.audit()).entries.length, before, 'a call without effect is not a change')
    t.match((await patch({ label: '', origins: [] })).json().key, { label: '', origins: [] })
  })

  t.test('a rotation leaves the old key valid for a time, and gives its limits to the new one', async (t) => {
    const limits = { label: 'Site', origins: ['https://shop.example'], events_only: true }
    const { apiKey, key } = await calls.create({ kind: 'write', ...limits })
    const rotate = (id: string, body: Body = {}) => calls.send('POST', `/public/keys/${id}/rotate`, body)
    const rotated = (await rotate(key.id)).json() as RotatedKey
    t.match(rotated.key, { kind: 'write', ...limits, state: 'valid' })
    t.match(rotated.replaced, { id: key.id, state: 'ending' })
    t.ok(Math.abs((rotated.replaced.revoked_at ?? 0) - Date.now() - DAY_MS) < 60_000, 'for a day, if nothing is said')
    for (const text of [apiKey, rotated.apiKey]) t.equal((await track(client, text)).statusCode, 200)
    const again = (await rotate(key.id, { grace: '0' })).json() as RotatedKey
    t.equal(again.replaced.state, 'revoked')
    t.equal((await track(client, apiKey)).statusCode, 401)
    for (const text of [rotated.apiKey, again.apiKey]) await waitForStatus(other, text, 200)
    await waitForStatus(other, apiKey, 401)
    isRefused(t, await rotate(key.id), 404, 'not_found')
    for (const grace of ['1w', '-1h', '366d', '', '999999999d'])
      isRefused(t, await rotate(again.key.id, { grace }), 400, 'invalid_request', /^\/grace must be a duration/)
  })

  t.test('a revoked key is invalid in every process; revoking it again finds no key', async (t) => {
    const { apiKey, key } = await calls.create({ kind: 'read' })
    const read = (client: Client) => callsWith(client, apiKey).send('GET', '/public/users')
    await until('the other process', async () => (await read(other)).statusCode === 200)
    t.equal((await calls.send('DELETE', `/public/keys/${key.id}`)).statusCode, 200)
    t.equal((await read(client)).statusCode, 401)
    await until('the other process', async () => (await read(other)).statusCode === 401)
    for (const method of ['DELETE', 'PATCH'] as const) {
      const body = method === 'PATCH' ? { label: 'x' } : undefined
      isRefused(t, await calls.send(method, `/public/keys/${key.id}`, body), 404, 'not_found')
    }
    t.equal((await calls.list()).find(({ id }) => id === key.id)?.state, 'revoked')
  })

  t.test('the last secret key is not revoked, but can be rotated away', async (t) => {
    const alone = await addProject(client, 'alone')
    const mine = callsWith(client, alone)
    const id = alone.slice(0, 11)
    isRefused(t, await mine.send('DELETE', `/public/keys/${id}`), 409, 'key_conflict', /last secret key/)
    const { apiKey, key } = await mine.create({ kind: 'secret' })
    await mine.send('POST', `/public/keys/${id}/rotate`, { grace: '1h' })
    t.equal((await mine.send('DELETE', `/public/keys/${key.id}`)).statusCode, 200)
    t.equal((await callsWith(client, apiKey).send('GET', '/public/keys')).statusCode, 401)
    const left = (await mine.list()).find(({ kind, state }) => kind === 'secret' && state === 'valid')
    const refused = await mine.send('DELETE', `/public/keys/${left?.id}`)
    isRefused(t, refused, 409, 'key_conflict', /last secret key/)
  })

  t.test('keys of the environment are listed, and no call changes them', async (t) => {
    const mine = callsWith(client, SECRET_KEY)
    const listed = await mine.list()
    const environment = { source: 'environment', created_at: null, state: 'valid' }
    t.match(
      listed.find(({ id }) => id === 'SECRET_KEY'),
      { kind: 'secret', current: true, ...environment },
    )
    t.match(
      listed.find(({ id }) => id === 'PUBLIC_API_KEY'),
      { kind: 'public', current: false, ...environment },
    )
    t.notMatch(JSON.stringify(listed), PUBLIC_KEY)
    const tries: [NonNullable<InjectOptions['method']>, string, Body?][] = [
      ['DELETE', ''],
      ['PATCH', '', { label: 'x' }],
      ['POST', '/rotate', {}],
    ]
    for (const [method, path, body] of tries) {
      const refused = await mine.send(method, `/public/keys/SECRET_KEY${path}`, body)
      isRefused(t, refused, 409, 'key_conflict', /^SECRET_KEY is set in the environment/)
    }
    t.notMatch(JSON.stringify(await calls.list()), /SECRET_KEY/, 'another project does not have them')
    isRefused(t, await calls.send('DELETE', '/public/keys/SECRET_KEY'), 404, 'not_found')
  })

  t.test('another project finds, changes and sees none of them', async (t) => {
    const { key } = await calls.create({ kind: 'secret', label: 'of the shop' })
    const theirs = callsWith(client, await addProject(client, 'theirs'))
    const tries: [NonNullable<InjectOptions['method']>, string, Body?][] = [
      ['DELETE', ''],
      ['PATCH', '', { label: 'x' }],
      ['POST', '/rotate', {}],
    ]
    for (const [method, path, body] of tries) {
      const there = await theirs.send(method, `/public/keys/${key.id}${path}`, body)
      const nowhere = await theirs.send(method, `/public/keys/sk_nowhere1${path}`, body)
      isRefused(t, there, 404, 'not_found')
      t.equal(there.body, nowhere.body, 'not even its existence')
    }
    t.equal((await theirs.list()).length, 1)
    t.strictSame((await theirs.audit()).entries, [])
  })

  t.test('fields that a key cannot have are refused by name', async (t) => {
    const bad: [Body, string][] = [
      [{}, '/kind'],
      [{ kind: 'admin' }, '/kind'],
      [{ kind: 'secret', label: 'x'.repeat(101) }, '/label'],
      [{ kind: 'secret', label: 'a\u001b[2Jb' }, '/label'],
      [{ kind: 'secret', label: '\ud800' }, '/label'],
      [{ kind: 'secret', label: 1 }, '/label'],
      [{ kind: 'secret', origins: ['https://shop.example'] }, '/origins'],
      [{ kind: 'write', origins: ['https://shop.example', 'shop.example'] }, '/origins/1'],
      [{ kind: 'write', origins: ['https://*.example'] }, '/origins/0'],
      [{ kind: 'write', origins: Array.from({ length: 51 }, (_, i) => `https://${i}.example`) }, '/origins'],
      [{ kind: 'public', events_only: true }, '/events_only'],
      [{ kind: 'write', events_only: 'yes' }, '/events_only'],
      [{ kind: 'write', event_only: true }, '/event_only'],
      [{ kind: 'write', origin: 'https://shop.example' }, '/origin'],
    ]
    const before = await calls.list()
    for (const [body, path] of bad) {
      const response = await calls.send('POST', '/public/keys', body)
      isRefused(t, response, 400, 'invalid_request')
      t.equal(response.json().details[0].path, path, JSON.stringify(body))
    }
    t.strictSame(
      (await calls.list()).map(({ id }) => id),
      before.map(({ id }) => id),
    )
    const { key } = await calls.create({ kind: 'write' })
    const mistyped: ['POST' | 'PATCH', string, Body, string][] = [
      ['POST', `/${key.id}/rotate`, { grace_ms: 0 }, '/grace_ms'],
      ['POST', `/${key.id}/rotate?grace=0`, {}, '/grace'],
      ['PATCH', `/${key.id}`, { event_only: true }, '/event_only'],
      ['PATCH', `/${key.id}?events_only=true`, {}, '/events_only'],
      ['POST', '?events_only=true', { kind: 'write' }, '/events_only'],
    ]
    for (const [method, path, body, field] of mistyped) {
      const response = await calls.send(method, `/public/keys${path}`, body)
      isRefused(t, response, 400, 'invalid_request')
      t.match(response.json().details, [{ path: field, message: /^is unknown/ }], `${method} ${path}`)
    }
    const label = '🔑'.repeat(100)
    t.equal((await calls.create({ kind: 'read', label })).key.label, label, 'characters are counted, not their units')
  })

  t.test('only a secret key, or a sign-in with one from the page, may see and change keys', async (t) => {
    for (const kind of ['read', 'write', 'public'] as const) {
      const { apiKey } = await calls.create({ kind })
      const mine = callsWith(client, apiKey)
      for (const path of ['keys', 'audit'])
        isRefused(t, await mine.send('GET', `/public/${path}`), 403, 'wrong_key_kind')
      isRefused(t, await mine.send('POST', '/public/keys', { kind: 'secret' }), 403, 'wrong_key_kind')
    }
    const signedIn = await calls.send('POST', '/session', {})
    const cookie = String(signedIn.headers['set-cookie']).split(';')[0] ?? ''
    const page = callsWith(client, '', cookie)
    t.equal((await page.list()).find(({ current }) => current)?.id, secret.slice(0, 11))
    isRefused(t, await page.send('POST', '/public/keys', { kind: 'secret' }), 403, 'invalid_csrf_token')
    const csrf = { 'x-csrf-token': signedIn.json().session.csrf_token }
    const created = await page.send('POST', '/public/keys', { kind: 'read', label: 'by the page' }, csrf)
    t.equal(created.statusCode, 200, created.body)
  })

  t.test('the audit log shows who changed what, newest first', async (t) => {
    const mine = callsWith(client, await addProject(client, 'audited'))
    const { apiKey, key } = await mine.create({ kind: 'secret', label: 'Laptop' })
    const laptop = callsWith(client, apiKey)
    const site = await laptop.create({ kind: 'write', origins: ['https://a.example'] })
    await laptop.send('PATCH', `/public/keys/${site.key.id}`, { label: 'Site', origins: [] })
    await laptop.send('POST', `/public/keys/${site.key.id}/rotate`, { grace: '1h' })
    await laptop.send('DELETE', `/public/keys/${site.key.id}`)
    const { entries } = (await mine.audit()) as { entries: AuditLogEntry[] }
    t.match(
      entries.filter(({ action }) => action !== 'key_created'),
      [
        { action: 'key_revoked', target: { id: site.key.id, label: 'Site' }, changes: {} },
        { action: 'key_rotated', changes: { grace_ms: { from: null, to: 3_600_000 } } },
        {
          action: 'key_changed',
          actor: { type: 'key', id: key.id, label: 'Laptop' },
          target: { id: site.key.id, label: '' },
          changes: { label: { from: '', to: 'Site' }, origins: { from: ['https://a.example'], to: [] } },
        },
      ],
    )
    t.match(entries.at(-1), {
      action: 'key_created',
      target: { id: key.id, label: 'Laptop' },
      changes: { kind: { from: null, to: 'secret' }, label: { from: null, to: 'Laptop' } },
    })
    const pages = [await mine.audit('?limit=3'), await mine.audit('?limit=3&page=2')]
    t.strictSame([...pages[0].entries, ...pages[1].entries], entries)
    t.strictSame([pages[0].hasMore, pages[1].hasMore], [true, false])
  })

  t.test('the day of the last use and the refused requests are stored', async (t) => {
    const { apiKey, key } = await calls.create({ kind: 'write', origins: ['https://shop.example'] })
    const found = async () => (await calls.list()).find(({ id }) => id === key.id)
    t.match(await found(), { last_used: null, refused: 0, last_refused: null })
    for (let i = 0; i < 3; i++) await track(client, apiKey, 'https://other.example')
    await until('the refusals', async () => (await found())?.refused === 3)
    t.equal((await found())?.last_used, null, 'a refused request is no use')
    await waitForStatus(other, apiKey, 200)
    const day = await until('the use', async () => (await found())?.last_used)
    t.ok(Math.abs(Date.parse(day) - Date.now()) < 2 * DAY_MS, day)
    t.equal((await found())?.last_refused, day)
    await callsWith(other, apiKey).send('GET', '/public/users')
    await until('the sum of both processes', async () => (await found())?.refused === 4)
    const environment = callsWith(client, SECRET_KEY)
    await until('the use of a key of the environment', async () =>
      (await environment.list()).some(({ id, last_used }) => id === 'SECRET_KEY' && last_used !== null),
    )
  })

  t.test('a project cannot fill the memory with keys', async (t) => {
    const mine = callsWith(client, await addProject(client, 'full'))
    const { clickhouse, close } = await openStore(client.config)
    const many = Array.from({ length: MAX_KEYS - 1 }, () =>
      storedKey(makeKey('read'), { projectId: 'full', kind: 'read' }),
    )
    await insertKeys(clickhouse, many, Date.now())
    await revokeKeys(clickhouse, many)
    await close()
    isRefused(t, await mine.send('POST', '/public/keys', { kind: 'read' }), 409, 'key_conflict', /at most 200 keys/)
  })
})

t.test('if two changes read the same key, the earlier end wins', async (t) => {
  const { clickhouse, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const store = openKeyStore(clickhouse)
  const make = async (): Promise<string> => {
    const key = storedKey(makeKey('read'), { projectId: 'p', kind: 'read', label: 'before' })
    await insertKeys(clickhouse, [key], Date.now())
    return key.id
  }
  const find = async (wanted: string) => {
    const key = (await listKeys(clickhouse, 'p')).find(({ id }) => id === wanted)
    if (!key) throw new Error('the key is gone')
    return key
  }
  for (let i = 0; i < 4; i++) {
    const key = await find(await make())
    await Promise.all([
      store.change(key, { label: 'after' }),
      store.revoke([key], 0),
      store.revoke([key], DAY_MS),
      store.change(key, { label: 'later' }),
    ])
    t.equal((await find(key.id)).isValid, false)
  }
  for (let i = 0; i < 4; i++) {
    const key = await find(await make())
    const fields = { label: 'after', origins: ['https://a.example'], eventsOnly: true }
    const { label, origins, eventsOnly } = fields
    await Promise.all([{ label }, { origins }, { eventsOnly }].map((one) => store.change(key, one)))
    t.match(await find(key.id), fields, 'changes of different fields are all made')
    await store.revoke([key], 0)
  }
  const ending = await find(await make())
  await store.revoke([ending], DAY_MS)
  await store.change(ending, { label: 'while it ends' })
  await store.change(ending, { label: 'and again' })
  t.match(await find(ending.id), { label: 'and again', isValid: true })
  await store.revoke([ending], 0)
  await store.change(ending, { label: 'after its end' })
  t.match(await find(ending.id), { label: 'after its end', isValid: false })
  const limited = await make()
  const before = await find(limited)
  await store.change(before, { eventsOnly: true })
  await new KeyChanges(store, COMMAND_LINE).change(before, { label: 'as it was read before' })
  t.match(
    await find(limited),
    { label: 'as it was read before', eventsOnly: true },
    'a limit that was set meanwhile stays',
  )
  await store.revoke([before], 0)
  t.strictSame(
    (await readKeys(clickhouse)).filter(({ projectId }) => projectId === 'p'),
    [],
  )
})

t.test('the last two secret keys are not revoked by two calls at once', async (t) => {
  const { clickhouse, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const store = openKeyStore(clickhouse)
  const projectId = 'two keys'
  const made = Array.from({ length: 2 }, () => storedKey(makeKey('secret'), { projectId, kind: 'secret' }))
  await insertKeys(clickhouse, made, Date.now())
  const keys = await listKeys(clickhouse, projectId)
  // Both have checked that the other key is left before either revokes one.
  let checked = 0
  let proceed = () => {}
  const bothChecked = new Promise<void>((resolve) => {
    proceed = resolve
  })
  const revoke: typeof store.revoke = async (...args) => {
    checked++
    if (checked === keys.length) proceed()
    await bothChecked
    await store.revoke(...args)
  }
  const changes = new KeyChanges({ ...store, revoke }, COMMAND_LINE)
  const results = await Promise.allSettled(keys.map((key) => changes.revoke([key])))
  const refusals = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  t.match(refusals, [{ code: 'key_conflict', message: /is the last secret key/ }])
  t.equal((await listKeys(clickhouse, projectId)).filter(({ isValid }) => isValid).length, 1)
})

t.test('the first of several shards has the keys, and calls say so if it is down', async (t) => {
  const nodes = await startNodes(t, 2)
  const settings = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, DATA_DIR: await dataFolder(t), LOG_LEVEL: 'silent' }
  const env = { ...settings, CLICKHOUSE_URL: shardsUrl(nodes), LANES: '2', FACTS: 'off' }
  const client = await startApp(t, env, { keyUsageMs: 500 })
  const calls = callsWith(client, SECRET_KEY)
  const { apiKey, key } = await calls.create({ kind: 'read', label: 'Shards' })
  t.equal((await callsWith(client, apiKey).send('GET', '/public/events')).statusCode, 200)
  await until('the use', async () => (await calls.list()).some(({ id, last_used }) => id === key.id && last_used))
  t.match((await calls.audit()).entries, [{ action: 'key_created', target: { id: key.id } }])
  await nodes[0]?.stop()
  const refused = await calls.send('PATCH', `/public/keys/${key.id}`, { label: 'Down' })
  isRefused(t, refused, 503, 'unavailable', new RegExp(`${new URL(nodes[0]?.url ?? '').host}`))
  isRefused(t, await calls.send('GET', '/public/keys'), 503, 'unavailable')
  await nodes[0]?.start()
  await until('the first shard', async () => (await calls.send('GET', '/public/keys')).statusCode === 200)
  t.equal((await calls.list()).find(({ id }) => id === key.id)?.label, 'Shards')
})
