import type { LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { type Client, randomName, type StoredEvent } from '../helper.js'

export const DONE = '{"status":1,"error":null}'

export interface Page {
  events: StoredEvent[]
  page: number
  limit: number
  hasMore: boolean
  next: string | null
  pending: number
}

export async function pageOf({ call }: Client, query: string): Promise<Page> {
  const response = await call('GET', `/public/events?${query}`)
  if (response.statusCode !== 200) throw new Error(`${query}: ${response.body}`)
  return response.json()
}

/** The exact texts of the properties in a response. */
export function propertiesIn({ body }: LightMyRequestResponse): (string | undefined)[] {
  const list = memberText(body, 'events') ?? ''
  return elementTexts(list).map((text) => memberText(text, 'properties'))
}

export function isRefused(
  t: Test,
  response: LightMyRequestResponse,
  status: number,
  code: string,
  path?: string,
): void {
  const body = response.json()
  t.match(body, { status: 0, code, error: /\w.*\.$/ }, response.body)
  t.equal(response.statusCode, status)
  if (path === undefined) t.notOk(body.details)
  else t.match(body.details, [{ path, message: /\w/ }], response.body)
}

export const idOf = ({ headers }: LightMyRequestResponse) => String(headers['x-event-id'])
export const idsOf = (events: StoredEvent[]) => events.map(({ eventId }) => eventId)

/** Texts that a statement or its parameters could change on their way to ClickHouse. */
export const EXACT = [
  '{}',
  '{ \n\t"a" :\r\n 1.0 }',
  '{"b":1e400,"a":123456789012345678901234567890,"a":null}',
  String.raw`{"e":"\u0000\ud800\/\u00e9\b\f\n\r\t\"\\"}`,
  '{"q":"it\'s \\\\N \\\\t \\\\\\\\ `x` {ids:Array(UUID)} \' \\"; --"}',
  '{"u":"😀\u2028\u007f\u0080\ufeff"}',
  '{"a":"\',\'","b":"[\'x\']","c":"NULL"}',
  '{"__proto__":{"x":1}}',
  `${'{"a":'.repeat(64)}1${'}'.repeat(64)}`,
  `{"long":"${'x'.repeat(300_000)}"}`,
]

/** Calls that track, read, edit and delete events of a service. */
export function eventCalls(client: Client) {
  const { call } = client
  const user = () => randomName('user')
  const track = async (distinct_id: string, event = 'e', more: object = {}) => {
    const response = await call('POST', '/public/track', { event, distinct_id, ...more })
    if (response.statusCode !== 200) throw new Error(response.body)
    return idOf(response)
  }
  const trackBatch = async (distinct_id: string, count: number, more: (n: number) => object = () => ({})) => {
    const events = Array.from({ length: count }, (_, n) => ({ event: `e${n}`, distinct_id, ...more(n) }))
    const response = await call('POST', '/public/track/batch', { events })
    if (response.statusCode !== 200) throw new Error(response.body)
  }
  const put = (id: string, properties: unknown) => call('PUT', `/public/events/${id}`, { properties })
  const putText = (id: string, text: string) => call('PUT', `/public/events/${id}`, `{"properties":${text}}`)
  const remove = (id: string) => call('DELETE', `/public/events/${id}`)
  const stored = async (distinct_id: string) =>
    (await pageOf(client, `limit=10000&distinct_id=${encodeURIComponent(distinct_id)}`)).events
  return { user, track, trackBatch, put, putText, remove, stored }
}
