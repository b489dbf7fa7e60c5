import t from 'tap'
import { buildApp } from '../../src/app.js'
import { loadConfig } from '../../src/config.js'
import { ANY_STORAGE, type Client, settingsFor, startApp, startClickHouse, startRedis, until } from '../helper.js'

/** The samples of a scrape, by their name and labels as in the text. */
async function scrape(app: Client['app']): Promise<Map<string, number>> {
  const response = await app.inject({ url: '/metrics' })
  const samples = response.body.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  )
}

const requests = (method: string, route: string, status: number) =>
  `tallyhouse_http_requests_total{method="${method}",route="${route}",status="${status}"}`

for (const storage of ANY_STORAGE) {
  t.test(storage, async (t) => {
    const { app, call, browser } = await startApp(t, { ...(await settingsFor(t, storage)), BODY_LIMIT: '2048' })

    t.test('the text is valid for Prometheus', async (t) => {
      const response = await app.inject({ url: '/metrics' })
      t.equal(response.statusCode, 200)
      t.equal(response.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
      const helped = response.body.match(/^# HELP \S+/gm)?.map((line) => line.slice(7)) ?? []
      const typed = [...response.body.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
      t.strictSame(
        typed.map(([, name]) => name),
        helped,
      )
      t.ok(helped.length > 30, `${helped.length} metrics`)
      t.equal(new Set(helped).size, helped.length, 'no name appears twice')
      for (const [, name, type] of typed) {
        t.match(name, /^(tallyhouse|process|nodejs)_[a-z][a-z0-9_]*$/)
        t.equal(type === 'counter', /_total$/.test(name ?? ''), `${name} is a ${type}`)
      }
      for (const line of response.body.trimEnd().split('\n')) {
        if (line !== '') t.match(line, /^(# (HELP|TYPE) \S+ .+|[a-z_0-9]+(\{([a-z_]+="[^"]*",?)+\})? -?[0-9.e+-]+)$/)
      }
    })

    t.test('requests by the pattern of their route', async (t) => {
      await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
      await call('POST', '/public/track', { event: 'e' })
      await call('POST', '/public/track', 'x'.repeat(3000))
      await app.inject({
        method: 'POST',
        url: '/public/track',
        payload: { apiKey: 'no', event: 'e', distinct_id: 'u' },
      })
      await call('GET', '/public/users/a-secret-name')
      await call('GET', '/public/users/another')
      await call('GET', '/nothing/here')
      await call('GET', '/%zz')
      await app.inject({ method: 'HEAD', url: '/health/live' })
      const samples = await scrape(app)
      t.equal(samples.get(requests('POST', '/public/track', 200)), 1)
      t.equal(samples.get(requests('POST', '/public/track', 400)), 1)
      t.equal(samples.get(requests('POST', '/public/track', 401)), 1)
      t.equal(samples.get(requests('POST', '/public/track', 413)), 1)
      t.equal(samples.get(requests('GET', '/public/users/:userId', 404)), 2)
      t.equal(samples.get(requests('HEAD', '/health/live', 200)), 1)
      t.equal(samples.get(requests('any', 'none', 404)), 2)
      t.notOk([...samples.keys()].some((name) => name.includes('secret-name')))
      const route = 'method="POST",route="/public/track"'
      t.equal(samples.get(`tallyhouse_http_request_duration_seconds_count{${route}}`), 4)
      t.equal(samples.get(`tallyhouse_http_request_duration_seconds_bucket{${route},le="+Inf"}`), 4)
      const sum = samples.get(`tallyhouse_http_request_duration_seconds_sum{${route}}`) ?? 0
      t.ok(sum > 0 && sum < 20, `${sum} s`)
    })

    t.test('events from their acceptance to the store', async (t) => {
      const before = await scrape(app)
      const events = Array.from({ length: 7 }, () => ({ event: 'e', distinct_id: 'u' }))
      await call('POST', '/public/track/batch', { events }, { 'idempotency-key': 'seven' })
      await call('POST', '/public/track/batch', { events }, { 'idempotency-key': 'seven' })
      await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
      await call('POST', '/public/users/identify', { distinct_id: 'u' })
      const known = ['a', 'b'].map((insert_id) => ({ event: 'e', distinct_id: 'u', insert_id }))
      for (const one of [known[0], ...known]) await call('POST', '/public/track', one)
      await call('POST', '/public/track/batch', { events: known })
      await call('GET', '/public/events')
      const gained = async (name: string) => ((await scrape(app)).get(name) ?? 0) - (before.get(name) ?? 0)
      t.equal(await gained('tallyhouse_events_accepted_total'), 10, 'a retry is not counted twice')
      t.equal(await gained('tallyhouse_events_repeated_total'), 3, 'by their insert_id')
      await until('the rows to be counted', async () => {
        const rows = await Promise.all(
          ['events', 'profiles'].map((table) => gained(`tallyhouse_rows_stored_total{table="${table}"}`)),
        )
        return rows.join() === '11,1' || rows.join() === '10,1'
      })
      const samples = await scrape(app)
      const age = Date.now() / 1000 - (samples.get('tallyhouse_last_stored_timestamp_seconds') ?? 0)
      t.ok(age >= 0 && age < 90, `${age} s since a block was stored`)
      t.equal(samples.get('tallyhouse_journal_up'), 1)
      t.equal(samples.get('tallyhouse_journal_entries'), 0)
      t.equal(samples.get('tallyhouse_journal_bytes'), 0)
      t.equal(samples.get('tallyhouse_journal_oldest_seconds'), 0)
      t.ok((samples.get('tallyhouse_journal_limit_bytes') ?? 0) > 0)
      t.ok((samples.get('tallyhouse_journal_write_duration_seconds_count') ?? 0) >= 3)
      t.ok((samples.get('tallyhouse_insert_duration_seconds_count{table="events"}') ?? 0) >= 1)
      t.ok((samples.get('tallyhouse_block_entries_count') ?? 0) >= 1)
      t.ok((samples.get('tallyhouse_block_bytes_sum') ?? 0) >= 8 * '{"event":"e","distinct_id":"u"}'.length)
      t.equal(samples.get('tallyhouse_dead_letters_total{table="events"}'), 0)
    })

    t.test('sources of profiles and sessions', async (t) => {
      const sources = async (kind: string) => {
        const samples = await scrape(app)
        return ['journal', 'store'].map(
          (source) => samples.get(`tallyhouse_state_reads_total{kind="${kind}",source="${source}"}`) ?? 0,
        )
      }
      await browser('/public/sessions/start', { distinct_id: 'u', session_id: 'counted' })
      t.strictSame(await sources('sessions'), [0, 1])
      await browser('/public/sessions/end', { distinct_id: 'u', session_id: 'counted' })
      t.strictSame(await sources('sessions'), [1, 1])
    })

    t.test('the store and its free space', async (t) => {
      const samples = await scrape(app)
      t.equal(samples.get('tallyhouse_store_up'), 1)
      const share = (of: string, labels = '') =>
        (samples.get(`${of}_free_bytes${labels}`) ?? 0) / (samples.get(`${of}_size_bytes${labels}`) ?? 0)
      const disk = share('tallyhouse_store_disk', '{disk="default"}')
      t.ok(disk > 0 && disk < 1, `${disk} of the disk is free`)
      t.ok(share('tallyhouse_data_dir') > 0 && share('tallyhouse_data_dir') < 1)
    })

    t.test('the process and its runtime', async (t) => {
      const samples = await scrape(app)
      t.ok((samples.get('process_resident_memory_bytes') ?? 0) > 1e7)
      for (const key of ['known', 'unknown']) t.equal(samples.get(`tallyhouse_body_memory_bytes{key="${key}"}`), 0)
      t.ok((samples.get('process_cpu_user_seconds_total') ?? 0) > 0)
      const startedAt = samples.get('process_start_time_seconds') ?? 0
      t.ok(Math.abs(startedAt - Date.now() / 1000) < 1000, `${startedAt}`)
      t.ok(
        [...samples.keys()].some((name) =>
          /^tallyhouse_info\{version="\d[^"]+",node="v[^"]+",role="all"\}$/.test(name),
        ),
      )
    })
  })
}

t.test('a separate writer has its own metrics', async (t) => {
  const [redis, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)])
  const env = { ...(await settingsFor(t, 'embedded')), REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url }
  const api = await startApp(t, { ...env, ROLE: 'api' })
  const writer = await buildApp(loadConfig({ ...env, ROLE: 'writer' }))
  t.teardown(() => writer.close())
  await api.call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
  t.equal((await api.call('GET', '/public/events')).json().events.length, 1)
  t.notOk((await scrape(api.app)).has('tallyhouse_data_dir_free_bytes'), 'servers keep nothing there')
  const stored = 'tallyhouse_rows_stored_total{table="events"}'
  await until('the writer to count', async () => (await scrape(writer)).get(stored) === 1)
  t.equal((await scrape(api.app)).get(stored), 0)
  t.equal((await scrape(writer)).get('tallyhouse_events_accepted_total'), 0)

  await clickhouse.close()
  t.equal((await scrape(api.app)).get('tallyhouse_store_up'), 0, 'detected without traffic')
  await api.call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
  await until(
    'a retry',
    async () => ((await scrape(writer)).get('tallyhouse_block_retries_total{reason="unreachable"}') ?? 0) > 0,
  )
  const waiting = await scrape(api.app)
  t.equal(waiting.get('tallyhouse_store_up'), 0)
  t.notOk([...waiting.keys()].some((name) => name.startsWith('tallyhouse_store_disk')))
  t.equal(waiting.get('tallyhouse_journal_entries'), 1)
  t.ok((waiting.get('tallyhouse_journal_bytes') ?? 0) > 0)
  await until(
    'the entry to age',
    async () => ((await scrape(api.app)).get('tallyhouse_journal_oldest_seconds') ?? 0) > 0,
  )

  await redis.kill()
  t.equal((await api.call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode, 503)
  const refusing = await scrape(api.app)
  t.equal(refusing.get('tallyhouse_events_refused_total{code="unavailable"}'), 1)
  t.equal(refusing.get('tallyhouse_journal_up'), 0)
  t.notOk(refusing.has('tallyhouse_journal_entries'), 'an unknown value is not zero')
})
