import { randomInt } from 'node:crypto'
import t from 'tap'
import { SECRET_KEY, startClickHouse, startService, until } from '../helper.js'
import { databaseOf, journalFor } from './servers.js'

// Producers send the same events again and again: in other batches, alone, in another order and side by side, while the
// service and Redis are killed. Each is stored once.

const EVENTS = 1_500
const PRODUCERS = 4
const KILLS = 3
const engine = await startClickHouse(t)

interface Sent {
  event: string
  distinct_id: string
  insert_id: string
}

const EVENT_LIST: Sent[] = Array.from({ length: EVENTS }, (_, i) => {
  return { event: `event ${i}`, distinct_id: `user ${i % 97}`, insert_id: `id ${i}` }
})

/** Overlapping batches of random sizes with every event at least once. */
function* batches(): Generator<Sent[]> {
  const start = randomInt(EVENTS)
  for (let done = 0; done < EVENTS; ) {
    const size = randomInt(3) === 0 ? 1 : 1 + randomInt(200)
    const at = start + Math.max(0, done - randomInt(50))
    yield Array.from({ length: size }, (_, i) => EVENT_LIST[(at + i) % EVENTS] as Sent)
    done = at - start + size
  }
}

for (const [kind, lanes] of [
  ['redis', '1'],
  ['redis', '3'],
  ['lmdb', '1'],
  ['lmdb', '3'],
] as const) {
  t.test(`${kind}, LANES=${lanes}: one event of an id through SIGKILL of the service and of Redis`, async (t) => {
    const { settings, redis } = await journalFor(t, kind)
    const env = { ...settings, LANES: lanes, CLICKHOUSE_URL: databaseOf(engine.url) }
    let service = await startService(t, env)
    let answers = 0
    let failures = 0
    const post = async (path: string, body: object): Promise<boolean> => {
      try {
        const response = await fetch(`${service.url}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-api-key': SECRET_KEY },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(20_000),
        })
        await response.text()
        if (response.status < 500) t.equal(response.status, 200)
        return response.status === 200
      } catch {
        return false
      }
    }
    const send = async (events: Sent[]) => {
      const [one] = events
      for (;;) {
        const isTaken = await (events.length === 1 && one
          ? post('/public/track', one)
          : post('/public/track/batch', { events }))
        if (isTaken) break
        failures++
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      answers++
    }
    const stop = new AbortController()
    const producing = Array.from({ length: PRODUCERS }, async () => {
      // Repeats as long as there are kills, and then once more.
      for (let isLast = false; !isLast; ) {
        isLast = stop.signal.aborted
        for (const events of batches()) await send(events)
      }
    })
    for (let kill = 0; kill < KILLS; kill++) {
      const before = answers
      await until('more answers', () => answers > before + 25)
      if (redis && kill % 2 === 1) {
        await redis.kill()
        await redis.restart()
      } else {
        service.process.kill('SIGKILL')
        await service.ended
        service = await startService(t, env)
      }
    }
    stop.abort()
    await Promise.all(producing)
    t.ok(failures > 0, 'calls were in flight')
    const found = await storedEvents(service.url)
    t.equal(found.length, EVENTS)
    t.same(found.toSorted(), EVENT_LIST.map(({ insert_id }) => insert_id).toSorted())
  })
}

/** The insert_ids of all events that are stored. */
async function storedEvents(url: string): Promise<string[]> {
  const response = await fetch(`${url}/public/events?limit=10000`, { headers: { 'x-api-key': SECRET_KEY } })
  const { events, pending, hasMore } = (await response.json()) as {
    events: Sent[]
    pending: number
    hasMore: boolean
  }
  if (pending > 0 || hasMore) throw new Error(`${pending} are pending`)
  return events.map(({ insert_id }) => insert_id)
}
