import t from 'tap'
import { Tallyhouse } from '../../src/client/index.js'
import { freePort, SECRET_KEY, type StoredEvent, startClickHouse, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { databaseOf, JOURNALS, journalFor } from './servers.js'

const KILLS = 3

const engine = await startClickHouse(t)

/** All events of a project, in the order of acceptance. */
async function exported(url: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = []
  for await (const event of new Tallyhouse({ url, secretKey: SECRET_KEY }).exportEvents()) events.push(event)
  return events
}

for (const journal of JOURNALS) {
  for (const LANES of ['1', '3']) {
    t.test(`live streams through SIGKILL of the service, with ${journal} and ${LANES} lanes`, async (t) => {
      const { settings } = await journalFor(t, journal)
      const env = { ...settings, LANES, CLICKHOUSE_URL: databaseOf(engine.url), PORT: String(await freePort()) }
      let service = await startService(t, env)
      const { url } = service
      const stop = new AbortController()
      t.teardown(() => stop.abort())
      const client = new Tallyhouse({ url, secretKey: SECRET_KEY })
      const follow = async (seen: StoredEvent[], lastEventId?: string) => {
        const options = lastEventId === undefined ? {} : { lastEventId }
        for await (const event of client.live({ ...options, signal: stop.signal })) seen.push(event)
      }
      const whole: StoredEvent[] = []
      const late: StoredEvent[] = []
      const following = [follow(whole, '00000000-0000-7000-8000-000000000000')]
      const ledger = new Ledger()
      let answered = 0
      const producing = [1, 2, 3].map(async () => {
        const producer = new Producer(ledger, () => service.url)
        for (let i = 0; i < 40; i++) {
          await producer.insist(i % 4 === 0 ? 1 : 100)
          answered++
        }
      })
      for (let kills = 1; kills <= KILLS; kills++) {
        await until(`call ${kills * 25}`, () => answered >= kills * 25, 60_000)
        service.process.kill('SIGKILL')
        await service.ended
        service = await startService(t, env)
        if (kills === 1) following.push(follow(late))
      }
      await Promise.all(producing)
      await assertFlawless(t, ledger, url)
      const all = (await exported(url)).map(({ eventId }) => eventId)
      await until('the whole stream', () => whole.length >= all.length, 60_000)
      const first = await until('an event of the later stream', () => late[0])
      t.strictSame(
        whole.map(({ eventId }) => eventId),
        all,
        'from the first event on: each once, in order',
      )
      const rest = all.slice(all.indexOf(first.eventId))
      await until('the rest', () => late.length >= rest.length, 60_000)
      t.ok(rest.length < all.length)
      t.strictSame(
        late.map(({ eventId }) => eventId),
        rest,
        'from the middle on',
      )
      stop.abort()
      await Promise.all(following)
    })
  }
}
