import { PUBLIC_KEY, SECRET_KEY } from '../helper.js'

/** Calls the service. @returns the text of the response @throws Error unless the status is 200 */
export type Call = (method: string, path: string, body?: string | object, headers?: object) => Promise<string>

/** A call with the secret key, if the headers have no other. */
export interface Request {
  method: string
  path: string
  body?: string
  headers?: Record<string, string>
}

/**
 * A store contains data of each kind in three states: copied into facts, stored but not copied, and only in the
 * journals.
 */
export const MONTH = { from: '2026-03-01', to: '2026-04-01' }
const MONDAY_MS = Date.UTC(2026, 2, 2)
const HOUR_MS = 3_600_000
/** JSON that would change if it were parsed and formatted. */
const EXACT = '{"n":1.0,"big":123456789012345678901234567890,"a":{"b":[1e400,"\\u00e9"]},"plan":"pro"}'
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'

/** Requests with an `Idempotency-Key` or `insert_id`s. Sending them again stores nothing. */
const SINGLE = {
  method: 'POST',
  path: '/public/track',
  body: `{"event":"paid","distinct_id":"ada","timestamp":${MONDAY_MS + HOUR_MS},"properties":${EXACT}}`,
  headers: { 'idempotency-key': 'single' },
}
const BATCH = {
  method: 'POST',
  path: '/public/track/batch',
  body: `{"events":[${Array.from({ length: 40 }, (_, i) => event('with id', i, `,"insert_id":"i-${i}"`)).join()}]}`,
  headers: {},
}
const WAITING = {
  method: 'POST',
  path: '/public/track/batch',
  body: `{"events":[${Array.from({ length: 20 }, (_, i) => event('waits', i, `,"insert_id":"w-${i}"`)).join()}]}`,
  headers: { 'idempotency-key': 'waiting' },
}
export const REPEATABLE: Request[] = [SINGLE, BATCH, WAITING]

function event(name: string, i: number, more = ''): string {
  const user = ['ada', 'bob', 'cy', 'dot'][Math.floor(i / 2) % 4]
  const properties = `{"i":${i},"plan":"${i % 3 ? 'free' : 'pro'}","price":${i}.50,"nested":{"k":"v${i % 5}"}}`
  return `{"event":"${name}","distinct_id":"${user}","timestamp":${MONDAY_MS + i * HOUR_MS},"properties":${properties}${more}}`
}

/** Fills an empty store with everything that clients of the API can store. */
export async function fill(call: Call): Promise<void> {
  for (const { path, body, headers } of [SINGLE, BATCH]) await call('POST', path, body, headers)
  const lines = Array.from({ length: 200 }, (_, i) => event(i % 2 ? 'signed up' : 'viewed', i))
  await call('POST', '/public/import', lines.join('\n'), { 'content-type': 'application/x-ndjson' })
  await addPeople(call)
  await addVisits(call)
  await addSettings(call)
  const authorization = `Basic ${Buffer.from(`${SECRET_KEY}:`).toString('base64')}`
  await call('POST', '/segment/v1/batch', { batch: [{ type: 'track', userId: 'ada', event: '' }] }, { authorization })
  await change(call)
}

async function addPeople(call: Call): Promise<void> {
  await call('POST', '/public/users/identify', `{"distinct_id":"ada","properties":${EXACT}}`)
  const operations = { $set: { name: 'Bob' }, $add: { visits: 2 }, $append: { tags: 'a' }, $set_once: { first: 1 } }
  await call('POST', '/public/users/profile', { distinct_id: 'bob', operations })
  await call('POST', '/public/users/profile', { distinct_id: 'bob', operations: { $unset: ['first'] } })
  await call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'visitor-1' })
  await call('POST', '/public/users/alias', { distinct_id: 'dot', alias: 'visitor-2' })
  const past = { distinct_id: 'cy', operations: { $set: { plan: 'trial' } }, timestamp: MONDAY_MS, insert_id: 'past' }
  await call('POST', '/public/users/batch', { changes: [past] })
}

async function addVisits(call: Call): Promise<void> {
  const { apiKey } = JSON.parse(await call('POST', '/public/keys', { kind: 'write', label: 'Pages' }))
  const page = { 'x-api-key': apiKey, 'user-agent': FIREFOX, 'accept-language': 'de-AT' }
  const viewed = { event: '$pageview', timestamp: MONDAY_MS }
  for (const path of ['/', '/prices', '/shop']) {
    const properties = { url: `https://example.com${path}?utm_source=letter`, title: path }
    await call('POST', '/public/track', { ...viewed, distinct_id: 'p', session_id: 's-1', properties }, page)
  }
  await call('POST', '/public/track?visitor=daily', { ...viewed, properties: {} }, page)
  const session = { distinct_id: 'ada', session_id: 's-1' }
  const visitor = { 'x-api-key': PUBLIC_KEY, 'user-agent': FIREFOX }
  await call('POST', '/public/sessions/start', { ...session, properties: { from: 'letter' } }, visitor)
  await call('POST', '/public/sessions/update', { ...session, duration: 12 }, visitor)
  await call('POST', '/public/sessions/end', { ...session, duration: 34 }, visitor)
  await call('POST', '/public/sessions/start', { ...session, session_id: 's-2' }, visitor)
}

async function addSettings(call: Call): Promise<void> {
  await call('PATCH', '/public/project', {
    ...{ name: 'Shop', timezone: 'Europe/Vienna', week_start: 'sunday', currency: 'EUR', sessions: { gap: '45m' } },
    keep: { events: '90y', sessions: '90y', profiles: '90y' },
    quotas: { events_per_month: { limit: 1_000_000, mode: 'hard' } },
  })
  const question = { kind: 'series', series: [{ event: 'signed up' }], ...MONTH }
  await call('PUT', '/public/questions/sign-ups', {
    name: 'Sign-ups',
    question,
    display: { chart: 'bar' },
    revision: 0,
  })
  const card = { id: 'a', name: 'Sign-ups', question: { saved: 'sign-ups' }, width: 2 }
  await call('PUT', '/public/boards/overview', { name: 'Overview', cards: [card] })
  await call('PUT', '/public/boards/gone', { name: 'Gone', cards: [] })
  await call('DELETE', '/public/boards/gone')
}

/** Changes stored data: an edit, a deletion, an erased user and a deleted profile. */
async function change(call: Call): Promise<void> {
  await call('POST', '/public/track/batch', {
    events: [event('erased', 4, ''), event('viewed', 5)].map((text) => ({ ...JSON.parse(text), distinct_id: 'eve' })),
  })
  await call('POST', '/public/users/identify', { distinct_id: 'eve', properties: { name: 'Eve' } })
  await call('POST', '/public/users/identify', { distinct_id: 'fay', properties: { name: 'Fay' } })
  const { events } = JSON.parse(await call('GET', '/public/events?event=viewed&limit=3'))
  const [edited, deleted] = events
  await call('PUT', `/public/events/${edited.eventId}`, `{"properties":${EXACT}}`)
  await call('DELETE', `/public/events/${deleted.eventId}`)
  await call('POST', '/public/users/erase', { distinct_ids: ['eve'] })
  await call('DELETE', '/public/users/fay')
}

/** Adds events after the facts were complete. */
export async function addUncopied(call: Call): Promise<void> {
  const events = Array.from({ length: 30 }, (_, i) => event(i % 2 ? 'signed up' : 'not copied', 200 + i))
  await call('POST', '/public/track/batch', `{"events":[${events.join()}]}`)
}

/**
 * Adds entries that wait in the journals. This does not need ClickHouse, because the profile and the session changed
 * recently.
 */
export async function addWaiting(call: Call): Promise<void> {
  await call('POST', WAITING.path, WAITING.body, WAITING.headers)
  for (let i = 0; i < 5; i++) await call('POST', '/public/track', event('waits alone', i))
  await call('POST', '/public/users/profile', { distinct_id: 'bob', operations: { $add: { visits: 1 } } })
  const session = { distinct_id: 'ada', session_id: 's-2', duration: 5 }
  await call('POST', '/public/sessions/update', session, { 'x-api-key': PUBLIC_KEY })
}
