import { type Bench, type Benchmark, eachRound, get } from '../benchmark.js'
import { call, time } from '../calls.js'
import { update } from '../changes.js'
import { copyAll, giveColumns, readBounds, readBoundsBefore, untilCopied } from '../copied.js'
import { load } from '../load.js'
import { BATCH, batches, type HttpRequest, writeRequests } from '../requests.js'
import { Store } from '../store.js'
import { fillYear } from '../year.js'
import { directly, QUESTIONS, sent } from './questions.js'

const EVENTS = 20_000_000
const LARGE_EVENTS = 100_000_000
const CONNECTIONS = 8
/** Events that are not copied into facts yet. */
const TAIL = 100_000
/** The range with the last events of the year, which are not in the facts. */
const END = { from: '2025-12-01', to: '2026-01-01' }
const EDITS = 50
const BURST_SECONDS = 10
const OVER_IDEAL = { of: 'ratio', target: 1.25, stretch: 1.1, plus: 5 } as const
const NEVER_ASKED = { of: 'ratio', target: 2, stretch: 1.25 } as const
const NEVER_ASKED_WITH_FILTER = { of: 'ratio', target: 5, stretch: 2 } as const
const OVER_SQL = { of: 'ratio', target: 1.15, stretch: 1.05, plus: 3 } as const
const WITH_EDITS = { of: 'ratio', target: 2, stretch: 1.2 } as const
const WITH_TAIL = { of: 'value', target: 50, stretch: 20 } as const
const UNHURT = { of: 'ratio', target: 0.97, stretch: 0.99 } as const
const SOON = { of: 'value', target: 60_000, stretch: 10_000 } as const
/** With 100 million events, `events` is 15 to 30 times slower. */
const OVER_EVENTS = { of: 'ratio', target: 0.067, stretch: 0.033 } as const
/** Questions that are also measured with events that are not copied yet, and with edits. */
const SOME = ['series by day', 'users by day', 'filter and breakdown']

/** Questions that read facts, compared with a table made for them, and with reading events. */
export const facts: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse, { ...(await servers.embeddedJournal()), FACTS: 'all' })
  await get(`${service.url}/public/events?limit=1`)
  await fillYear(store, bench.events(bench.isLarge ? LARGE_EVENTS : EVENTS))
  await copyAll(bench, store, service.url)
  await askFirst(bench, store, service.url)
  await compareQuestions(bench, store, service.url)
  await compareTail(bench, store)
  await compareEdits(bench, store, service.url)
  await whileCopying(bench)
}

function ask(question: object): HttpRequest {
  return { method: 'POST', path: '/public/query', body: JSON.stringify(question) }
}

/**
 * Questions about properties that no question has used before. Frequent properties get columns immediately, so the SQL of
 * each question is also measured without columns, as if the property were rare or nested.
 */
async function askFirst(bench: Bench, store: Store, url: string): Promise<void> {
  const withoutColumns = { ...(await readBounds(store)), findColumn: () => null }
  for (const [name, { question, ideal }] of Object.entries(QUESTIONS)) {
    if (!ideal || !readsProperties(question)) continue
    const goal = JSON.stringify(question).includes('"where"') ? NEVER_ASKED_WITH_FILTER : NEVER_ASKED
    const open = (state: string) => bench.figure(`${name}, ${state}`, { unit: 'ms', over: 'ideal table', goal })
    const idealTable = sent(store, `${ideal} FORMAT JSONEachRow`, {})
    const sql = directly(store, question, withoutColumns)
    open('never asked')(await time(url, ask(question), 1), await time(store.url, idealTable))
    open('never asked, no column')(await time(store.url, sql, 1), await time(store.url, idealTable))
  }
}

function readsProperties(question: object): boolean {
  return JSON.stringify(question).includes('properties.')
}

async function compareQuestions(bench: Bench, store: Store, url: string): Promise<void> {
  for (const { question } of Object.values(QUESTIONS)) await giveColumns(store, url, ask(question))
  const bounds = await readBounds(store)
  const measured = Object.entries(QUESTIONS).map(([name, { question, ideal }]) => ({
    asked: ask(question),
    ideal: ideal !== undefined && {
      request: sent(store, `${ideal} FORMAT JSONEachRow`, {}),
      figure: bench.figure(name, { unit: 'ms', over: 'ideal table', goal: OVER_IDEAL }),
    },
    sql: directly(store, question, bounds),
    events: directly(store, question),
    figureOfSql: bench.figure(`${name} over SQL`, { unit: 'ms', over: 'same SQL', goal: OVER_SQL }),
    figureOfEvents: bench.figure(`${name} over events`, {
      unit: 'ms',
      over: 'events',
      ...(bench.isLarge && readsProperties(question) && { goal: OVER_EVENTS }),
    }),
  }))
  await eachRound(bench, store, async () => {
    for (const { asked, ideal, sql, events, figureOfSql, figureOfEvents } of measured) {
      const ms = await time(url, asked)
      if (ideal) ideal.figure(ms, await time(store.url, ideal.request))
      figureOfSql(ms, await time(store.url, sql))
      figureOfEvents(ms, await time(store.url, events, 1))
    }
  })
}

/** How much longer a question about the last month takes if its last events are not in the facts. */
async function compareTail(bench: Bench, store: Store): Promise<void> {
  const [all, before] = [await readBounds(store), await readBoundsBefore(store, TAIL)]
  const measured = SOME.map((name) => {
    const question = { ...QUESTIONS[name]?.question, ...END }
    return {
      whole: directly(store, question, all),
      tailed: directly(store, question, before),
      figure: bench.figure(`${name}, added by a tail`, { unit: 'ms', goal: WITH_TAIL }),
    }
  })
  await eachRound(bench, store, async () => {
    for (const { whole, tailed, figure } of measured) {
      const without = await time(store.url, whole)
      figure((await time(store.url, tailed)) - without)
    }
  })
}

/** Questions while facts have unmerged edits, compared with the same ones without. */
async function compareEdits(bench: Bench, store: Store, url: string): Promise<void> {
  const ids = await store.text(`SELECT event_id FROM event_facts WHERE event = 'event-3' ORDER BY sipHash64(event_id)
    LIMIT ${EDITS * bench.rounds}`)
  const all = ids.split('\n')
  const measured = SOME.map((name) => ({
    asked: ask(QUESTIONS[name]?.question ?? {}),
    figure: bench.figure(`${name}, with ${EDITS} edits`, { unit: 'ms', over: 'without', goal: WITH_EDITS }),
  }))
  await eachRound(bench, store, async (round) => {
    const before: number[] = []
    for (const { asked } of measured) before.push(await time(url, asked))
    await store.text('SYSTEM STOP MERGES event_facts')
    for (const [i, id] of all.slice(round * EDITS, (round + 1) * EDITS).entries()) await call(url, update(id, i))
    await untilCopied(store)
    for (const [i, { asked, figure }] of measured.entries()) figure(await time(url, asked), before[i])
    await store.text('SYSTEM START MERGES event_facts')
    // With 100 million events this takes ten minutes, and nothing after the last round reads them.
    if (round + 1 < bench.rounds) await store.text('OPTIMIZE TABLE event_facts FINAL')
  })
}

/**
 * Ingestion under full load while facts are copied, and when they are complete, compared with ingestion without facts.
 */
async function whileCopying(bench: Bench): Promise<void> {
  const { servers, seconds } = bench
  const requests = await writeRequests(servers.folder, await batches())
  const open = async (FACTS: string) => {
    const clickhouse = await servers.clickhouse()
    const { url } = await servers.tallyhouse(clickhouse, { ...(await servers.embeddedJournal()), FACTS })
    const store = new Store(clickhouse)
    return {
      store,
      ingest: (seconds: number) => load(servers, { url, requests, connections: CONNECTIONS, seconds }),
    }
  }
  const [without, copying] = [await open('off'), await open('all')]
  const figure = bench.figure('ingestion while facts are copied', {
    unit: 'events/s',
    over: 'without facts',
    goal: UNHURT,
  })
  const complete = bench.figure(`facts complete after ${BURST_SECONDS} s of it`, { unit: 'ms', goal: SOON })
  for (const { ingest } of [without, copying]) await ingest(seconds)
  await eachRound(bench, copying.store, async () => {
    await untilCopied(copying.store)
    const alone = await without.ingest(BURST_SECONDS)
    // Its merges would slow down the other one.
    await without.store.quiet()
    const { requests, perSecond } = await copying.ingest(BURST_SECONDS)
    const ended = performance.now()
    figure(perSecond * BATCH, alone.perSecond * BATCH)
    await untilCopied(copying.store)
    complete(performance.now() - ended)
    bench.note(`${((requests * BATCH) / 1e6).toFixed(1)} million events were accepted and copied`)
  })
}
