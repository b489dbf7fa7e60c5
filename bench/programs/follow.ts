// Walks through the events by cursor, a page every few seconds, and edits some of those that it has read. Arguments:
// URLs of the service, separated by commas and used in turn; seconds; edits per second, in total. Prints one line of
// JSON: the pages and edits, and the median times of both.
import { setTimeout as wait } from 'node:timers/promises'
import { SECRET_KEY } from '../servers.js'

const PAGE = 10_000
/** The same number of pages with many machines as with one; without this pause, there would be fewer with many. */
const PAGE_EVERY_MS = 2_500

interface Page {
  events: { eventId: string }[]
  next: string | null
}

const [urls = '', seconds = '', rate = ''] = process.argv.slice(2)
const services = urls.split(',')
const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
const until = performance.now() + Number(seconds) * 1000
const ended = wait(Number(seconds) * 1000)

/** ids of the page that was read last */
let ids: string[] = []
const pageTimes: number[] = []
const editTimes: number[] = []

await Promise.all([walk(), edit()])
console.log(
  JSON.stringify({
    pages: pageTimes.length,
    pageMs: medianOf(pageTimes),
    edits: editTimes.length,
    editMs: medianOf(editTimes),
  }),
)

async function walk(): Promise<void> {
  let cursor = ''
  for (let turn = 0; performance.now() < until; turn++) {
    const startedAt = performance.now()
    const pause = wait(PAGE_EVERY_MS)
    const query = cursor === '' ? '' : `&cursor=${cursor}`
    const response = await call(turn, `/public/events?limit=${PAGE}${query}`)
    const { events, next } = (await response.json()) as Page
    pageTimes.push(performance.now() - startedAt)
    if (events.length > 0) ids = events.map(({ eventId: id }) => id)
    if (next !== null) cursor = next
    await Promise.race([pause, ended])
  }
}

async function edit(): Promise<void> {
  const startedAt = performance.now()
  const running: Promise<void>[] = []
  for (let i = 0; performance.now() < until; i++) {
    const id = ids[Math.floor(Math.random() * ids.length)]
    if (id !== undefined) running.push(editOne(i, id))
    await wait(Math.max(0, startedAt + ((i + 1) * 1000) / Number(rate) - performance.now()))
  }
  await Promise.all(running)
}

async function editOne(turn: number, id: string): Promise<void> {
  const startedAt = performance.now()
  const body = `{"properties":{"edited":${turn}}}`
  const response = await call(turn, `/public/events/${id}`, { method: 'PUT', body })
  await response.arrayBuffer()
  editTimes.push(performance.now() - startedAt)
}

async function call(turn: number, path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(`${services[turn % services.length]}${path}`, { ...init, headers })
  if (!response.ok) throw new Error(`${path} returned ${response.status}: ${await response.text()}`)
  return response
}

function medianOf(times: number[]): number | null {
  return times.sort((a, b) => a - b)[times.length >> 1] ?? null
}
