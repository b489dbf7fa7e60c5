import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { changeSettings, DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { PropertyNames } from '../../src/projects/property-names.js'
import { QuotaWatch } from '../../src/projects/quota-watch.js'
import { Usage } from '../../src/projects/usage.js'
import { insertEvents } from '../../src/store/events.js'
import { openStore } from '../../src/store/open.js'
import { STREAMED } from '../../src/store/page.js'
import { readStoredBytes, readUsage } from '../../src/store/project-usage.js'
import { ReadLog } from '../../src/store/read-log.js'
import { until } from '../helper.js'
import { sharedApp } from '../shared-app.js'

const quiet = { info: () => undefined, warn: () => undefined }

t.test('Usage keeps counts from before midnight that were not stored by then', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  let at = Date.parse('2026-12-31T23:59:59Z')
  const byProject = new Map([['midnight', { events: 10, bytes: 100 }]])
  const closing = new AbortController().signal
  const usage = new Usage({ shards, commits: [{ metrics: { byProject } }], log: quiet, closing, now: () => at })
  t.match(usage.own('midnight'), { events: 10, bytes: 100 })
  at = Date.parse('2027-01-01T00:00:01Z')
  byProject.set('midnight', { events: 13, bytes: 130 })
  t.match(usage.own('midnight'), { events: 3, bytes: 30 })
  await usage.write()
  t.strictSame(
    [...((await readUsage(shards, ['midnight'], { from: '2026-12-01' })).get('midnight') ?? [])].map(
      ([day, { events }]) => [day, events],
    ),
    [
      ['2026-12-31', 10],
      ['2027-01-01', 3],
    ],
  )
})

t.test('a clock that was wrong for a while changes no count of other days', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  let at = Date.parse('2026-06-30T23:00:00Z')
  const closing = new AbortController().signal
  const count = (project: string) => {
    const sums = { events: 0, bytes: 0 }
    const byProject = new Map([[project, sums]])
    const usage = new Usage({ shards, commits: [{ metrics: { byProject } }], log: quiet, closing, now: () => at })
    const accept = async (events: number) => {
      sums.events += events
      await usage.write()
    }
    return { usage, accept }
  }
  const { usage, accept } = count('clock')
  const stored = async () =>
    [...((await readUsage(shards, ['clock'], { from: '2026-06-01' })).get('clock') ?? [])].map(([day, { events }]) => [
      day,
      events,
    ])
  const inMonth = async () => {
    const days = [...((await usage.others(['clock'], 10_000)).get('clock')?.values() ?? [])]
    return days.reduce((sum, { events }) => sum + events, usage.own('clock').events)
  }
  for (let i = 0; i < 5; i++) await accept(2)
  t.equal(await inMonth(), 10)
  at = Date.parse('2026-07-01T00:00:01Z')
  await accept(3)
  t.equal(await inMonth(), 3, 'another month')
  at = Date.parse('2026-06-30T23:59:59Z')
  t.equal(await inMonth(), 10, 'the clock was set back')
  await accept(1)
  t.equal(await inMonth(), 11)
  t.strictSame(await stored(), [
    ['2026-06-30', 11],
    ['2026-07-01', 3],
  ])
})

t.test('usage includes the counts of this process, and reading it costs no INSERT', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const now = () => Date.parse('2026-05-02T12:00:00Z')
  const options = { shards, log: quiet, closing: new AbortController().signal, now }
  const commits = (events: number) => [{ metrics: { byProject: new Map([['read', { events, bytes: 10 * events }]]) } }]
  const [usage, other] = [
    new Usage({ ...options, commits: commits(2) }),
    new Usage({ ...options, commits: commits(3) }),
  ]
  const read = async (from: string, to: string) =>
    [...(await usage.read('read', { from, to }))].map(([day, { events, bytes }]) => [day, events, bytes])
  t.strictSame(await read('2026-05-01', '2026-05-31'), [['2026-05-02', 2, 20]])
  t.strictSame((await readUsage(shards, ['read'], { from: '2026-05-01' })).get('read')?.size, 0)
  await other.write()
  t.strictSame(await read('2026-05-02', '2026-05-02'), [['2026-05-02', 5, 50]])
  await usage.write()
  t.strictSame(await read('2026-05-02', '2026-05-02'), [['2026-05-02', 5, 50]], 'once')
  t.strictSame(await read('2026-05-03', '2026-05-04'), [])
})

t.test('the CPU time of reads is counted once, and what is on the disks is measured once an hour', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const day = '2026-04-05'
  let time = Date.parse(`${day}T06:30:00Z`)
  const now = () => time
  const options = { shards, commits: [], log: quiet, closing: new AbortController().signal, now }
  const readLog = new ReadLog(3_000)
  const usage = new Usage({ ...options, readLog })
  const work = 'SELECT sum(sipHash64(number)) AS n FROM numbers(30000000) GROUP BY number % 2'
  await shards.rows(work, {}, readLog.label('reader'))
  // Its first rows are there long before its last ones.
  const all = 'SELECT sipHash64(number) FROM numbers(2000000) FORMAT TSV'
  const streamed = await shards.bytes(all, {}, { ...STREAMED, ...readLog.label('exporter') })
  for await (const _ of streamed);
  await shards.rows(work, {}, new ReadLog().label('other'))
  const silent = { rows: () => Promise.reject(new Error('no answer')) } as unknown as ClickHouse
  const broken = new Shards([...shards.all, { number: 1, name: 'silent', clickhouse: silent }])
  await until('the reads', async () => {
    // Within the 3 s after which entries count.
    await shards.first.command('SYSTEM FLUSH LOGS')
    // Nothing counts as read if one of the shards fails.
    await t.rejects(readLog.readNew(broken))
    await usage.countReads()
    return usage.own('reader').readCpuMs > 0 && usage.own('exporter').readCpuMs > 0
  })
  const { readCpuMs } = usage.own('reader')
  t.ok(readCpuMs > 20 && usage.own('exporter').readCpuMs > 20, `${readCpuMs} ${usage.own('exporter').readCpuMs}`)
  await usage.countReads()
  t.equal(usage.own('reader').readCpuMs, readCpuMs)
  t.equal(usage.own('other').readCpuMs, 0, 'reads of another process')
  const insert = async (project: string) =>
    await shards.first.command(`INSERT INTO aliases (project_id) VALUES ('${project}')`)
  const other = new Usage(options)
  await insert('reader')
  await other.measure()
  await insert('late')
  await usage.measure()
  await usage.write()
  const read = async (project: string) => (await other.read(project, { from: day, to: day })).get(day)
  const { storedBytes = 0, ...rest } = (await read('reader')) ?? {}
  t.ok(storedBytes > 0)
  t.strictSame(rest, { events: 0, bytes: 0, readCpuMs: Math.round(readCpuMs), processes: 1 })
  t.equal(await read('late'), undefined)
  await shards.first.command("ALTER TABLE aliases DELETE WHERE project_id = 'reader'", {}, { mutations_sync: '1' })
  time += 3_600_000
  await usage.measure()
  t.equal((await read('reader'))?.storedBytes, 0, 'a project of which nothing is left')
  t.ok(((await read('late'))?.storedBytes ?? 0) > 0)
  const byProject = new Map([['reader', { events: 1, bytes: 2 }]])
  let found: Map<string, number> | null = null
  const blind = new Usage({
    ...options,
    commits: [{ metrics: { byProject } }],
    readLog: { readNew: async () => found },
  })
  await blind.countReads()
  await blind.write()
  t.match(await read('reader'), { events: 1, bytes: 2, readCpuMs: null }, 'if a process does not know, nobody does')
  found = new Map()
  await blind.countReads()
  await blind.write()
  t.match(await read('reader'), { events: 1, readCpuMs: Math.round(readCpuMs) })
})

t.test('events that are being accepted are stored with the counts, until they are counted or refused', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const sums = { events: 1, bytes: 1 }
  const options = { shards, log: quiet, closing: new AbortController().signal }
  const usage = new Usage({ ...options, commits: [{ metrics: { byProject: new Map([['accepting', sums]]) } }] })
  const other = new Usage({ ...options, commits: [] })
  const seen = async () => {
    const days = [...((await other.others(['accepting'], 10_000)).get('accepting')?.values() ?? [])]
    return days.map(({ events, processes }) => [events, processes])
  }
  const accepting = { pending: 0 }
  usage.include('accepting', accepting)
  await usage.write()
  t.strictSame(await seen(), [[1, 1]])
  accepting.pending = 5
  await usage.write()
  t.strictSame(await seen(), [[6, 1]])
  t.equal(usage.own('accepting').events, 1)
  accepting.pending = 2
  sums.events += 3
  await usage.write()
  t.strictSame(await seen(), [[6, 1]])
  accepting.pending = 0
  await usage.write()
  t.strictSame(await seen(), [[4, 1]], 'some were refused')
})

t.test('events that are being accepted at midnight count on one day', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  for (const accepted of [0, 5]) {
    const project = `accepting ${accepted} at midnight`
    let at = Date.parse('2026-04-30T23:59:59Z')
    const sums = { events: 1, bytes: 1 }
    const commits = [{ metrics: { byProject: new Map([[project, sums]]) } }]
    const usage = new Usage({ shards, commits, log: quiet, closing: new AbortController().signal, now: () => at })
    const stored = async () =>
      [...((await readUsage(shards, [project], { from: '2026-04-01' })).get(project) ?? [])].map(
        ([day, { events }]) => [day, events],
      )
    const accepting = { pending: 5 }
    usage.include(project, accepting)
    await usage.write()
    t.strictSame(await stored(), [['2026-04-30', 6]])
    at += 2_000
    sums.events += accepted
    accepting.pending = 0
    await usage.write()
    t.strictSame(await stored(), [
      ['2026-04-30', 1],
      ['2026-05-01', accepted],
    ])
    await usage.write()
    t.strictSame((await stored())[0], ['2026-04-30', 1])
  }
})

t.test('the quotas of many projects are checked together', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const today = Date.now()
  const now = () => today
  const yesterday = today - 86_400_000
  const store = async (projectId: string, ms: number, names: string[]) => {
    const body = Buffer.from(JSON.stringify({ events: names.map((event) => ({ event, distinct_id: 'u' })) }))
    const position = BigInt(ms) << 16n
    const entry = { position, kind: 'events', projectId, count: names.length, receivedAt: ms, body } as const
    await insertEvents(shards.first, 7, [entry], `${projectId} ${ms}`, AbortSignal.timeout(60_000))
  }
  await store('a', yesterday, ['old'])
  await store('b', yesterday, ['new to others'])
  await store('a', today, ['old', 'new', 'new to others'])
  await store('b', today, ['new', 'new', 'new to others'])
  const limit = { limit: 1, mode: 'soft' as const }
  const limited = (quotas: object) => ({
    settings: changeSettings(DEFAULT_SETTINGS, { quotas }),
    revision: 1,
    updatedAt: 0,
  })
  const list = new Map([
    ['a', limited({ new_event_names_per_day: limit, stored_bytes: limit, events_per_day: limit })],
    ['b', limited({ new_event_names_per_day: limit, events_per_month: limit })],
    ['empty', limited({ new_event_names_per_day: limit, stored_bytes: limit })],
    ['none', limited({})],
  ])
  const projects = { list: () => list, get: (id: string) => list.get(id) ?? limited({}) }
  const byProject = new Map([
    ['a', { events: 3, bytes: 30 }],
    ['b', { events: 5, bytes: 50 }],
  ])
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const closing = ending.signal
  const usage = new Usage({ shards, commits: [{ metrics: { byProject } }], log: quiet, closing, now })
  const earlier = new Usage({ shards, commits: [{ metrics: { byProject } }], log: quiet, closing, now })
  await earlier.write()
  const watch = new QuotaWatch({ projects, usage, shards, log: quiet, closing, now })
  const ids = [...list.keys()]
  const names = (await watch.read(ids, shards)).map(({ name }) => name)
  t.notOk(names.includes('new_event_names_per_day'), 'a call reads no names')
  void watch.start()
  await until('the names', () => watch.statuses.length === 7)
  const statuses = await watch.read(ids, shards)
  const used = Object.fromEntries(statuses.map(({ projectId, name, used }) => [`${projectId} ${name}`, used]))
  t.match(used, {
    'a events_per_day': 6,
    'b events_per_month': 10,
    'a new_event_names_per_day': 2,
    'b new_event_names_per_day': 1,
    'empty new_event_names_per_day': 0,
    'empty stored_bytes': 0,
  })
  t.ok(Number(used['a stored_bytes']) > 0)
  t.equal(statuses.length, 7)
  const copied = async () => Number((await readStoredBytes(shards, ['copied'])).get('copied'))
  for (const table of ['event_facts', 'aliases']) {
    const bytes = await copied()
    await shards.first.command(`INSERT INTO ${table} (project_id) VALUES ('copied')`)
    t.ok((await copied()) > bytes, `stored bytes include those of ${table}`)
  }
})

t.test('a quota is checked although the names of a project cannot be read', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const limit = { limit: 1, mode: 'soft' as const }
  const quotas = { new_property_names_per_day: limit, stored_bytes: limit }
  const shop = { settings: changeSettings(DEFAULT_SETTINGS, { quotas }), revision: 1, updatedAt: 0 }
  const projects = { list: () => new Map(['faulty', 'sound'].map((id) => [id, shop])), get: () => shop }
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const { signal } = closing
  const usage = new Usage({ shards, commits: [], log: quiet, closing: signal })
  const watch = (readNames: () => Promise<never>) => {
    const faulty = new Proxy(shards, {
      get: (target, key) => {
        if (key === 'rows') {
          const rows: typeof target.rows = (query, parameters, ...rest) =>
            parameters?.project === 'faulty' ? readNames() : target.rows(query, parameters, ...rest)
          return rows
        }
        const value = Reflect.get(target, key)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const watch = new QuotaWatch({ projects, usage, shards: faulty, log: quiet, closing: signal, everyMs: 50 })
    void watch.start()
    return watch
  }
  const failing = watch(() => Promise.reject(new Error('too many names')))
  await until('the names of the other project', () =>
    failing.statuses.some(({ projectId, name }) => projectId === 'sound' && name === 'new_property_names_per_day'),
  )
  const stalled = watch(() => new Promise(() => undefined))
  await until('the bytes of both', () => stalled.storedBytes('sound') === 0 && stalled.storedBytes('faulty') === 0)
  const read = await stalled.read(['faulty'], shards)
  t.strictSame(
    read.map(({ name }) => name),
    ['stored_bytes'],
    'reading the quotas does not wait for the names',
  )
})

t.test('names of properties are new on the first day that has them', async (t) => {
  const { shards, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const noon = Date.parse('2026-03-31T12:00:00Z')
  let at = noon
  const store = async (properties: object[], ms = at) => {
    const events = properties.map((properties) => ({ event: 'e', distinct_id: 'u', properties }))
    const body = Buffer.from(JSON.stringify({ events }))
    const entry = { kind: 'events', projectId: 'named', count: events.length, receivedAt: ms, body } as const
    const position = BigInt(ms) << 16n
    await insertEvents(shards.first, 7, [{ ...entry, position }], `names ${ms}`, AbortSignal.timeout(60_000))
  }
  const names = new PropertyNames(shards, new AbortController().signal)
  const used = () => names.countNew('named', at)

  await store([{ plan: 1 }], noon - 86_400_000)
  await store([{ plan: 1, price: { amount: 2 } }, {}, { coupon: 'x' }])
  t.equal(await used(), 2, 'the names in an object do not count')
  at += 60_000
  await store([{ plan: 1, coupon: 'y' }, { 'é "': null }])
  t.equal(await used(), 3)
  await store([{ late: 1 }], at - 30_000)
  t.equal(await used(), 4, 'an event that was stored later than others')
  at = Date.parse('2026-03-31T23:59:59Z')
  await store([{ evening: 1 }])
  at = Date.parse('2026-04-01T00:00:30Z')
  await store([{ plan: 1, coupon: 1, evening: 1, april: 1 }])
  t.equal(await used(), 1, 'the counts of the day before are known, whether or not they were read before')

  const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`name ${i}`, 1]))
  at += 60_000
  await store([many])
  t.ok(Number(await used()) > 9_900)
  at += 86_400_000
  await store([{ plan: 1 }])
  t.equal(await used(), null, 'old names that do not fit do not count as new on the next day')
})
