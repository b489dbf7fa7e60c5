import { once } from 'node:events'
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type StoredEvent, Tallyhouse, type TallyhouseOptions } from '../../src/client/index.js'
import { freePort, SECRET_KEY, STORAGES, settingsFor, startApp, startService } from '../helper.js'

/** Retries for as long as a service may take to start on a busy machine. */
const AT_ONCE = { baseDelayMs: 10, maxDelayMs: 100, attempts: 2_000 }

async function all<E>(events: AsyncIterable<E>): Promise<E[]> {
  const found: E[] = []
  for await (const event of events) found.push(event)
  return found
}

const numbersOf = (events: StoredEvent[]) => events.map(({ properties }) => Number(properties.n))
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

function connect(t: Test, url: string, options: Partial<TallyhouseOptions> = {}): Tallyhouse {
  const tallyhouse = new Tallyhouse({ url, secretKey: SECRET_KEY, retry: AT_ONCE, queueRetry: AT_ONCE, ...options })
  t.teardown(() => tallyhouse.close(0).catch(() => undefined))
  return tallyhouse
}

for (const storage of STORAGES) {
  t.test(`kill -9 in the middle of a flush, on ${storage}`, async (t) => {
    const settings = { ...(await settingsFor(t, storage)), PORT: String(await freePort()) }
    let service = await startService(t, settings)
    const drops: unknown[] = []
    const tallyhouse = connect(t, service.url, { onDrop: (...drop) => drops.push(drop) })
    const count = 20_000
    const sent = upTo(count).map((n) => tallyhouse.track({ event: 'e', distinct_id: 'u', properties: { n } }))
    const flushed = tallyhouse.flush()
    await sent[5_000]
    service.process.kill('SIGKILL')
    await service.ended
    t.ok(tallyhouse.queued > 0, 'it was in the middle')

    service = await startService(t, settings)
    await flushed
    t.strictSame(drops, [])
    t.strictSame(numbersOf(await all(tallyhouse.exportEvents({ pageSize: 10_000 }))), upTo(count))
  })
}

/** Proxies each request to the service, and loses every other response to a change. */
async function losingProxy(t: Test, target: string): Promise<{ url: string; lost: () => number }> {
  let changes = 0
  let lost = 0
  const server = createServer((request, response) => {
    const { method, url, headers } = request
    const toService = forward(`${target}${url}`, { method, headers }, (answer) => {
      const isLost = method !== 'GET' && changes++ % 2 === 0
      if (!isLost) {
        answer.pipe(response.writeHead(answer.statusCode ?? 500, answer.headers))
        return
      }
      answer.resume().on('end', () => {
        lost++
        response.destroy()
      })
    })
    request.pipe(toService)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, lost: () => lost }
}

t.test('nothing is counted twice if responses are lost', async (t) => {
  for (const storage of STORAGES) {
    const client = await startApp(t, await settingsFor(t, storage))
    const proxy = await losingProxy(t, await client.app.listen({ port: 0 }))
    const tallyhouse = connect(t, proxy.url)
    for (const n of upTo(3000)) tallyhouse.track({ event: 'e', distinct_id: 'u', properties: { n } })
    await tallyhouse.flush()
    t.strictSame(numbersOf(await all(tallyhouse.exportEvents())), upTo(3000))

    const eventId = await tallyhouse.trackNow({ event: 'now', distinct_id: 'u' })
    t.strictSame(
      (await all(tallyhouse.exportEvents({ event: 'now' }))).map((event) => event.eventId),
      [eventId],
    )
    await tallyhouse.deleteEvent(eventId)
    await tallyhouse.updateProfile('u', { $add: { visits: 1 } })
    t.match(await tallyhouse.getUser('u'), { properties: { visits: 1 } })
    await tallyhouse.deleteUser('u')
    t.ok(proxy.lost() >= 6, `${proxy.lost()} answers were lost`)
  }
})
