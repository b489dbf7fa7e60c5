import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request as send } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { isTimestamp } from '../../src/contract/limits.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { formatProperties, parseProperties } from '../../src/model/properties.js'
import { PUBLIC_KEY, SECRET_KEY, type Service } from '../helper.js'
import { type Request, rawRequest, request } from './requests.js'
import { name, numberText, objectText, spell, style } from './texts.js'

/**
 * Properties of a service that must hold for all requests. Each can be checked for a moment in a test, or for hours.
 */
export type Property = fc.IAsyncPropertyWithHooks<[never] | unknown[]>

/** Far more than a property takes. If it takes longer, it hangs, or shrinks a counterexample by less and less. */
export const LIMIT = { interruptAfterTimeLimit: 90_000, markInterruptAsFailure: true }

interface Answer {
  status: number
  headers: NodeJS.Dict<string | string[]>
  body: Buffer
}

const ANSWER_LIMIT_MS = 60_000
const RAW_LIMIT_MS = 5_000
/** The errors that a request may get, without `internal`. */
const CODES: Record<number, string[]> = {
  400: ['invalid_json', 'invalid_request', 'too_many_events', 'not_numeric', 'not_array'],
  401: ['unauthorized'],
  403: ['wrong_key_kind'],
  404: ['not_found'],
  406: ['not_acceptable'],
  409: ['session_ended', 'session_owner_mismatch', 'idempotency_conflict'],
  413: ['payload_too_large'],
  415: ['unsupported_media_type'],
}

/** A service under test, and how many events it has accepted. */
export class Target {
  readonly service: Service
  readonly #agent = new Agent({ keepAlive: true })
  accepted = 0

  constructor(service: Service) {
    this.service = service
  }

  async call({ method, path, headers, body }: Request): Promise<Answer> {
    const url = new URL(this.service.url)
    const asked = send({
      method,
      path,
      // Node leaves the length out for some methods; the service then reads the body as the next request, and hangs up.
      headers: { ...headers, ...(body && { 'content-length': body.length }) },
      host: url.hostname,
      port: url.port,
      agent: this.#agent,
      timeout: ANSWER_LIMIT_MS,
    })
    // After the response has begun, an error belongs to the response, but may be reported here, too.
    asked.on('error', () => undefined)
    asked.on('timeout', () => asked.destroy(new Error(`no answer within ${ANSWER_LIMIT_MS} ms`)))
    asked.end(body ?? undefined)
    const [response] = await once(asked, 'response')
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk)
    return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }
  }

  /** A good call with the secret key, or with the public one for a session. */
  async ask(method: string, path: string, body?: string): Promise<Answer> {
    const isOfBrowser = method === 'POST' && path.startsWith('/public/sessions/')
    const headers = {
      'x-api-key': isOfBrowser ? PUBLIC_KEY : SECRET_KEY,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    return await this.call({ method, path, headers, body: body === undefined ? null : Buffer.from(body) })
  }

  /** Sends bytes, and waits until the other end responds or hangs up. */
  async raw(bytes: Buffer): Promise<Buffer> {
    const url = new URL(this.service.url)
    const socket = connect(Number(url.port), url.hostname)
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', () => undefined)
    // Some of these requests are never complete; they end with the input.
    socket.end(bytes)
    const limit = setTimeout(() => socket.destroy(), RAW_LIMIT_MS)
    await once(socket, 'close')
    clearTimeout(limit)
    return Buffer.concat(chunks)
  }

  close(): void {
    this.#agent.destroy()
  }
}

/** Checks that a response follows the contract, and reveals nothing. */
function checkAnswer({ method, path }: Request, { status, headers, body }: Answer): void {
  const said = body.toString()
  assert(status < 500, `${status}: ${said}`)
  assert(!said.includes(SECRET_KEY), 'it holds a key')
  assert.equal(headers['x-injected'], undefined, 'a header was injected')
  if (method === 'HEAD' || status === 204) return
  const type = String(headers['content-type'])
  if (status === 200 && path.startsWith('/public/') && !type.startsWith('application/json')) return
  const answer = JSON.parse(said)
  if (status < 400) {
    assert.equal(answer.status, 1)
    assert.equal(answer.error, null)
    return
  }
  assert.deepEqual([answer.status, typeof answer.error], [0, 'string'])
  assert(CODES[status]?.includes(answer.code), `${status} ${answer.code}`)
  assert(!/ {4}at |node_modules|\.js:\d|FROM events/.test(answer.error), `it reveals internals: ${answer.error}`)
}

/** Every request gets a response that follows the contract, and accepted events are counted. */
function answers(target: Target): Property {
  return fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 20 }), async (requests) => {
    const answers = await Promise.all(requests.map((given) => target.call(given)))
    for (const [i, given] of requests.entries()) {
      const answer = answers[i]
      assert(answer)
      checkAnswer(given, answer)
      if (answer.status !== 200 || given.method !== 'POST' || !given.path.startsWith('/public/track')) continue
      target.accepted += Number(JSON.parse(answer.body.toString()).accepted ?? 1)
    }
  })
}

/** Bytes that are not a request do no harm. */
function survives(target: Target): Property {
  return fc.asyncProperty(rawRequest, async (bytes) => {
    const answer = (await target.raw(bytes)).toString('latin1')
    if (answer !== '') assert.match(answer, /^HTTP\/1\.1 [1-4]\d\d /)
    assert(!/^x-injected:/im.test(answer.split('\r\n\r\n')[0] ?? ''), 'a header was injected')
    assert.equal((await target.ask('GET', '/health/live')).status, 200)
  })
}

const events = fc.array(
  fc.record({
    event: name,
    properties: fc.option(objectText),
    timestamp: fc.option(numberText.filter((given) => isTimestamp(Number(given)))),
    gap: fc.constantFrom('', ' ', '\n'),
  }),
  { minLength: 1, maxLength: 20 },
)
let users = 0

/** An accepted event is returned as it was sent, alone or in a batch, before and after an edit. */
function keepsEvents(target: Target): Property {
  const given = fc.record({ base: name, how: style, all: events, edit: fc.option(objectText) })
  return fc.asyncProperty(given, async ({ base, how, all, edit }) => {
    const user = `${base}-${process.pid}-${++users}`
    const texts = all.map(({ event, properties, timestamp, gap }) => {
      const members = [`"event":${spell(event, how)}`, `"distinct_id":${spell(user, how)}`]
      if (properties !== null) members.push(`"properties":${gap}${properties}`)
      if (timestamp !== null) members.push(`"timestamp":${timestamp}`)
      return `{${gap}${members.join(`,${gap}`)}${gap}}`
    })
    const [only = ''] = texts
    const isAlone = texts.length === 1
    const sent = isAlone
      ? await target.ask('POST', '/public/track', only)
      : await target.ask('POST', '/public/track/batch', `{"events":[${texts.join()}]}`)
    assert.equal(sent.status, 200, sent.body.toString())
    target.accepted += texts.length
    const wanted = all.map(({ event, properties, timestamp }) => ({ event, properties: properties ?? '{}', timestamp }))
    const [first] = wanted
    if (isAlone && first && edit !== null) {
      const edited = await target.ask('PUT', `/public/events/${sent.headers['x-event-id']}`, `{"properties":${edit}}`)
      assert.equal(edited.status, 200, edited.body.toString())
      first.properties = edit
    }
    const read = await target.ask('GET', `/public/events?limit=1000&distinct_id=${encodeURIComponent(user)}`)
    assert.equal(read.status, 200, read.body.toString())
    const text = read.body.toString()
    const list = memberText(text, 'events') ?? ''
    const found = elementTexts(list)
    assert.equal(found.length, wanted.length, 'each event is stored, once')
    for (const [i, row] of found.entries()) {
      const { event, properties, timestamp } = wanted[i] ?? {}
      assert.equal(memberText(row, 'properties'), properties)
      assert.deepEqual([JSON.parse(row).event, JSON.parse(row).distinct_id], [event, user])
      if (timestamp !== null) assert(JSON.parse(row).timestamp === Number(timestamp), `${timestamp} became ${row}`)
    }
  })
}

/** A profile and a session have the properties that were sent, `__proto__` included, and no others. */
function keepsStates(target: Target): Property {
  return fc.asyncProperty(fc.tuple(name, objectText), async ([base, properties]) => {
    const id = `${base}-${process.pid}-${++users}`
    const own = JSON.stringify(id)
    const wanted = formatProperties(parseProperties(properties))
    const checked = async (method: string, path: string, body?: string): Promise<string> => {
      const { status, body: answer } = await target.ask(method, path, body)
      assert.equal(status, 200, answer.toString())
      return answer.toString()
    }
    const path = encodeURIComponent(id)
    await checked('POST', '/public/users/identify', `{"distinct_id":${own},"properties":${properties}}`)
    const user = memberText(await checked('GET', `/public/users/${path}`), 'user') ?? ''
    assert.equal(memberText(user, 'properties'), wanted)
    assert.equal(JSON.parse(user).distinct_id, id)

    await checked(
      'POST',
      '/public/sessions/start',
      `{"distinct_id":${own},"session_id":${own},"properties":${properties}}`,
    )
    const session = memberText(await checked('GET', `/public/sessions/${path}`), 'session') ?? ''
    assert.equal(memberText(session, 'properties'), wanted)

    const other = JSON.stringify(`${id}-other`)
    await checked('POST', '/public/users/identify', `{"distinct_id":${other}}`)
    const empty = memberText(await checked('GET', `/public/users/${path}-other`), 'user') ?? ''
    assert.equal(memberText(empty, 'properties'), '{}')
    const noKey: Request = {
      method: 'POST',
      path: '/public/track',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from('{}'),
    }
    assert.equal((await target.call(noKey)).status, 401)
  })
}

export const PROPERTIES: Record<string, (target: Target) => Property> = {
  'any request is answered as the contract has it': answers,
  'bytes that are no request harm nobody': survives,
  'an accepted event is returned as it was sent': keepsEvents,
  'profiles and sessions hold what they were given': keepsStates,
}

/** Checks at the end that the process is alive, and that everything accepted is there. */
export async function checkAll(target: Target): Promise<void> {
  assert.equal(target.service.process.exitCode, null, `the service ended: ${target.service.output()}`)
  let count = 0
  let cursor = ''
  for (;;) {
    const { status, body } = await target.ask('GET', `/public/events?limit=10000${cursor}`)
    assert.equal(status, 200, body.toString())
    const { events, next, pending } = JSON.parse(body.toString())
    assert.equal(pending, 0)
    count += events.length
    if (next === null) break
    cursor = `&cursor=${next}`
  }
  assert.equal(count, target.accepted, 'accepted events are stored, and no others')
}
