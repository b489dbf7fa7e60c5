import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import { Writer } from '../ingest/writer.js'
import type { Journal } from '../journal/journal.js'
import type { JournalStatus, Relocation } from '../journal/relocation.js'
import type { Log } from '../lib/log.js'
import { using } from '../lib/using.js'
import { chooseLane } from '../model/choose-lane.js'
import { selectInsertIds } from '../model/insert-id.js'
import { type Layout, layoutNumber } from '../model/layout.js'
import { maxPosition, START } from '../model/position.js'
import { findLastPosition, type KnownJournal, readJournals, recordJournal } from '../store/journals.js'
import { type RecordedLayout, readLayouts, recordLayout } from '../store/layouts.js'
import { readBases, writeBases } from '../store/ledger.js'
import { openTables } from '../store/tables.js'
import { describeLayout, WrongLayoutError } from './layout.js'

/**
 * Changes the number of lanes and shards of a store. The recorded state says how far a change has come:
 *
 *   active ──▶ changing: intake is closed, then drained ──▶ moving: states, idempotency keys, clocks ──▶ active
 *
 * Every step can be repeated, so the same call resumes a change that was killed anywhere. Until `moving`, the target
 * may still be changed, even back to the old layout. Stored rows stay where they are.
 */
export interface Relayout {
  /** URLs of the new settings; the URLs of the current layout come first */
  shards: Shards
  /**
   * Opens a lane of the old or of the new layout. It must be closed before `openJournal` is called for that lane.
   * @throws Error if it cannot be reached
   */
  openRelocation(lane: number): Promise<Relocation>
  /** opens a lane's journal for the layout with this number */
  openJournal(lane: number, layout: number): Promise<Journal>
  /** for messages, such as "lane 1 (host:6379)" */
  nameLane(lane: number): string
  /** called before each step with a description of it; if it throws, the change ends there */
  report(step: string): void
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** ends the change between two steps */
  signal: AbortSignal
  /** epoch ms */
  now?: () => number
}

interface Change {
  from: Layout
  to: Layout
  /** all lanes of both */
  lanes: number
}

/** Interval at which a lane that is not drained yet is checked, ms. */
const DRAIN_PAUSE_MS = 100
/** Interval at which the progress of draining is reported, ms. */
const PROGRESS_MS = 2_000

/**
 * Changes the layout, or resumes a change.
 * @param lanes number of lanes of the new layout; its shards are in `parts`
 * @returns the layout that is active now
 * @throws WrongLayoutError if it cannot be changed to this: nothing was done, or an earlier change has to be finished
 *   first
 */
export async function relayout(lanes: number, parts: Relayout): Promise<Layout> {
  const { shards, report } = parts
  const { first } = shards
  const { latest, active } = await readLayouts(first)
  if (!latest || !active) {
    throw new WrongLayoutError(
      'The store has no layout yet: no service has started on it. Start it with these settings.',
    )
  }
  if (shards.all.length < active.shards) {
    throw new WrongLayoutError(
      `The store has ${active.shards} shards, and CLICKHOUSE_URL only ${shards.all.length}. Shards can be added, not removed: their rows stay where they are.`,
    )
  }
  const change = planChange(latest, active, { lanes, shards: shards.all.length })
  const guards = await checkLanes(change, parts)
  if (isUnchanged(change, guards)) {
    report(`The store already has ${describeLayout(active)}. There is nothing to do.`)
    return active
  }
  const record = (state: RecordedLayout['state']) =>
    recordLayout(first, { ...change.to, state }, (parts.now ?? Date.now)())
  if (latest.state === 'moving') {
    report(`Resuming the change to ${describeLayout(change.to)}: moving data to its lanes.`)
  } else {
    report(`Changing ${describeLayout(change.from)} to ${describeLayout(change.to)}.`)
    await record('changing')
    await closeIntake(change, parts)
    await drain(change, parts)
    report('Every lane is drained.')
    await record('moving')
  }
  await move(change, parts)
  for (let lane = 0; lane < change.lanes; lane++) {
    step(parts, `Opening lane ${lane} for layout ${change.to.version}.`)
    await using(parts.openRelocation(lane), (journal) => journal.open(layoutNumber(change.to)))
  }
  step(parts, `Recording layout ${change.to.version} as active.`)
  await record('active')
  report(`The store now has ${describeLayout(change.to)}.`)
  return change.to
}

function planChange(latest: RecordedLayout, from: Layout, to: Omit<Layout, 'version'>): Change {
  const isSame = latest.lanes === to.lanes && latest.shards === to.shards
  if (latest.state === 'moving' && !isSame) {
    throw new WrongLayoutError(
      `A change to ${describeLayout(latest)} has begun to move data. Finish it first: run \`tallyhouse lanes set ${latest.lanes}\` with its settings.`,
    )
  }
  const isResumed = latest.state !== 'active' && isSame
  const version = isResumed ? latest.version : latest.version + 1
  return { from, to: { version, ...to }, lanes: Math.max(from.lanes, to.lanes) }
}

/**
 * Whether there is nothing to do. If journals belong to different versions, for example because they were recreated
 * while the store was down, a change to the same numbers gives them a common version.
 */
function isUnchanged({ from, to }: Change, guards: number[]): boolean {
  if (to.version !== from.version + 1 || to.lanes !== from.lanes || to.shards !== from.shards) return false
  return guards.every((guard) => guard === layoutNumber(from))
}

/**
 * Checks, before anything is changed, that all lanes can be reached and are in the order of the settings.
 * @returns by lane: the number of the layout that its journal is open for; 0 if it has none or its intake is closed
 */
async function checkLanes({ from, lanes }: Change, parts: Relayout): Promise<number[]> {
  const journals = await readJournals(parts.shards.first)
  const guards: number[] = []
  for (let lane = 0; lane < lanes; lane++) {
    const status = await using(parts.openRelocation(lane), (journal) => journal.readStatus())
    const known = journals.find((journal) => journal.lane === lane)
    const fault = lane < from.lanes ? findOldLaneFault(status, known) : findNewLaneFault(status, known)
    if (fault) throw new WrongLayoutError(`The journal of ${parts.nameLane(lane)} ${fault}`)
    guards.push(status?.closedFor === null ? status.layout : 0)
  }
  return guards
}

function findOldLaneFault(status: JournalStatus | null, known: KnownJournal | undefined): string | null {
  if (status && (!known || status.id === known.id)) return null
  return `${status ? 'is not the one that the store has recorded' : 'is missing'}. Check that REDIS_URL has the same order as in the services. If that Redis lost its data, start the services once before this command.`
}

function findNewLaneFault(status: JournalStatus | null, known: KnownJournal | undefined): string | null {
  // A journal that a change created has no layout yet; one that this lane had in an earlier layout was drained.
  if (!status || status.layout === 0 || status.id === known?.id) return null
  return 'belongs to another store. For a new lane, use an empty Redis, or another database of that Redis.'
}

async function closeIntake({ from, to }: Change, parts: Relayout): Promise<void> {
  for (let lane = 0; lane < from.lanes; lane++) {
    step(parts, `Closing the intake of ${parts.nameLane(lane)}.`)
    await using(parts.openRelocation(lane), (journal) => journal.closeIntake(layoutNumber(to)))
  }
}

/**
 * Waits until the lanes are empty. Running services, or the writers started here, store the rest: the holder of the
 * lease does.
 */
async function drain({ from }: Change, parts: Relayout): Promise<void> {
  step(parts, 'Waiting until all accepted data is stored.')
  const stop = new AbortController()
  const isDone = Array.from({ length: from.lanes }, (_, lane) => drainLane(lane, from, parts, stop.signal))
  try {
    await Promise.all(isDone)
  } finally {
    stop.abort()
    await Promise.allSettled(isDone)
  }
}

async function drainLane(lane: number, from: Layout, parts: Relayout, stop: AbortSignal): Promise<void> {
  const { shards, log, report } = parts
  const status = await using(parts.openRelocation(lane), (journal) => journal.readStatus())
  const journal = await parts.openJournal(lane, status?.layout ?? layoutNumber(from))
  const { clickhouse } = shards.at(lane % from.shards)
  // After an earlier change, entries that a failover brought back may be stored on any shard.
  const tables = openTables(clickhouse, journal, from.version > 1 ? shards : undefined)
  const writer = new Writer({ journal, tables, log })
  try {
    writer.start()
    for (let saidAt = performance.now(); ; await wait(DRAIN_PAUSE_MS)) {
      const { entries, bytes } = await journal.depth()
      if (entries === 0) return
      parts.signal.throwIfAborted()
      stop.throwIfAborted()
      if (performance.now() - saidAt < PROGRESS_MS) continue
      saidAt = performance.now()
      report(`${entries} entries (${bytes} bytes) of ${parts.nameLane(lane)} wait for the store.`)
    }
  } finally {
    await writer.close()
    await journal.close()
  }
}

/** Moves the states and keys to their new lanes. Call it when every lane is drained and its intake is closed. */
async function move(change: Change, parts: Relayout): Promise<void> {
  await prepareLanes(change, parts)
  for (const [what, copy] of Object.entries(COPIES)) {
    for (let lane = 0; lane < change.from.lanes; lane++) {
      step(parts, `Copying the ${what} of lane ${lane} to the other lanes.`)
      await using(parts.openRelocation(lane), async (source) => {
        const others = await openOthers(lane, change.to.lanes, parts)
        await copy(source, others, change.to.lanes).finally(() => closeAll(others))
      })
    }
  }
  step(parts, 'Carrying over the counts of the ledger.')
  await carryLedger(change, parts)
  for (let lane = 0; lane < change.lanes; lane++) {
    step(parts, `Removing data from lane ${lane} that now belongs to other lanes.`)
    const isOwn = (stateKey: string) => chooseLane(stateKey, change.to.lanes) === lane
    await using(parts.openRelocation(lane), (journal) => journal.keepStates(isOwn))
  }
}

/** Adds to the counts what lanes of the old layout have acknowledged and lanes of the new layout have not. */
async function carryLedger({ from, to, lanes }: Change, parts: Relayout): Promise<void> {
  const { first } = parts.shards
  const bases = await readBases(first, from.version)
  for (let lane = 0; lane < lanes; lane++) {
    const factor = Number(lane < from.lanes) - Number(lane < to.lanes)
    const tally = await using(parts.openRelocation(lane), (journal) => journal.tally())
    for (const [project, { acknowledged }] of tally?.projects ?? []) {
      const { carried, since } = bases.get(project) ?? { carried: 0, since: 0 }
      bases.set(project, { carried: carried + factor * acknowledged, since })
    }
  }
  await writeBases(first, to.version, bases, (parts.now ?? Date.now)())
}

/** Creates new lanes, and raises the positions of all lanes beyond every position on any lane or shard. */
async function prepareLanes({ to, lanes }: Change, parts: Relayout): Promise<void> {
  const { shards } = parts
  step(parts, 'Looking for the last position of all lanes and shards.')
  let last = await findLastPosition(shards)
  for (let lane = 0; lane < lanes; lane++) {
    const status = await using(parts.openRelocation(lane), (journal) => journal.readStatus())
    last = maxPosition(last, status?.appended ?? START)
  }
  for (let lane = 0; lane < to.lanes; lane++) {
    step(parts, `Preparing ${parts.nameLane(lane)}.`)
    await using(parts.openRelocation(lane), async (journal) => {
      await journal.create()
      await journal.raise(last)
      const id = (await journal.readStatus())?.id
      if (id === undefined) throw new Error(`lane ${lane} has lost its journal`)
      await register({ id, lane, shard: lane % to.shards }, parts)
    })
  }
}

/** Records a journal in the store, so that no start treats it as unknown and raises its position first. */
async function register(journal: KnownJournal, { shards, now = Date.now }: Relayout): Promise<void> {
  const known = (await readJournals(shards.first)).find(({ lane }) => lane === journal.lane)
  if (known?.id === journal.id && known.shard === journal.shard) return
  await recordJournal(shards.first, journal, now())
}

/**
 * Copies data of a lane to the lanes where it now belongs.
 * @param others the other lanes by their numbers
 * @param lanes how many there are now
 */
type Copy = (source: Relocation, others: ReadonlyMap<number, Relocation>, lanes: number) => Promise<void>

/** The data to copy, in this order. */
const COPIES: Record<string, Copy> = {
  'idempotency keys': async (source, others) => {
    for await (const some of source.requests()) {
      for (const other of others.values()) await other.addRequests(some)
    }
  },
  insert_ids: async (source, others, lanes) => {
    for await (const { ids, ...from } of source.insertIds()) {
      for (const [number, other] of others) {
        const its = selectInsertIds(ids, number, lanes)
        if (its.length > 0) await other.addInsertIds({ ...from, ids: its })
      }
    }
  },
  'profiles and sessions': async (source, others, lanes) => {
    for await (const some of source.states()) {
      for (const [number, other] of others) {
        const its = some.filter(({ stateKey }) => chooseLane(stateKey, lanes) === number)
        if (its.length > 0) await other.addStates(its)
      }
    }
  },
}

/** Opens all lanes of the new layout except one. */
async function openOthers(lane: number, lanes: number, parts: Relayout): Promise<Map<number, Relocation>> {
  const others = new Map<number, Relocation>()
  try {
    for (let other = 0; other < lanes; other++) {
      if (other !== lane) others.set(other, await parts.openRelocation(other))
    }
    return others
  } catch (error) {
    await closeAll(others)
    throw error
  }
}

async function closeAll(journals: Map<number, Relocation>): Promise<void> {
  await Promise.all([...journals.values()].map((journal) => journal.close()))
}

/** Announces the next step, or throws if the change was interrupted. */
function step({ report, signal }: Relayout, text: string): void {
  signal.throwIfAborted()
  report(text)
}
