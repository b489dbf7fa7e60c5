import { setTimeout as wait } from 'node:timers/promises'
import { ValueColumns } from '../src/questions/value-columns.js'
import type { ColumnSource } from '../src/store/fact-values.js'
import type { Bench } from './benchmark.js'
import { call } from './calls.js'
import { batchOf, type HttpRequest, realEvents } from './requests.js'
import type { Store } from './store.js'

const POLL_MS = 100
const COPY_LIMIT_MS = 3_600_000
const FOLLOW_LIMIT_MS = 10 * 60_000
/** Between two fills of session facts. */
const FILL_LIMIT_MS = 10 * 60_000
/** Values get a column after a few slow questions. */
const QUESTIONS_FOR_COLUMN = 4
const COLUMN_LIMIT_MS = 60_000

/**
 * Rebuilds the facts, because events that were written directly into the store are not copied. @param url of the
 * service that copies
 */
export async function copyAll(bench: Bench, store: Store, url: string): Promise<void> {
  const cpu = await store.cpuUs()
  const began = performance.now()
  // First, so that all events are counted again. Otherwise the next event and all events before it would be copied in
  // one step.
  await store.text(
    `INSERT INTO event_changes (project_id, id, kind, scope, state) SELECT '', generateUUIDv4(), 'rebuild', '{}', 2`,
  )
  const deadline = performance.now() + FOLLOW_LIMIT_MS
  while ((await countChanges(store)) > 0) {
    if (performance.now() > deadline) throw new Error('the facts are not rebuilt')
    await wait(POLL_MS)
  }
  // Everything up to the last event of the service is copied, so one has to be sent through it.
  const [event = ''] = await realEvents()
  await call(url, batchOf([event]))
  const events = await untilCopied(store)
  const seconds = (performance.now() - began) / 1000
  await store.quiet()
  const perEvent = ((await store.cpuUs()) - cpu) / events
  const bytes = await store.number(
    `SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'event_facts' AND database = currentDatabase()`,
  )
  const size = (bytes / events).toFixed(1)
  bench.note(
    `facts were complete after ${seconds.toFixed(0)} s: ${perEvent.toFixed(1)} µs of CPU and ${size} bytes per event`,
  )
}

/** Waits until facts have all events and all changes. @returns the number of events */
export async function untilCopied(store: Store): Promise<number> {
  const deadline = performance.now() + COPY_LIMIT_MS
  for (;;) {
    const events = await store.count()
    const open = await countChanges(store)
    if (open === 0 && (await store.number('SELECT count() FROM event_facts')) >= events) return events
    if (performance.now() > deadline) throw new Error('the facts are not complete')
    await wait(POLL_MS)
  }
}

/** The number of changes that are not in the facts yet. */
function countChanges(store: Store): Promise<number> {
  return store.number('SELECT count() FROM event_changes FINAL WHERE state < 3')
}

/** Asks until the values that a question reads have columns that ClickHouse has filled. */
export async function giveColumns(store: Store, url: string, asked: HttpRequest): Promise<void> {
  for (let i = 0; i < QUESTIONS_FOR_COLUMN; i++) await call(url, asked)
  const deadline = performance.now() + COLUMN_LIMIT_MS
  const isBusy = async () =>
    (await countChanges(store)) +
      (await store.number(`SELECT count() FROM system.mutations WHERE table = 'event_facts' AND NOT is_done`)) >
    0
  while (performance.now() < deadline && (await isBusy())) await wait(POLL_MS)
}

/** Asks slow questions, and waits until each day with events has session facts. */
export async function untilSessionsKept(bench: Bench, store: Store): Promise<void> {
  const missing = `SELECT count() FROM (SELECT DISTINCT day FROM event_facts WHERE session != 0) WHERE day NOT IN (
    SELECT day FROM session_fact_days GROUP BY day HAVING argMax(step, fill) > 0)`
  let least = Number.POSITIVE_INFINITY
  let deadline = 0
  for (;;) {
    const left = await store.number(missing)
    if (left === 0) break
    if (left < least) deadline = performance.now() + FILL_LIMIT_MS
    least = Math.min(least, left)
    if (performance.now() > deadline) throw new Error(`the sessions of ${left} days are not filled`)
    await wait(POLL_MS)
  }
  await store.quiet()
  const bytes = await store.number(
    `SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'session_facts' AND database = currentDatabase()`,
  )
  const rows = await store.number('SELECT count() FROM session_facts')
  bench.note(`sessions have ${rows} rows of ${(bytes / rows).toFixed(1)} bytes`)
}

/** The names of the columns that facts have for properties. */
async function readColumns(store: Store): Promise<string[]> {
  const names = await store.text(
    `SELECT name FROM system.columns
     WHERE database = currentDatabase() AND table = 'event_facts' AND startsWith(name, 'value_')`,
  )
  return names === '' ? [] : names.split('\n')
}

/** The bounds of a question when facts have all events. */
export async function readBounds(store: Store) {
  const hi = await store.text('SELECT toString(max(toUInt128(event_id))) FROM event_facts')
  const values = new ValueColumns(new Set(await readColumns(store)))
  return { hi: [BigInt(hi)], hasLater: false, step: null, findColumn: (source: ColumnSource) => values.find(source) }
}

/** The same without the last steps, which contain at least this number of events and are read from `events`. */
export async function readBoundsBefore(store: Store, count: number) {
  const step = await store.number(
    `SELECT max(step) FROM (SELECT step, sum(count()) OVER (ORDER BY step DESC) AS later FROM event_facts GROUP BY step)
     WHERE later >= ${count}`,
  )
  const hi = await store.text(`SELECT toString(max(toUInt128(event_id))) FROM event_facts WHERE step < ${step}`)
  return { ...(await readBounds(store)), hi: [BigInt(hi)], hasLater: true, step: [step - 1] }
}
