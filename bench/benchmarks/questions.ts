import type { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { getKind } from '../../src/questions/kinds.js'
import { readQuestion } from '../../src/questions/parse.js'
import { NEEDLESS_REWRITES } from '../../src/questions/server-settings.js'
import type { FactsBounds } from '../../src/questions/statement.js'
import { type Bench, type Benchmark, eachRound, get, untilVisible } from '../benchmark.js'
import { call, OverloadedError, time } from '../calls.js'
import { load } from '../load.js'
import { batches, type HttpRequest, writeRequests } from '../requests.js'
import { PROJECT, Store } from '../store.js'
import { fillYear, YEAR } from '../year.js'

const EVENTS = 20_000_000
const LARGE_EVENTS = 100_000_000
const CONNECTIONS = 8
const OVER_SQL = { of: 'ratio', target: 1.15, stretch: 1.05, plus: 3 } as const
const UNHURT = { of: 'ratio', target: 0.95, stretch: 0.98 } as const

const MONTH = { from: '2025-06-01', to: '2025-07-01' }
const within = (from: string, to: string, days = 0) =>
  `timestamp >= ${Date.parse(from)}. AND timestamp < ${Date.parse(to) + days * 86_400_000}.`
const monthly = within(MONTH.from, MONTH.to)
const WEEK_MS = 7 * 86_400_000
const START = Date.parse('2025-06-02')
const day = 'floor(timestamp / 86400000) AS day'
const inEvent = (...names: string[]) => `event IN (${names.map((name) => `'${name}'`)})`
const step = (event: string) => ({ event })

/** Questions of each kind, and the same query on a table made for them; absent if one line of SQL is not enough. */
export const QUESTIONS: Record<string, { question: object; ideal?: string }> = {
  'series by day': {
    question: { kind: 'series', series: [step('event-3')], ...MONTH },
    ideal: `SELECT ${day}, count() FROM ideal WHERE ${inEvent('event-3')} AND ${monthly} GROUP BY day`,
  },
  'users by day': {
    question: { kind: 'series', series: [{ event: 'event-3', metric: 'users' }], ...MONTH },
    ideal: `SELECT ${day}, uniqExact(user) FROM ideal WHERE ${inEvent('event-3')} AND ${monthly} GROUP BY day`,
  },
  'filter and breakdown': {
    question: {
      kind: 'series',
      series: [{ event: '*', where: ['is', 'properties.plan', ['pro']] }],
      breakdown: ['properties.country'],
      ...MONTH,
    },
    ideal: `SELECT country, ${day}, count() FROM ideal WHERE plan = 'pro' AND ${monthly} GROUP BY country, day`,
  },
  breakdown: {
    question: { kind: 'series', series: [step('*')], breakdown: ['properties.country'], ...MONTH },
    ideal: `SELECT country, ${day}, count() FROM ideal WHERE ${monthly} GROUP BY country, day`,
  },
  percentile: {
    question: {
      kind: 'series',
      series: [{ event: 'event-1', metric: 'percentile', property: 'properties.price' }],
      ...MONTH,
    },
    ideal: `SELECT ${day}, quantileExactInclusive(0.95)(price) FROM ideal WHERE ${inEvent('event-1')} AND ${monthly} GROUP BY day`,
  },
  'a rare event of a year': {
    question: { kind: 'series', series: [step('event-70')], interval: 'month', from: YEAR.from, to: YEAR.to },
    ideal: `SELECT toStartOfMonth(toDateTime(timestamp / 1000, 'UTC')) AS month, count() FROM ideal WHERE ${inEvent('event-70')} GROUP BY month`,
  },
  funnel: {
    question: { kind: 'funnel', steps: ['event-0', 'event-1', 'event-2', 'event-3'].map(step), ...MONTH },
    ideal: `SELECT level, count() FROM (SELECT user, windowFunnel(604800000)(toUInt64(timestamp), event = 'event-0', event = 'event-1', event = 'event-2',
      event = 'event-3') AS level FROM ideal WHERE ${inEvent('event-0', 'event-1', 'event-2', 'event-3')}
      AND ${within(MONTH.from, MONTH.to, 7)} GROUP BY user) GROUP BY level`,
  },
  retention: {
    question: {
      kind: 'retention',
      start: step('event-0'),
      return: step('event-1'),
      unit: 'week',
      from: '2025-06-02',
      to: '2025-08-25',
    },
    // Users whose first event was earlier do not count, so all earlier events are read, too.
    ideal: `SELECT week, back, count() FROM (SELECT user, intDiv(toInt64(minIf(timestamp, event = 'event-0')) - ${START}, ${WEEK_MS}) AS week,
      groupUniqArrayIf(intDiv(toInt64(timestamp) - ${START}, ${WEEK_MS}), event = 'event-1' AND timestamp >= ${START}) AS weeks
      FROM ideal WHERE ${inEvent('event-0', 'event-1')} AND timestamp < ${Date.parse('2025-08-25')}. GROUP BY user HAVING week >= 0)
      ARRAY JOIN weeks AS back GROUP BY week, back`,
  },
  paths: { question: { kind: 'paths', start: 'event-20', ...MONTH } },
}

/**
 * Questions about a year of events: what the service adds to its own SQL, and how that compares with a table made for
 * the question.
 */
export const questions: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse)
  await get(`${service.url}/public/events?limit=1`)
  await fillYear(store, bench.events(bench.isLarge ? LARGE_EVENTS : EVENTS))
  const compared = Object.entries(QUESTIONS).map(([name, { question, ideal }]) => ({
    asked: { method: 'POST', path: '/public/query', body: JSON.stringify(question) } as const,
    sql: directly(store, question),
    ideal: ideal === undefined ? null : sent(store, `${ideal} FORMAT JSONEachRow`, {}),
    figure: bench.figure(name, { unit: 'ms', over: 'same SQL', goal: OVER_SQL }),
    figureOfIdeal: ideal === undefined ? null : bench.figure(`${name} over ideal`, { unit: 'ms', over: 'ideal table' }),
  }))
  for (const { asked, sql } of compared) {
    await time(service.url, asked, 1)
    await time(store.url, sql, 1)
  }
  await eachRound(bench, store, async () => {
    for (const { asked, sql, ideal, figure, figureOfIdeal } of compared) {
      const limit = await time(store.url, sql)
      const ms = await time(service.url, asked)
      figure(ms, limit)
      if (ideal) figureOfIdeal?.(ms, await time(store.url, ideal))
    }
  })
  await whileIngesting(
    bench,
    service.url,
    store,
    compared.map(({ asked }) => asked),
  )
}

function unlessOverloaded(error: unknown): void {
  if (!(error instanceof OverloadedError)) throw error
}

/** Ingestion under full load while two questions run all the time, compared with ingestion alone. */
async function whileIngesting(bench: Bench, url: string, store: Store, asked: HttpRequest[]): Promise<void> {
  const { servers, seconds } = bench
  const over = { over: 'without questions', goal: UNHURT }
  const figure = bench.figure('ingestion while questions run', { unit: 'events/s', ...over })
  const requests = await writeRequests(servers.folder, await batches())
  const ingest = async () => {
    const before = await store.count()
    const { startedAt } = await load(servers, { url, requests, connections: CONNECTIONS, seconds })
    await untilVisible(url)
    return ((await store.count()) - before) / ((performance.now() - startedAt) / 1000)
  }
  await ingest()
  await eachRound(bench, store, async () => {
    const alone = await ingest()
    await store.quiet()
    const end = new AbortController()
    const askers = [0, 1].map(async (first) => {
      for (let i = first; !end.signal.aborted; i++) {
        // A question that has waited too long is refused; continue with the next one.
        await call(url, asked[i % asked.length] as HttpRequest).catch(unlessOverloaded)
      }
    })
    figure(await ingest(), alone)
    end.abort()
    await Promise.all(askers)
  })
}

/** The service's own SQL for a question, as a request to ClickHouse. @param facts default: only events are read */
export function directly(store: Store, body: object, facts: FactsBounds | null = null): HttpRequest {
  const now = Date.now()
  const question = readQuestion(body, now).question
  const shards = Shards.of(null as unknown as ClickHouse)
  const { sql, parameters, settings } = getKind(question).query(question, {
    projectId: PROJECT,
    now,
    shards,
    hasAliases: false,
    repairsTexts: false,
    pages: DEFAULT_SETTINGS,
    facts,
  })
  const named = Object.entries(parameters).map(([name, value]) => [`param_${name}`, formatted(value)])
  // The settings of the service; without them, the plans of this query would be slower.
  const asService = Object.fromEntries(NEEDLESS_REWRITES.map((name) => [name, 0]))
  return sent(store, `${sql} FORMAT JSONEachRow`, { ...settings, ...asService, ...Object.fromEntries(named) })
}

/** A query as a request to ClickHouse. */
export function sent(store: Store, body: string, settings: object): HttpRequest {
  const path = store.path({ os_threads_nice_value_query: 15, ...settings })
  return { method: 'POST', path, body, headers: { authorization: store.authorization } }
}

function formatted(value: unknown): string {
  if (!Array.isArray(value)) return String(value)
  return `[${value.map((one) => (typeof one === 'string' ? `'${one.replace(/[\\']/g, '\\$&')}'` : one))}]`
}
