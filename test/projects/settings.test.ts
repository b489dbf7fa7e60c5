import fc from 'fast-check'
import t from 'tap'
import { command } from '../../src/cli/projects.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { changeSettings, DEFAULT_SETTINGS, keptSince, listSet } from '../../src/contract/project-settings.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { COMMAND_LINE } from '../../src/model/audit-entry.js'
import { changeProject, readProject } from '../../src/projects/projects.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { run } from '../cli/lanes-store.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { LANES, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

const DAY_MS = 86_400_000

t.test('keptSince counts days, weeks, and months of the calendar', async (t) => {
  const since = (keep: string, now: string) => new Date(keptSince(keep, Date.parse(now))).toISOString()
  t.equal(since('1d', '2026-03-01T12:00:00Z'), '2026-02-28T12:00:00.000Z')
  t.equal(since('2w', '2026-03-15T00:00:00Z'), '2026-03-01T00:00:00.000Z')
  t.equal(since('25m', '2026-11-26T08:09:10.011Z'), '2024-10-26T08:09:10.011Z')
  t.equal(since('1m', '2026-03-31T00:00:00Z'), '2026-02-28T00:00:00.000Z')
  t.equal(since('12m', '2024-02-29T00:00:00Z'), '2023-02-28T00:00:00.000Z')
  t.equal(since('1y', '2025-01-01T00:00:00Z'), '2024-01-01T00:00:00.000Z')
  t.equal(keptSince('99999y', Date.now()), 0)
  const keep = fc.tuple(fc.integer({ min: 1, max: 500 }), fc.constantFrom('d', 'w', 'm', 'y'))
  fc.assert(
    fc.property(keep, fc.nat(4e12), fc.nat(1e10), ([count, unit], now, later) => {
      const at = keptSince(`${count}${unit}`, now)
      return at <= now && keptSince(`${count}${unit}`, now + later) >= at && keptSince(`${count + 1}${unit}`, now) <= at
    }),
  )
})

t.test('a change replaces only the settings that it names, and null sets the default', async (t) => {
  const one = changeSettings(DEFAULT_SETTINGS, { timezone: 'Europe/Vienna', keep: { events: '25m' } })
  const two = changeSettings(one, { keep: { sessions: '90d' }, name: 'Shop' })
  t.match(two, { name: 'Shop', timezone: 'Europe/Vienna', keep: { events: '25m', sessions: '90d', profiles: null } })
  t.strictSame(listSet(two), { name: 'Shop', timezone: 'Europe/Vienna', keep: { events: '25m', sessions: '90d' } })
  t.strictSame(changeSettings(two, { name: null, timezone: null, keep: null }), DEFAULT_SETTINGS)
})

t.test('settings can be changed although ClickHouse has lost the last change', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const shards = Shards.of(clickhouse)
  const change = (name: string) => changeProject(shards, 'a', { name }, { by: COMMAND_LINE })
  await change('one')
  await change('two')
  await clickhouse.command('ALTER TABLE projects DELETE WHERE version = 2', {}, { mutations_sync: '2' })
  t.match(await change('three'), { settings: { name: 'three' }, revision: 3 })
  t.match(await readProject(shards, 'a'), { settings: { name: 'three' }, revision: 3 })
})

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
    const client = await startApp(t, env, { keysRefreshMs: 300 })
    const { call } = client
    const read = async () => (await call('GET', '/public/project')).json().project

    t.test('settings have defaults, and are changed one by one', async (t) => {
      t.strictSame(await read(), { id: 'default', ...DEFAULT_SETTINGS, revision: 0, updated_at: 0 })
      const change = {
        timezone: 'Asia/Tokyo',
        week_start: 'sunday',
        quotas: { events_per_day: { limit: 5, mode: 'soft' } },
      }
      const changed = await call('PATCH', '/public/project', change)
      t.match(changed.json(), { status: 1, error: null, project: { ...change, revision: 1 } })
      t.match(await read(), change)
      await call('PATCH', '/public/project', { week_start: null, quotas: null, timezone: null })
      const project = await read()
      t.match(project, { ...DEFAULT_SETTINGS, revision: 2 })
      for (const nothing of [{}, { timezone: null, keep: {} }, { revision: 2 }])
        t.match((await call('PATCH', '/public/project', nothing)).json(), { status: 1, project })
      t.strictSame(await read(), project, 'a change of nothing is none')
    })

    t.test('a wrong value is refused with its path, and changes nothing', async (t) => {
      const { revision } = await read()
      const wrong: [object, string, RegExp][] = [
        [{ timezone: 'Vienna' }, '/timezone', /must be an IANA time zone/],
        [{ timezone: '+02:00' }, '/timezone', /IANA/],
        ...['PST', 'ist', 'BST', 'JST', 'ACT'].map((timezone): [object, string, RegExp] => [
          { timezone },
          '/timezone',
          /IANA/,
        ]),
        [{ week_start: 'tuesday' }, '/week_start', /monday, sunday/],
        [{ keep: { events: '30' } }, '/keep/events', /such as 90d/],
        [{ keep: { events: '0d' } }, '/keep/events', /such as 90d/],
        [{ keep: { event: '30d' } }, '/keep/event', /events, sessions, profiles/],
        [
          { quotas: { events_per_day: { limit: 0, mode: 'hard' } } },
          '/quotas/events_per_day/limit',
          /whole number from 1/,
        ],
        [{ quotas: { events_per_day: 5 } }, '/quotas/events_per_day', /limit/],
        [
          { quotas: { new_event_names_per_day: { limit: 5, mode: 'hard' } } },
          '/quotas/new_event_names_per_day/mode',
          /must be soft/,
        ],
        [{ currency: 'euro' }, '/currency', /ISO 4217/],
        [{ name: '' }, '/name', /1 to 100/],
        [{ name: ' ' }, '/name', /not only spaces/],
        [{ name: 'Shop\u001b[2J' }, '/name', /without control characters/],
        [{ name: 'Shop\u202e' }, '/name', /without control characters/],
        [{ name: '\ud83d\ude00'.repeat(101) }, '/name', /1 to 100/],
        [{ time_zone: 'UTC' }, '/time_zone', /timezone/],
        [{ sessions: 'gap' }, '/sessions', /"id", or an object such as/],
        [{ sessions: { gap: '30s' } }, '/sessions/gap', /from "1m" to "24h"/],
        [{ sessions: { gap: '30m', wher: null } }, '/sessions/wher', /is unknown/],
        [{ sessions: { gap: '30m', where: ['is', 'plan', ['pro']] } }, '/sessions/where/1', /such as properties.plan/],
        [{ sessions: { gap: '30m', where: ['is', 'event', ['x'.repeat(5000)]] } }, '/sessions', /at most 4000/],
        [
          { sessions: { gap: '30m', where: ['and', Array(10).fill(['set', 'event'])] } },
          '/sessions/where/1/9',
          /a project has at most 10 filters/,
        ],
        [
          { sessions: { gap: '30m', where: ['matches', 'event', '(?:a{1000}){6}'] } },
          '/sessions/where',
          /smaller regular expressions/,
        ],
        [{ sessions: { gap: '30m', where: ['matches', 'event', ['a', '(']] } }, '/sessions/where/2/1', /RE2/],
        [{ sessions: { gap: '30m', where: ['not', ['matches', 'event', '(?=a)']] } }, '/sessions/where/1/2', /RE2/],
        [{ page_views: 'page' }, '/page_views', /list of at most 100 names/],
        [{ page_views: ['page', ''] }, '/page_views/1', /1 to 255/],
        [{ page_views: Array(101).fill('page') }, '/page_views', /at most 100/],
        [{ page_fields: { host: [] } }, '/page_fields/host', /url, path, title/],
        [{ page_fields: { url: ['url'] } }, '/page_fields/url/0', /must be a property, such as properties.url/],
        [{ page_fields: { url: ['properties.a', 'user.url'] } }, '/page_fields/url/1', /properties.url/],
        [{ page_fields: { url: ['properties.a.b.c.d.e.f'] } }, '/page_fields/url/0', /at most 5 names/],
        [{ page_fields: { url: ['properties.'] } }, '/page_fields/url/0', /properties.url/],
        [{ page_fields: { url: Array(11).fill('properties.a') } }, '/page_fields/url', /at most 10/],
      ]
      for (const [body, path, message] of wrong) {
        const response = await call('PATCH', '/public/project', body)
        t.equal(response.statusCode, 400, JSON.stringify(body))
        t.match(response.json().details[0], { path, message })
        const dry = await call('PATCH', '/public/project', { ...body, dry_run: true })
        t.match(dry.json().details?.[0], { path, message }, 'a dry run says the same')
      }
      t.equal((await read()).revision, revision)
    })

    t.test('of concurrent changes, none is lost, and an expected revision is checked', async (t) => {
      const { revision } = await read()
      const names = ['name', 'currency', 'timezone', 'first_view', 'number_format', 'week_start']
      const values = ['Shop', 'EUR', 'Europe/Vienna', 'live', '1234.5', 'sunday']
      const all = names.map((name, i) => call('PATCH', '/public/project', { [name]: values[i] }))
      for (const { statusCode, body } of await Promise.all(all)) t.equal(statusCode, 200, body)
      t.match(await read(), {
        ...Object.fromEntries(names.map((name, i) => [name, values[i]])),
        revision: revision + 6,
      })
      const late = await call('PATCH', '/public/project', { name: 'Late', revision })
      t.equal(late.statusCode, 409)
      t.equal(late.json().code, 'revision_conflict')
      const dry = await call('PATCH', '/public/project', { name: 'Late', revision, dry_run: true })
      t.equal(dry.json().code, 'revision_conflict', 'a dry run says the same')
      t.equal((await call('PATCH', '/public/project', { name: 'In time', revision: revision + 6 })).statusCode, 200)
    })

    t.test('each change is in the audit log, with its key or the command', async (t) => {
      const entries = async () => (await call('GET', '/public/audit?limit=100')).json().entries
      await call('PATCH', '/public/project', { name: 'Before', keep: { profiles: null }, quotas: null })
      const earlier = (await entries()).length
      const quota = { limit: 7, mode: 'soft' }
      const change = { name: 'After', keep: { profiles: '2y' }, quotas: { stored_bytes: quota } }
      await call('PATCH', '/public/project', { ...change, dry_run: true })
      t.equal((await call('PATCH', '/public/project', { name: 'x', revision: 0 })).statusCode, 409)
      t.equal((await entries()).length, earlier, 'a dry run and a refused change are not')
      await call('PATCH', '/public/project', change)
      await call('PATCH', '/public/project', change)
      t.equal((await entries()).length, earlier + 1, 'a call that changes nothing is not')
      await run(command, ['set', 'default', '--name', 'default', '--keep-profiles', 'default'], {
        ...process.env,
        ...env,
      })
      const [byCommand, byKey] = await entries()
      t.match(byKey, { actor: { type: 'key', id: 'SECRET_KEY' }, action: 'project_changed', target: null })
      t.strictSame(byKey.changes, {
        name: { from: 'Before', to: 'After' },
        'keep.profiles': { from: null, to: '2y' },
        'quotas.stored_bytes': { from: null, to: quota },
      })
      t.match(byCommand, { actor: { type: 'command_line' }, action: 'project_changed' })
      t.strictSame(byCommand.changes, {
        name: { from: 'After', to: null },
        'keep.profiles': { from: '2y', to: null },
      })
      await until('the service to know', async () => (await read()).name === null)
      await call('PATCH', '/public/project', { quotas: null })
    })

    t.test('questions without a time zone or week start use those of the project', async (t) => {
      await call('PATCH', '/public/project', { timezone: 'Asia/Tokyo', week_start: 'sunday' })
      const series = {
        kind: 'series',
        series: [{ event: 'e' }],
        from: '2026-01-01',
        to: '2026-01-15',
        interval: 'week',
      }
      const ask = async (more: object) => (await call('POST', '/public/query', { ...series, ...more })).json().query
      t.match(await ask({}), { timezone: 'Asia/Tokyo', week_start: 'sunday' })
      t.match(await ask({ timezone: null }), { timezone: 'Asia/Tokyo', week_start: 'sunday' })
      t.match(await ask({ timezone: 'UTC', week_start: 'monday' }), { timezone: 'UTC', week_start: 'monday' })
      const users = { kind: 'users', of: series, cell: { series: 0, breakdown: [] } }
      t.match((await call('POST', '/public/query', users)).json().query.of, { timezone: 'Asia/Tokyo' })
    })

    t.test('page fields, page views and sessions follow the settings of the project, also for the past', async (t) => {
      const url = 'https://shop.example/x?utm_source=mail'
      const event = (name: string, properties: object, minute: number) => {
        return {
          event: name,
          distinct_id: 'u',
          timestamp: Date.parse('2026-02-02T10:00Z') + minute * 60_000,
          properties,
        }
      }
      const events = [
        event('$pageview', { url, ref: 'partner', 'a.b': { c: 'dotted' } }, 0),
        event('opened', { from: { url: 'https://shop.example/y' }, from_: 5 }, 20),
      ]
      t.equal((await call('POST', '/public/track/batch', { events })).statusCode, 200)
      const ask = async (event: string, breakdown: string[]) => {
        const range = { from: '2026-02-01', to: '2026-02-04', interval: 'none', timezone: 'UTC' }
        const question = { kind: 'series', series: [{ event }], breakdown, ...range }
        const { results, query } = (await call('POST', '/public/query', question)).json()
        return { values: results.map((line: { breakdown: unknown[] }) => line.breakdown), query }
      }
      const values = async () => {
        const path = `/public/schema/values?field=page.source&event=${encodeURIComponent('$pageview')}`
        return (await call('GET', path)).json().values
      }
      t.strictSame((await ask('$pageview', ['page.source'])).values, [['mail']])
      t.match(await values(), [{ value: 'mail' }])
      t.strictSame((await ask('$session', ['session.pages'])).values, [], 'there are no session ids')
      const change = {
        page_views: ['opened'],
        page_fields: {
          source: ['properties.ref', ['properties', 'a.b', 'c']],
          url: ['properties.from', 'properties.from.url'],
        },
        sessions: { gap: '15m', where: ['is', 'event', ['opened', '$pageview']] },
      }
      t.match((await call('PATCH', '/public/project', change)).json().project, change)
      t.strictSame((await ask('$pageview', ['page.source', 'page.path'])).values, [['partner', null]])
      t.match(await values(), [{ value: 'partner' }], 'earlier samples do not count')
      t.strictSame((await ask('opened', ['page.path'])).values, [['/y']])
      const sessions = await ask('$session', ['session.pages'])
      t.strictSame(sessions.values.sort(), [[0], [1]])
      t.strictSame(sessions.query.sessions, change.sessions)
      await call('PATCH', '/public/project', {
        page_fields: { source: ['properties.a.b', ['properties', 'a.b', 'c']], url: null },
      })
      t.strictSame((await ask('$pageview', ['page.source', 'page.path'])).values, [['dotted', '/x']])
      t.match((await read()).page_fields, {
        ...DEFAULT_SETTINGS.page_fields,
        source: ['properties.a.b', ['properties', 'a.b', 'c']],
      })
      await call('PATCH', '/public/project', { page_fields: null, page_views: [], sessions: null })
      t.match(await read(), { page_fields: DEFAULT_SETTINGS.page_fields, page_views: [], sessions: 'id' })
      await call('PATCH', '/public/project', { page_views: null })
    })

    t.test('no default makes a question fail', async (t) => {
      const range = { from: '2026-02-01', to: '2026-02-04', interval: 'none', timezone: 'UTC' }
      const ask = async (where: object) => {
        const questions = ['a', '$session'].map((event) => ({ kind: 'series', series: [{ event }], where, ...range }))
        const answers = questions.map((question) => call('POST', '/public/query', question))
        return (await Promise.all(answers)).map(({ statusCode }) => statusCode)
      }
      const matches = (count: number) => ['matches', 'event', Array.from({ length: count }, (_, i) => `a{900}${i}`)]
      const patterns = ['and', [...Array(8).fill(['set', 'event']), matches(5)]]
      const sessions = { gap: '30m', where: patterns }
      t.match((await call('PATCH', '/public/project', { sessions })).json().project, { sessions })
      t.strictSame(await ask(['and', Array(99).fill(['set', 'event'])]), [200, 200])
      t.strictSame(await ask(matches(55)), [200, 200])
      t.strictSame(await ask(['and', Array(100).fill(['set', 'event'])]), [400, 400])
      t.strictSame(await ask(matches(62)), [422, 422])
      await call('PATCH', '/public/project', { sessions: null })
    })

    t.test('a read key reads them; others may not', async (t) => {
      const { clickhouse, close } = await openStore(client.config)
      const kinds = (['read', 'write', 'public'] as const).map((kind) => ({ kind, key: makeKey(kind) }))
      await insertKeys(
        clickhouse,
        kinds.map(({ kind, key }) => storedKey(key, { projectId: 'default', kind })),
        Date.now(),
      )
      await close()
      for (const { kind, key } of kinds) {
        const headers = { 'x-api-key': key }
        t.equal((await call('GET', '/public/project', undefined, headers)).statusCode, kind === 'read' ? 200 : 403)
        t.equal((await call('PATCH', '/public/project', { name: 'x' }, headers)).statusCode, 403)
      }
    })

    t.test('the command lists, shows and sets', async (t) => {
      const projects = (...args: string[]) => run(command, args, { ...process.env, ...env })
      await call('PATCH', '/public/project', { name: null, currency: null, number_format: null, first_view: null })
      t.match(await projects('list'), { code: 0, printed: 'default  Asia/Tokyo\n' })
      t.match((await projects('show', 'default')).printed, /^timezone: Asia\/Tokyo$/m)
      const set = ['--keep-events', '25m', '--quota', 'events_per_day=100:hard', '--timezone', 'default', '--json']
      const { printed } = await projects('set', 'default', ...set)
      t.match(JSON.parse(printed), {
        timezone: 'UTC',
        keep: { events: '25m' },
        quotas: { events_per_day: { limit: 100, mode: 'hard' } },
      })
      await until('the service to know', async () => (await read()).keep.events === '25m')
      await call('POST', '/public/track', { event: 'e', distinct_id: 'u', timestamp: Date.now() - 40 * DAY_MS })
      await call('GET', '/public/events')
      const dry = await projects('set', 'default', '--keep-events', '30d', '--dry-run')
      t.match(dry, { code: 0, printed: /^3 events would expire, from 20.*, less than 1 MB\.\n/ })
      t.equal((await read()).keep.events, '25m')
      await t.rejects(projects('set', 'default', '--keep-events', 'soon'), {
        message: /^--keep-events must be a number of days.*, or "default"\.$/,
      })
      await t.rejects(projects('set', 'default', '--quota', 'events=1'), { message: /^--quota must be NAME/ })
      await t.rejects(projects('set', 'default', '--sessions', '3s'), { message: /^--sessions must be a whole number/ })
      await t.rejects(projects('set', 'default', '--page-field', 'url=link'), {
        message: /^--page-field url must be a/,
      })
      await t.rejects(projects('set', 'default', '--page-field', 'host=x'), { message: /one of the names url, path/ })
      const hostile = await projects('set', 'default', '--page-view', 'a\u001b[2J')
      t.match(hostile.printed, /^page_views: a\\u\{1b\}\[2J$/m)
      const pages = ['--page-view', 'opened', '--page-view', 'seen', '--sessions', '45m']
      const source = ['--page-field', 'source=properties.ref,properties.from.site', '--page-field', 'url=default']
      t.match(JSON.parse((await projects('set', 'default', ...pages, ...source, '--json')).printed), {
        page_views: ['opened', 'seen'],
        page_fields: { source: ['properties.ref', 'properties.from.site'], url: DEFAULT_SETTINGS.page_fields.url },
        sessions: { gap: '45m' },
      })
      const shown = (await projects('show', 'default')).printed
      t.match(shown, /^page_fields.source: properties.ref, properties.from.site$/m)
      t.match(shown, /^sessions: {"gap":"45m"}$/m)
      const json = '{"gap":"45m","where":["is","event",["opened"]]}'
      t.match((await projects('set', 'default', '--sessions', json)).printed, /^sessions: {"gap":"45m","where":/m)
      await projects(
        'set',
        'default',
        '--page-view',
        'default',
        '--page-field',
        'source=default',
        '--sessions',
        'default',
        '--quota',
        'events_per_day=default',
      )
      const today = new Date().toISOString().slice(0, 10)
      await until('the usage', async () => {
        const { printed } = await projects('usage', 'default')
        const heading = 'day,project,events,bytes,stored_bytes,read_cpu_seconds'
        return new RegExp(`^${heading}\r\n${today},default,3,\\d+,\\d+,[\\d.]+\r\n$`).test(printed)
      })
      const [line = '{}'] = (await projects('usage', '--from', today, '--json')).printed.split('\n')
      t.match(JSON.parse(line), { day: today, project: 'default', events: 3 })
      t.notMatch((await projects('usage', '--to', '2026-01-01')).printed, /default/)
      await t.rejects(projects('usage', '--from', '2026-02-30'), { message: /^--from must be a date such as/ })
      await t.rejects(projects('usage', '--from', '2149-01-01'), { message: /^--from must not be after --to/ })
      await t.rejects(projects('usage', 'defautl'), { message: /There is no project defautl/ })
      const url = await client.app.listen({ port: 0, host: '127.0.0.1' })
      const target = ['--url', url]
      await t.rejects(projects('remove', 'default', ...target), { message: /To confirm, add: --yes default$/ })
      await t.rejects(projects('remove', 'default', '--yes', 'defautl', ...target), { message: /add: --yes default/ })
      await t.rejects(projects('remove', 'other', '--yes', 'other', ...target), {
        message: /The key belongs to project default\. Use a secret key of other/,
      })
      t.equal((await read()).keep.events, '25m', 'nothing was removed')
      const removed = await projects('remove', 'default', '--yes', 'default', ...target)
      t.match(removed, { code: 0, noted: /Project default: 3 events, 0 profiles, .*keys are still valid/ })
      const { entries } = (await call('GET', '/public/audit?limit=2')).json()
      t.match(entries, [{ action: 'project_changed' }, { action: 'project_erased', actor: { id: 'SECRET_KEY' } }])
      t.match(await read(), DEFAULT_SETTINGS)
      t.strictSame(await client.events(), [])
      const { clickhouse, shards, close } = await openStore(client.config)
      t.teardown(close)
      await changeProject(shards, 'without keys', { name: 'Old shop' }, { by: COMMAND_LINE })
      await changeProject(shards, 'erased', { name: 'Erased' }, { by: COMMAND_LINE })
      await changeProject(shards, 'erased', { name: null }, { by: COMMAND_LINE })
      await insertKeys(clickhouse, [storedKey(makeKey('read'), { projectId: 'default', kind: 'read' })], Date.now())
      t.equal((await projects('list')).printed, 'default\nwithout keys  Old shop\n')
      t.match((await projects('show', 'without keys')).printed, /^name: Old shop$/m)
      await t.rejects(projects('set', 'defautl', '--name', 'x'), { message: /There is no project defautl/ })
    })
  })
}

t.test('a service that starts without ClickHouse stores nothing that a project may have forbidden', async (t) => {
  const { CLICKHOUSE_URL = '', ...env } = await settingsFor(t, 'servers')
  const proxy = await TcpProxy.open(t, CLICKHOUSE_URL)
  const start = () => startApp(t, { ...env, FACTS: 'off', CLICKHOUSE_URL: proxy.url }, { keysRefreshMs: 300 })
  const before = await start()
  const set = { context: 'off', keep: { events: '30d' }, quotas: { events_per_day: { limit: 3, mode: 'hard' } } }
  t.equal((await before.call('PATCH', '/public/project', set)).statusCode, 200)
  await before.app.close()
  proxy.cut()
  const client = await start()
  const agent =
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
  const authorization = `Basic ${Buffer.from(`${SECRET_KEY}:`).toString('base64')}`
  const track = async (event: string, ageDays = 0) => {
    const timestamp = new Date(Date.now() - ageDays * DAY_MS).toISOString()
    const context = { userAgent: agent, locale: 'de-AT', timezone: 'Europe/Vienna' }
    const body = { event, userId: 'ada', timestamp, context }
    return (await client.call('POST', '/segment/v1/track', body, { authorization })).statusCode
  }
  t.strictSame([await track('during'), await track('expired', 40), await track('expired', 50)], [200, 200, 200])
  proxy.restore()
  await until('ClickHouse', async () => (await client.call('GET', '/public/project')).json().project?.revision === 1)
  const events = await until('the event', async () => {
    const found = await client.events()
    return found.length > 0 && found
  })
  t.strictSame(
    events.map(({ event, context }) => [event, context]),
    [['during', undefined]],
    'neither a context nor an expired event is shown',
  )
  await until('the quota', async () => (await track('more')) === 429)
  await client.call('PATCH', '/public/project', { context: null, quotas: null })
  await until('room', async () => (await track('after')) === 200)
  const after = (await client.events()).find(({ event }) => event === 'after')
  t.match(after?.context, { browser: 'Chrome', country: 'AT' }, 'with the default, there is one')
})
