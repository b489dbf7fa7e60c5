import { setTimeout as wait } from 'node:timers/promises'
import type { Bench } from './benchmark.js'
import type { Store } from './store.js'

const POLL_MS = 100
const COPY_LIMIT_MS = 3_600_000

/** Has all events copied to facts anew, because facts do not hear of what was put into the store, and notes the cost. */
export async function copyFacts(bench: Bench, store: Store): Promise<void> {
  const cpu = await store.cpuUs()
  const began = performance.now()
  await store.text(
    `INSERT INTO event_changes (project_id, id, kind, scope, state) SELECT '', generateUUIDv4(), 'rebuild', '{}', 1`,
  )
  const events = await store.count()
  const isLeft = () => store.number('SELECT count() FROM event_changes FINAL WHERE state < 2')
  const countFacts = () => store.number('SELECT count() FROM event_facts')
  while ((await isLeft()) > 0 || (await countFacts()) < events) {
    if (performance.now() - began > COPY_LIMIT_MS) throw new Error('the facts are not complete')
    await wait(POLL_MS)
  }
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
