import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SECRET_KEY } from './servers.js'

const EVENTS = fileURLToPath(new URL('../../../test/data/npm-releases.ndjson', import.meta.url))
export const BATCH = 1000

export interface HttpRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  body?: string
  headers?: Record<string, string>
}

/** Requests as bytes in a file, which every load tool sends in this order, again and again. */
export interface RequestList {
  file: string
  length: number
}

/** Writes each request as a line with its length in bytes, then its bytes. */
export async function writeRequests(folder: string, requests: HttpRequest[]): Promise<RequestList> {
  const file = join(folder, `${randomUUID()}.requests`)
  const records = requests.map((request) => {
    const bytes = Buffer.from(formatRequest(request))
    return Buffer.concat([Buffer.from(`${bytes.length}\n`), bytes])
  })
  await writeFile(file, Buffer.concat(records))
  return { file, length: requests.length }
}

/** Reads the result of `writeRequests`. */
export async function readRequests(file: string): Promise<Buffer[]> {
  const bytes = await readFile(file)
  const requests: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const lineEnd = bytes.indexOf('\n', at)
    const end = lineEnd + 1 + Number(bytes.toString('latin1', at, lineEnd))
    requests.push(bytes.subarray(lineEnd + 1, end))
    at = end
  }
  return requests
}

function formatRequest({ method, path, body, headers = { 'x-api-key': SECRET_KEY } }: HttpRequest): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: localhost']
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`)
  if (body !== undefined) lines.push('content-type: application/json', `content-length: ${Buffer.byteLength(body)}`)
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`
}

/** Parses a request. */
export function parseRequest(bytes: Buffer) {
  const headEnd = bytes.indexOf('\r\n\r\n')
  const [first = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const [method = '', path = ''] = first.split(' ')
  const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [name: string, value: string]))
  return { method, path, headers, body: bytes.subarray(headEnd + 4) }
}

/** The real events of the data set, one JSON text each. */
export async function realEvents(): Promise<string[]> {
  return (await readFile(EVENTS, 'utf8')).trimEnd().split('\n')
}

/** One call of `/public/track` for each real event. */
export async function singles(): Promise<HttpRequest[]> {
  return (await realEvents()).map((body) => ({ method: 'POST', path: '/public/track', body }))
}

/** The headers that the browsers of a few visitors send. */
const BROWSERS = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
]
const ZONES = ['Europe/Vienna', 'America/New_York', 'Asia/Tokyo', 'Europe/Berlin']

/** Like `singles`, but as pages send them, with a new write key. @param url of the service */
export async function pageSingles(url: string): Promise<HttpRequest[]> {
  const response = await fetch(`${url}/public/keys`, {
    method: 'POST',
    headers: { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' },
    body: '{"kind":"write"}',
  })
  const { apiKey } = (await response.json()) as { apiKey: string }
  return (await singles()).map((request, i) => ({
    ...request,
    path: `${request.path}?timezone=${encodeURIComponent(ZONES[i % ZONES.length] ?? '')}`,
    headers: {
      'x-api-key': apiKey,
      'user-agent': BROWSERS[i % BROWSERS.length] ?? '',
      'accept-language': 'de-AT,de;q=0.9,en;q=0.8',
      'sec-ch-ua-mobile': '?0',
    },
  }))
}

/** Calls of `/public/track/batch` with 1000 real events each. */
export async function batches(): Promise<HttpRequest[]> {
  const events = await realEvents()
  return Array.from({ length: Math.floor(events.length / BATCH) }, (_, i) =>
    batchOf(events.slice(i * BATCH, (i + 1) * BATCH)),
  )
}

/** Like `batches`, this number of them, with a unique `insert_id` for each event. */
export async function identifiedBatches(count: number): Promise<HttpRequest[]> {
  const events = await realEvents()
  const all = Math.floor(events.length / BATCH)
  return Array.from({ length: count }, (_, i) => {
    const some = events.slice((i % all) * BATCH, ((i % all) + 1) * BATCH)
    return batchOf(some.map((event) => `{"insert_id":"${randomUUID()}",${event.slice(1)}`))
  })
}

/** Like `singles`, this number of them, each with a unique `Idempotency-Key`. */
export async function keyedSingles(count: number): Promise<HttpRequest[]> {
  const all = await singles()
  return Array.from({ length: count }, (_, i) => {
    const headers = { 'x-api-key': SECRET_KEY, 'idempotency-key': randomUUID() }
    return { ...(all[i % all.length] as HttpRequest), headers }
  })
}

/** A call of `/public/track/batch`. */
export function batchOf(events: string[]): HttpRequest {
  return { method: 'POST', path: '/public/track/batch', body: `{"events":[${events.join(',')}]}` }
}
