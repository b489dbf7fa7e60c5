import t from 'tap'
import { SECRET_KEY, startClickHouse, startService, until } from '../helper.js'
import { databaseOf, journalFor } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

const AGENT = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'

const engine = await startClickHouse(t)

for (const kind of ['lmdb', 'redis'] as const) {
  t.test(`${kind}: events that a page sent before a kill -9 have their context after it`, async (t) => {
    const { settings } = await journalFor(t, kind)
    const clickhouse = databaseOf(engine.url)
    const proxy = await TcpProxy.open(t, clickhouse)
    const first = await startService(t, { ...settings, CLICKHOUSE_URL: proxy.url })
    const post = async (path: string, key: string, body: object) => {
      const response = await fetch(`${first.url}/public/${path}`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json', 'user-agent': AGENT, 'accept-language': 'de' },
        body: JSON.stringify(body),
      })
      if (!response.ok) throw new Error(await response.text())
      return (await response.json()) as Record<string, string>
    }
    const { apiKey = '' } = await post('keys', SECRET_KEY, { kind: 'write' })
    const { held } = proxy.hold('INSERT+INTO+events')
    const event = { event: 'e', distinct_id: 'ada' }
    await Promise.all([post('track', apiKey, event), post('track', apiKey, event)])
    await held
    await post('track/batch?timezone=Europe/Vienna', apiKey, { events: [event, event] })
    await post('track', SECRET_KEY, event)
    first.process.kill('SIGKILL')
    await first.ended

    const { url } = await startService(t, { ...settings, CLICKHOUSE_URL: clickhouse })
    const contexts = await until('all five events', async () => {
      const response = await fetch(`${url}/public/events`, { headers: { 'x-api-key': SECRET_KEY } })
      const { events = [] } = (await response.json()) as { events?: { context?: object }[] }
      return events.length === 5 && events.map(({ context }) => context)
    })
    const own = { browser: 'Firefox', browser_version: '132', os: 'Linux', device: 'desktop' }
    const page = { ...own, language: 'de' }
    const place = { ...own, country: 'AT', language: 'de' }
    t.strictSame(contexts, [page, page, place, place, undefined])
  })
}
