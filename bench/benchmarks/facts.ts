import { setTimeout as wait } from 'node:timers/promises'
import { type Benchmark, eachRound, get } from '../benchmark.js'
import { call, time } from '../calls.js'
import { copyFacts } from '../facts.js'
import type { HttpRequest } from '../requests.js'
import { Store } from '../store.js'
import { fillYear } from '../year.js'
import { directly, QUESTIONS, sent } from './questions.js'

const EVENTS = 20_000_000
const LARGE_EVENTS = 100_000_000
const POLL_MS = 100
/** A property is given a column after a few slow questions. */
const QUESTIONS_FOR_COLUMN = 4
const COLUMN_LIMIT_MS = 60_000
const OVER_IDEAL = { of: 'ratio', target: 1.25, stretch: 1.1 } as const
const NEVER_ASKED = { of: 'ratio', target: 5, stretch: 2 } as const
/** How many times slower `events` is. */
const OVER_EVENTS = { of: 'ratio', target: 0.067, stretch: 0.033 } as const

/** Questions over facts: how far they are from a table made for them, and from the events. */
export const facts: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse, { ...(await servers.embeddedJournal()), FACTS: 'on' })
  await get(`${service.url}/public/events?limit=1`)
  await fillYear(store, bench.events(bench.isLarge ? LARGE_EVENTS : EVENTS))
  await copyFacts(bench, store)
  const compared = Object.entries(QUESTIONS).map(([name, { question, ideal }]) => ({
    name,
    asked: { method: 'POST', path: '/public/query', body: JSON.stringify(question) } as const,
    ideal: ideal === undefined ? null : sent(store, `${ideal} FORMAT JSONEachRow`, {}),
    events: directly(store, question),
    readsProperties: JSON.stringify(question).includes('properties.'),
  }))
  for (const { name, asked, ideal, readsProperties } of compared) {
    if (!readsProperties || !ideal) continue
    const figure = bench.figure(`${name}, never asked`, { unit: 'ms', over: 'ideal table', goal: NEVER_ASKED })
    figure(await time(service.url, asked, 1), await time(store.url, ideal))
    await giveColumns(store, service.url, asked)
  }
  const measured = compared.map(({ name, ...one }) => ({
    ...one,
    figure: bench.figure(name, { unit: 'ms', over: 'ideal table', goal: OVER_IDEAL }),
    figureOfEvents: bench.figure(`${name} over events`, {
      unit: 'ms',
      over: 'events',
      ...(one.readsProperties && { goal: OVER_EVENTS }),
    }),
  }))
  await eachRound(bench, store, async () => {
    for (const { asked, ideal, events, figure, figureOfEvents } of measured) {
      const ms = await time(service.url, asked)
      if (ideal) figure(ms, await time(store.url, ideal))
      figureOfEvents(ms, await time(store.url, events, 1))
    }
  })
}

/** Asks until the properties of a question have columns, and ClickHouse has filled them. */
async function giveColumns(store: Store, url: string, asked: HttpRequest): Promise<void> {
  for (let i = 0; i < QUESTIONS_FOR_COLUMN; i++) await call(url, asked)
  const deadline = performance.now() + COLUMN_LIMIT_MS
  const isBusy = async () =>
    (await store.number('SELECT count() FROM event_changes FINAL WHERE state < 2')) +
      (await store.number(`SELECT count() FROM system.mutations WHERE table = 'event_facts' AND NOT is_done`)) >
    0
  while (performance.now() < deadline && (await isBusy())) await wait(POLL_MS)
}
