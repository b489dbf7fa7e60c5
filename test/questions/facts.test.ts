import fc from 'fast-check'
import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { type FieldName, splitField } from '../../src/contract/filters.js'
import { PAGE_FIELDS, PAGE_NAMES, PAGE_PLACES } from '../../src/contract/page-fields.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { formatEventId } from '../../src/model/event-id.js'
import { PageColumns } from '../../src/questions/page-columns.js'
import { Paths } from '../../src/questions/property-paths.js'
import { Questions } from '../../src/questions/run.js'
import { Statement } from '../../src/questions/statement.js'
import { ValueColumns } from '../../src/questions/value-columns.js'
import { hasAliases } from '../../src/store/aliases.js'
import { FACT_COLUMNS, insertFacts, selectFacts } from '../../src/store/fact-columns.js'
import {
  addValueColumns,
  type ColumnSource,
  isPath,
  listValueColumns,
  mayHaveColumn,
  readValueColumns,
  toLiteral,
} from '../../src/store/fact-values.js'
import { until } from '../helper.js'
import { spaces, spell, value } from '../json/spell.js'
import { emptyClickHouse } from '../shared-engine.js'
import { plan } from './generate/data.js'
import { type Asking, askingsOf } from './generate/questions.js'
import { type Project, Projects } from './projects.js'

const { signal } = new AbortController()

const NAMES = ['a', 'b', '', 'a.b', 'ü', '\u{1f600}', '\ud83d', '\u{10fffc}d83d', 'null', '__proto__']
const PATHS = [...NAMES.map((name) => [name]), ...NAMES.map((name) => ['a', name])]
PATHS.push(['', 'a'], ['a', 'b', 'a'], ['a', 'b', 'a', 'b'])

/** JSON that ClickHouse's parser accepts, also in spellings that JavaScript would not write. */
const taken = fc.oneof(
  fc.tuple(value, spaces).map(([one, gaps]) => spell(one, gaps)),
  fc.constantFrom('null', '1.0', '-0', '-0.0', '1e20', '-1e19', '18446744073709551615', '1e-320', '123456789.5e300'),
  fc.constantFrom('"\\u0000"', '"\\ud83d\\ude00"', '"\u2028"', '"\\/"', '"\\\\ud83d"', '"\u{10fffc}d83d"'),
  fc.integer({ min: 20, max: 60 }).map((depth) => `${'{"a":'.repeat(depth)}[]${'}'.repeat(depth)}`),
)
/** A name as a client may spell it. */
const spelled = (name: string, isEscaped: boolean) =>
  isEscaped
    ? `"${Array.from({ length: name.length }, (_, i) => `\\u${name.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
    : JSON.stringify(name)
const refused = fc.constantFrom(
  ...['"\\ud83d"', '"x\\udc00\\ud83d"', '1e400', '-1e400', '36893488147419103232', '"\\\\\\ud83d"', '1e999'],
)

function objects(leaf: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const { object } = fc.letrec<{ object: string; some: string }>((tie) => ({
    some: fc.oneof(
      { maxDepth: 3 },
      leaf,
      leaf,
      tie('object'),
      fc.tuple(tie('some'), leaf).map((all) => `[${all}]`),
    ),
    // The same name may be there twice.
    object: fc
      .array(fc.tuple(fc.constantFrom(...NAMES), tie('some'), fc.boolean()), { maxLength: 6 })
      .map((members) => `{${members.map(([name, text, is]) => `${spelled(name, is)}:${text}`).join(',')}}`),
  }))
  return object
}

const texts = fc.oneof(
  { weight: 3, arbitrary: objects(taken) },
  { weight: 2, arbitrary: objects(fc.oneof({ weight: 6, arbitrary: taken }, { weight: 1, arbitrary: refused })) },
)

/** ClickHouse's time to plan a statement grows faster than the number of its paths. */
const AT_ONCE = 5

/** A token, with one spelling for numbers that are equal in questions. */
const decode = (base64 = '') =>
  Buffer.from(base64, 'base64')
    .toString()
    .replace(/(?<=^|[[,:])-0(?=$|[\],}])/g, '0')
    .replace(/(?<=^|[[,:]-?)\d{16,}(?=$|[\],}])/g, (digits) => BigInt(Number(digits)).toString())

t.test('facts have the values that questions find in the text', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const shards = Shards.of(clickhouse)
  const given = fc.sample(texts, { numRuns: 400, seed: 45 })
  const rows = given.map((properties, index) => ({
    project_id: 'p',
    event_id: formatEventId({ position: 1n << 40n, index, journalId: 1 }),
    event: 'e',
    distinct_id: `user ${index % 7}`,
    timestamp: index,
    received_at: 0,
    properties,
  }))
  const events = rows.map((row) => JSON.stringify(row)).join('\n')
  await clickhouse.command(`INSERT INTO events FORMAT JSONEachRow ${events}`)
  const copy = (from: string) =>
    clickhouse.command(`INSERT INTO event_facts (${FACT_COLUMNS.join(', ')}) ${selectFacts('events', from, '1')}`)
  await copy('timestamp < 200')
  // Every other path has a column, which older parts do not have yet.
  const withColumn = PATHS.filter((path, i) => (path.length === 1 || i % 2 === 0) && mayHaveColumn(path))
  await addValueColumns(clickhouse, withColumn)
  const columns = await listValueColumns(clickhouse)
  t.strictSame(
    Array.from(columns.values(), ({ source }) => source),
    withColumn,
  )
  await clickhouse.command(insertFacts(columns.values(), 'timestamp >= 200 AND timestamp < 350', '2'))
  await copy('timestamp >= 350')
  const known = await readValueColumns(clickhouse)
  t.equal(known.size, withColumn.length)
  const isTaken = Array.from(columns.values(), ({ name, source }) => {
    const path = isPath(source) ? source : []
    return `countIf(${name} != JSONExtractRaw(properties, ${path.map(toLiteral).join(', ')})) AS wrong_${name}`
  })
  const [wrong = {}] = await clickhouse.rows<Record<string, string>>(
    `SELECT ${isTaken.join(', ')}, countIf(refused = isValidJSON(properties)) AS wrong_refused FROM event_facts`,
  )
  t.strictSame(new Set(Object.values(wrong)), new Set(['0']), JSON.stringify(wrong))

  const read = async (source: 'events' | 'facts', some: string[][]) => {
    const context = { projectId: 'p', now: 0, shards, hasAliases: false, repairsTexts: true, pages: DEFAULT_SETTINGS }
    const statement = new Statement(context)
    const paths = new Paths('p')
    for (const path of some) paths.column(path)
    const values = new ValueColumns(known)
    const kept = source === 'facts' ? { find: (source: ColumnSource) => values.find(source), isThere: true } : null
    const raws = paths.raws(statement, 'properties', kept)
    const tokens = paths.tokens(statement, 'properties', kept)
    const rest = kept ? ['properties', 'refused'] : ['properties']
    const table = kept ? 'event_facts' : 'events'
    const names = paths.names.map((name) => `base64Encode(${name})`)
    return await clickhouse.rows<{ found: string[] }>(
      `SELECT [${names.join(', ')}] AS found FROM (SELECT *, ${tokens.join(', ')} FROM
         (SELECT timestamp, ${[...raws, ...rest].join(', ')} FROM ${table})) ORDER BY timestamp`,
      statement.parameters,
    )
  }
  const isRefused = (
    await clickhouse.rows<{ refused: number }>('SELECT refused FROM event_facts ORDER BY timestamp')
  ).map(({ refused }) => refused === 1)
  t.ok(isRefused.filter(Boolean).length > 40)
  t.ok(isRefused.filter((is) => !is).length > 40)
  const parts = Array.from({ length: Math.ceil(PATHS.length / AT_ONCE) }, (_, i) => {
    return PATHS.slice(i * AT_ONCE, (i + 1) * AT_ONCE)
  })
  const expected: { found: string[] }[][] = []
  for (const some of parts) expected.push(await read('events', some))
  const compare = async () => {
    for (const [part, some] of parts.entries()) {
      const found = await read('facts', some)
      t.equal(found.length, given.length)
      const wrong = given.flatMap((text, i) =>
        some.flatMap((path, k) => {
          const [right, wrong] = [expected[part], found].map((rows) => decode(rows?.[i]?.found[k]))
          return right === wrong ? [] : [{ text: text.slice(0, 1000), path, right, wrong }]
        }),
      )
      t.strictSame(wrong.slice(0, 3), [])
    }
  }
  await compare()
  await clickhouse.command('OPTIMIZE TABLE event_facts FINAL')
  await compare()
})

t.test('pages are the same, whether their texts have columns or are in the properties', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const given = [
    '{"url":"https://shop.example/a?b#c","path":"/not-this"}',
    String.raw`{"url":"https:\/\/shop.example\/escaped\u002fp"}`,
    String.raw`{"url":"https://shop.example/\"quoted\""}`,
    '{"url":"https://shop.example/first","url":"https://shop.example/second"}',
    '{"url":"","$current_url":"https://shop.example/current"}',
    '{"url":null,"path":"/of-path"}',
    '{"url":["https://shop.example/list"],"path":"/beside"}',
    '{"url":{"url":"https://shop.example/inside"}}',
    '{"url":12,"context":{"page":{"url":"https://shop.example/context"}}}',
    '{"context":{"page":["https://shop.example/in-an-array"]},"path":"/beside"}',
    '{"url":"{"}',
    '{"url":"-1","list":[1]}',
    '{"url":"true"}',
    '{"url":"//other.example"}',
    '{"path":"/only"}',
    '{"url":"ü\u{1f600}"}',
    '{"url":"https://shop.example/?utm_source=News%20letter&utm_medium=email&utm_term=a+b"}',
    '{"url":"https://shop.example/","referrer":"https://www.google.com/","utm":{"campaign":"spring"}}',
    '{"$referrer":"https://t.co/x","utm_source":"","context":{"campaign":{"source":"bing","medium":"cpc","name":"brand"}}}',
    '{"title":"of a page","utm_medium":7,"utm":{"medium":"social"}}',
    '{}',
    '{"url":"https://shop.example/?gclid=x"}',
  ]
  const rows = given.map((properties, index) => ({
    project_id: 'p',
    event_id: formatEventId({ position: 1n << 40n, index, journalId: 1 }),
    event: 'e',
    distinct_id: 'user',
    timestamp: index,
    received_at: 0,
    properties,
  }))
  const events = rows.map((row) => JSON.stringify(row)).join('\n')
  await clickhouse.command(`INSERT INTO events FORMAT JSONEachRow ${events}`)
  // One has other properties.
  const term: FieldName[] = ['properties.1', ['properties', ''], 'properties.utm_term']
  const page_fields = { ...DEFAULT_SETTINGS.page_fields, term }
  const pages = { ...DEFAULT_SETTINGS, page_fields }
  const shards = Shards.of(clickhouse)
  const context = { projectId: 'p', now: 0, shards, hasAliases: false, repairsTexts: false, pages }
  const read = async (isThere: boolean | null) => {
    const statement = new Statement(context)
    const page = new PageColumns(statement)
    const names = PAGE_NAMES.map((name) => page.column(name))
    const values = new ValueColumns(await readValueColumns(clickhouse))
    const kept = isThere === null ? null : { find: (source: ColumnSource) => values.find(source), isThere }
    const raws = page.raws(kept).join(', ')
    const from = `(SELECT event, timestamp, properties, ${raws} FROM ${isThere ? 'event_facts' : 'events'})`
    const query = `SELECT ${names.join(', ')} FROM ${page.select(from, { kept })} ORDER BY timestamp`
    const settings = { output_format_json_escape_forward_slashes: 0 } as const
    return { found: await clickhouse.rows<Record<string, string>>(query, statement.parameters, settings), values }
  }
  const { found: expected } = await read(null)
  t.equal(expected.length, given.length)
  t.match(expected[0], { page_host: '"shop.example"', page_path: '"/a"' })
  t.match(expected[3], { page_path: '"/first"' })
  t.match(expected[5], { page_url: '', page_path: '"/of-path"' })
  t.match(expected[9], { page_url: '', page_path: '"/beside"' })
  t.match(expected[16], { page_source: '"News letter"', page_medium: '"email"', page_channel: '"Email"' })
  t.match(expected[17], { page_source: '"Google"', page_campaign: '"spring"', page_channel: '"Organic Search"' })
  t.match(expected[18], { page_source: '"bing"', page_channel: '"Paid Search"' })
  t.match(expected[19], { page_medium: '"social"' })
  t.match(expected[21], { page_source: '"Google"', page_medium: '', page_channel: '"Paid Search"' })
  const missing = await read(false)
  t.strictSame(missing.found, expected, 'no columns')
  const { sources } = missing.values
  // The path has one for the lists of the URL and of the path together.
  t.equal(sources.length, PAGE_PLACES.length + 1)
  await clickhouse.command(insertFacts([], 'timestamp < 10', '1'))
  // Some get no column.
  await addValueColumns(clickhouse, [...sources.filter((_, i) => i % 3 !== 1), ['url']])
  const columns = await listValueColumns(clickhouse)
  t.strictSame(
    Array.from(columns.values(), ({ source }) => source).slice(0, -1),
    sources.filter((_, i) => i % 3 !== 1),
  )
  await clickhouse.command(insertFacts(columns.values(), 'timestamp >= 10', '2'))
  t.strictSame((await read(true)).found, expected, 'facts, some columns')
  await addValueColumns(clickhouse, sources)
  const all = await read(true)
  t.strictSame(all.found, expected, 'facts, all columns')
  t.equal(all.values.used.length, sources.length)
  t.strictSame((await read(false)).found, expected, 'later events')
})

/** The part of the events that is in the facts. */
const SHARES = { all: 1, half: 0.5, none: 0 }

/** The parts of an error that a caller sees, for comparisons. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  return { ...error, type: error.constructor.name, message: error.message }
}

/** The values with columns: properties of the generated events, and texts of pages. */
const KEPT: ColumnSource[] = [
  ...['plan', 'n', 'o', 'a', 'url'].map((name) => [name]),
  ...[...PAGE_PLACES.map((place) => PAGE_FIELDS[place]), [...PAGE_FIELDS.url, ...PAGE_FIELDS.path]].map((fields) => {
    return { firstOf: fields.map((field) => splitField(field).slice(1)) }
  }),
]

/** Questions about the fields of pages, of events and of sessions. @param center time of the events, epoch ms */
function askForPages(center: number): Asking[] {
  const range = { from: center - 40 * 86_400_000, to: center + 40 * 86_400_000 }
  const ask = (event: string, breakdown: string[]): Asking => ({
    question: { kind: 'series', ...range, interval: 'none', series: [{ event, metric: 'events' }], breakdown },
    now: center,
  })
  return [
    ask('*', ['page.path', 'page.channel']),
    ask('$session', ['session.entry.page.path']),
    ask('$session', ['session.exit.page.source']),
    ask('$session', ['session.last.page.campaign']),
  ]
}

t.test('questions have the same answers from facts, from facts and events, and from events', async (t) => {
  const projects = await Projects.open(t, 10, { FACTS: 'off' })
  const { shards } = projects
  const { first } = shards
  // When it begins to lead, it empties the table, and records that the table is valid.
  await until('the service to lead', async () => {
    return (await first.rows('SELECT 1 FROM facts_state WHERE generation IN facts_checked LIMIT 1')).length > 0
  })
  const answers = async (project: Project, share: number) => {
    const where = `project_id = '${project.id}'`
    const [row] = await first.rows<{ hi: string }>(
      `SELECT toString(arrayElement(arraySort(groupArray(toUInt128(event_id))), greatest(1, toUInt32(count() * ${share})))) AS hi
       FROM events WHERE ${where}`,
    )
    const point = {
      hi: BigInt(share === 0 ? 0 : (row?.hi ?? 0)),
      step: 1,
      epoch: 1,
      begun: 1,
      generation: 1,
      changes: '',
    }
    const copied = `${where} AND toUInt128(event_id) <= toUInt128('${point.hi}')`
    await first.command(`ALTER TABLE event_facts DELETE WHERE ${where}`, {}, { mutations_sync: '1' })
    const columns = FACT_COLUMNS.join(', ')
    await first.command(`INSERT INTO event_facts (${columns}) ${selectFacts('events', copied, '1')}`)
    // The rows of a later step, which is still running, are also in `events`.
    await first.command(
      `INSERT INTO event_facts (${columns}) ${selectFacts('events', `${where} AND NOT (${copied})`, '2')}`,
    )
    const clock = { now: 0 }
    let readings = 0
    const questions = new Questions({
      shards,
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: (id) => hasAliases(shards, id) },
      limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
      now: () => clock.now,
      ...(share > 0 && {
        facts: {
          point: async () => {
            readings++
            const isPart = share < 1
            const shard = { ...point, isStepping: isPart, hasLater: isPart }
            return {
              shards: [shard],
              order: [0],
              isStepping: isPart,
              isMoving: false,
              hasLater: isPart,
              sessionDays: [],
            }
          },
          stillHolds: async () => true,
          readColumns: () => readValueColumns(first),
          // These would make the question read events.
          forgetColumns: () => t.fail('a column is missing'),
          noteDamage: async () => void t.fail('a part is damaged'),
          noteSlow: async () => undefined,
          noteUsed: async () => undefined,
          noteSessions: async () => undefined,
        },
      }),
    })
    return async ({ question, now }: Asking) => {
      clock.now = now
      readings = 0
      const asked = questions.ask(project.id, question, signal)
      const answer = await asked.then(({ results, averages }) => ({ results, averages }), describeError)
      if (share > 0) t.ok(readings > 0, `share ${share}: ${JSON.stringify(question)} reads facts`)
      return answer
    }
  }
  await addValueColumns(first, KEPT)
  let asked = 0
  for (const data of fc.sample(plan(), { seed: 45, numRuns: 1 })) {
    const project = await projects.load(data)
    const askings: Asking[] = [
      ...fc.sample(fc.oneof(...Object.values(askingsOf(data))), { seed: 45, numRuns: 4 }),
      ...askForPages(data.center),
    ]
    const found: unknown[][] = []
    for (const share of Object.values(SHARES)) {
      const ask = await answers(project, share)
      const list: unknown[] = []
      for (const asking of askings) list.push(await ask(asking))
      found.push(list)
    }
    for (const [i, asking] of askings.entries()) {
      const [all, half, none] = found.map((list) => list[i])
      t.strictSame(all, none, `all facts: ${JSON.stringify(asking)}`)
      t.strictSame(half, none, `half: ${JSON.stringify(asking)}`)
      asked++
    }
  }
  t.equal(asked, 4 + 4)
})

t.test('a result from facts is discarded if they have changed in the meantime', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const columns = FACT_COLUMNS.join(', ')
  const TIME = Date.parse('2026-04-20T10:00:00Z')
  const store = async (table: string, events: [event: string, timestamp: number, properties: string][]) => {
    const rows = events.map(([event, timestamp, properties], index) => {
      const event_id = formatEventId({ position: 1n << 40n, index, journalId: 1 })
      return JSON.stringify({
        ...{ project_id: 'p', event_id, event, distinct_id: 'u', timestamp, received_at: 0, properties },
      })
    })
    await clickhouse.command(`INSERT INTO ${table} FORMAT JSONEachRow ${rows.join('\n')}`)
  }
  await clickhouse.command('CREATE TABLE other_events AS events')
  t.teardown(() => clickhouse.command('DROP TABLE other_events'))
  const ordinary = '{"v":"x"}'
  await store('events', [
    ['a', TIME, ordinary],
    ['b', TIME + 1, ordinary],
  ])
  // Simultaneous, and with half a surrogate pair.
  await store('other_events', [
    ['b', TIME, String.raw`{"v":"\ud83dx"}`],
    ['a', TIME, ordinary],
  ])
  await clickhouse.command(`INSERT INTO event_facts (${columns}) ${selectFacts('other_events', '1', '1')}`)

  const statements: string[] = []
  const rows: ClickHouse['rows'] = async (query, ...rest) => {
    statements.push(query)
    return await clickhouse.rows(query, ...rest)
  }
  const shard = {
    hi: 1n << 127n,
    step: 1,
    isStepping: false,
    epoch: 1,
    begun: 1,
    generation: 1,
    changes: '',
    hasLater: false,
  }
  const questions = new Questions({
    shards: Shards.of(Object.assign(Object.create(clickhouse), { rows })),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    facts: {
      point: async () => ({
        shards: [shard],
        order: [0],
        isStepping: false,
        isMoving: false,
        hasLater: false,
        sessionDays: [],
      }),
      stillHolds: async () => false,
      readColumns: async () => new Set<string>(),
      forgetColumns: () => undefined,
      noteSlow: async () => undefined,
      noteUsed: async () => undefined,
      noteSessions: async () => undefined,
      noteDamage: async () => undefined,
    },
  })
  const range = { from: '2026-04-20', to: '2026-04-21' }
  const [line] = (
    await questions.ask(
      'p',
      { kind: 'series', series: [{ event: 'b' }], where: ['is', 'properties.v', ['x']], interval: 'none', ...range },
      signal,
    )
  ).results as { total: number }[]
  t.equal(line?.total, 1)
  const [funnel] = (
    await questions.ask('p', { kind: 'funnel', steps: [{ event: 'a' }, { event: 'b' }], ...range }, signal)
  ).results as { steps: { users: number }[] }[]
  t.strictSame(
    funnel?.steps.map(({ users }) => users),
    [1, 1],
  )
  t.ok(statements.some((sql) => sql.includes('event_facts')))
  t.notOk(
    statements.some((sql) => sql.includes('AS repaired')),
    'no text is repaired',
  )
  t.notOk(
    statements.some((sql) => sql.includes('AS id')),
    'no id is read',
  )
})
