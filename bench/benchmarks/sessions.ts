import { NO_BOTS } from '../../src/web/lib/page-views.js'
import {
  askGoals,
  askNumbers,
  askTab,
  PANELS,
  type Tab,
  type WebSource,
} from '../../src/web/views/web/web-questions.js'
import { type Benchmark, eachRound, get } from '../benchmark.js'
import { call, time } from '../calls.js'
import { copyAll, giveColumns, untilSessionsKept } from '../copied.js'
import { fillMonth, MONTH } from '../month.js'
import type { HttpRequest } from '../requests.js'
import { Store } from '../store.js'
import { sent } from './questions.js'

const EVENTS = 5_000_000
const EVENTS_OF_A_VISIT = 5
const PANEL = { of: 'value', target: 600, stretch: 150 } as const
const VIEW = { of: 'value', target: 3000, stretch: 800 } as const
const PAGE_VIEWS = ['$pageview']
const GOALS = ['product added', 'signed up', 'order placed']
const BY_ID: WebSource = { pageViews: PAGE_VIEWS, sessions: 'id' }
const BY_GAP: WebSource = { pageViews: PAGE_VIEWS, sessions: { gap: '30m' } }

/** The column of the ideal table, by tab. */
const COLUMNS: Record<string, string> = {
  ...{ channels: 'channel', sources: 'source', campaigns: 'campaign', pages: 'path', entry: 'path', exit: 'path' },
  ...{ countries: 'country', regions: 'region', cities: 'city', browsers: 'browser', systems: 'os', devices: 'device' },
}

/**
 * Panels of the view Web about a month of a million visits, compared with a plain GROUP BY on a table that is made for
 * them.
 */
export const sessions: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse, { ...(await servers.embeddedJournal()), FACTS: 'all' })
  await get(`${service.url}/public/events?limit=1`)
  await fillMonth(store, Math.round(bench.events(EVENTS) / EVENTS_OF_A_VISIT))
  await copyAll(bench, store, service.url)
  const tabs = PANELS.flatMap((panel) => panel.tabs)
  const over = { unit: 'ms', over: 'ideal table', goal: PANEL } as const
  const panels = [
    { name: 'numbers', question: askNumbers(BY_ID), ideal: selectNumbers() },
    ...tabs.map((tab) => ({ name: tab.id, question: askTab(tab, BY_ID, 10), ideal: selectTab(tab) })),
    { name: 'goals', question: askGoals(GOALS, BY_ID), ideal: selectGoals() },
    { name: 'numbers by gap', question: askNumbers(BY_GAP), ideal: selectNumbers() },
    ...tabs
      .filter(({ id }) => id === 'channels' || id === 'countries')
      .map((tab) => ({ name: `${tab.id} by gap`, question: askTab(tab, BY_GAP, 10), ideal: selectTab(tab) })),
  ].map(({ name, question, ideal }) => {
    return {
      asked: ask(question),
      ideal: sent(store, `${ideal} FORMAT JSONEachRow`, {}),
      figure: bench.figure(name, over),
    }
  })
  const figureOfView = bench.figure('the whole view', { unit: 'ms', goal: VIEW })
  const view = [
    askNumbers(BY_ID),
    ...PANELS.map(({ tabs: [first] }) => askTab(first as Tab, BY_ID, 10)),
    askGoals(GOALS, BY_ID),
  ]
  for (const { asked } of panels) await giveColumns(store, service.url, asked)
  await untilSessionsKept(bench, store)
  await eachRound(bench, store, async () => {
    for (const { asked, ideal, figure } of panels) {
      const limit = await time(store.url, ideal, 1)
      figure(await time(service.url, asked, 1), limit)
    }
    const began = performance.now()
    await Promise.all(view.map((question) => call(service.url, ask(question))))
    figureOfView(performance.now() - began)
  })
}

/** A question as the page asks it. */
function ask(question: object): HttpRequest {
  return { method: 'POST', path: '/public/query', body: JSON.stringify({ ...question, ...MONTH, where: NO_BOTS }) }
}

/** Operand of FROM: the visits in the ideal table, without bots. */
function selectVisits(columns: string): string {
  return `(SELECT min(timestamp) AS start, argMax(user, timestamp) AS visitor, countIf(event = '$pageview') AS pages, ${columns}
    FROM ideal WHERE bot = 0 GROUP BY session HAVING pages > 0)`
}

function selectTab({ id, ofPages }: Tab): string {
  const column = COLUMNS[id]
  const rows = ofPages
    ? `(SELECT ${column} AS value, user AS visitor FROM ideal WHERE bot = 0 AND event = '$pageview')`
    : selectVisits(`${id === 'exit' ? 'argMax' : 'argMin'}(${column}, timestamp) AS value`)
  return `SELECT value, uniqExact(visitor) AS visitors FROM ${rows} GROUP BY value ORDER BY visitors DESC LIMIT 10`
}

function selectNumbers(): string {
  const visits = selectVisits('count() AS all, (max(timestamp) - start) / 1000 AS seconds')
  const day = 'intDiv(toUInt64(start), 86400000) AS day'
  return `SELECT ${day}, count(), avg(pages), avg(seconds), avg(pages = 1 AND all = 1), 0 FROM ${visits} GROUP BY day
    UNION ALL SELECT intDiv(toUInt64(timestamp), 86400000) AS day, count(), 0, 0, 0, uniqExact(user) FROM ideal
    WHERE bot = 0 AND event = '$pageview' GROUP BY day`
}

function selectGoals(): string {
  const reached = GOALS.map((goal, i) => `max(event = '${goal}') AS goal${i}`)
  return `SELECT count(), ${GOALS.map((_, i) => `sum(goal${i})`).join(', ')} FROM ${selectVisits(reached.join(', '))}`
}
