import type { Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { FactCopier, type FactCopierOptions } from '../../src/facts/fact-copier.js'
import { type Replay, replayDeadLetter } from '../../src/ingest/replay.js'
import { formatEventId } from '../../src/model/event-id.js'
import type { Session } from '../../src/model/session.js'
import { insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { insertEvents, logReplay } from '../../src/store/events.js'
import { FACT_COLUMNS, selectFacts } from '../../src/store/fact-columns.js'
import { readFactsPoint } from '../../src/store/fact-points.js'
import { SESSIONS } from '../../src/store/sessions.js'
import { until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

/** The statements of a leader, in the order in which it sends them. */
export const LEADER_STATEMENTS = [
  'INSERT INTO facts_state',
  'DELETE FROM event_facts WHERE step',
  'DELETE FROM event_facts WHERE (',
  'INSERT INTO event_facts',
  'INSERT INTO facts_progress',
  'INSERT INTO event_change_log',
  'INSERT INTO event_changes',
]

const JOURNAL = 7
const UNINTERRUPTED = new AbortController().signal

export interface StoredEvent {
  event: string
  distinct_id: string
  timestamp: number
  properties: string
  session_id?: string
}

/**
 * A shard with events that are stored without a service, and copied by any number of copiers. @param engine default: the
 * one that the tests of this process share
 */
export async function openShard(t: Test, engine?: { url: string }) {
  const { url } = engine ?? (await emptyClickHouse())
  const open = () => {
    const clickhouse = new ClickHouse({ url })
    t.teardown(() => clickhouse.close())
    return clickhouse
  }
  const clickhouse = open()
  if (engine) await migrate(clickhouse)
  let position = BigInt(Date.now()) << 16n
  /** everything up to here is stored */
  let stored = position
  const body = (events: readonly StoredEvent[]) => {
    const texts = events.map(
      ({ properties, ...rest }) => `${JSON.stringify(rest).slice(0, -1)},"properties":${properties}}`,
    )
    return Buffer.from(`{"events":[${texts.join()}]}`)
  }
  const insert = async (projectId: string, at: bigint, events: readonly StoredEvent[]) => {
    const entry = {
      position: at,
      projectId,
      kind: 'events' as const,
      count: events.length,
      receivedAt: Date.now(),
      body: body(events),
    }
    await insertEvents(clickhouse, JOURNAL, [entry], `${at}`, UNINTERRUPTED)
    return events.map((_, index) => formatEventId({ position: at, index, journalId: JOURNAL }))
  }
  const toEntry = (projectId: string, sessionId: string, session: Session | null) => {
    const row = Buffer.from(SESSIONS.row(projectId, sessionId, session))
    return { position: ++position, projectId, kind: 'sessions' as const, count: 1, receivedAt: Date.now(), body: row }
  }
  return {
    clickhouse,
    url,
    open,
    shards: Shards.of(clickhouse),
    /** the last position, if everything up to there is stored */
    get appended(): bigint | null {
      return position === stored ? position : null
    },
    /** @returns the ids of the events */
    async store(projectId: string, events: readonly StoredEvent[]): Promise<string[]> {
      const at = ++position
      const ids = await insert(projectId, at, events)
      stored = at
      return ids
    },
    /** Stores a session of the calls, or its deletion. */
    async call(projectId: string, sessionId: string, session: Session | null): Promise<void> {
      const entry = toEntry(projectId, sessionId, session)
      await SESSIONS.insert(clickhouse, [entry], UNINTERRUPTED)
      stored = entry.position
    },
    /** Stores a session of the calls as a dead letter. @returns a function that replays it */
    async skipCall(projectId: string, sessionId: string, session: Session): Promise<() => Promise<Replay>> {
      const entry = toEntry(projectId, sessionId, session)
      await insertDeadLetter(clickhouse, JOURNAL, entry, 'a test', `${entry.position}`)
      stored = entry.position
      const shards = Shards.of(clickhouse)
      return async () => {
        const [deadLetter] = await readDeadLetters(shards, { limit: 1, at: [entry.position] })
        if (!deadLetter) throw new Error('no such dead letter')
        return await replayDeadLetter(shards, deadLetter, Date.now())
      }
    },
    /** Skips an entry, as if it had become a dead letter. @returns a function that stores it later */
    skip(projectId: string, events: readonly StoredEvent[]): () => Promise<string[]> {
      const at = ++position
      stored = at
      const place = { projectId, position: at, journalId: JOURNAL }
      return () => logReplay(clickhouse, place, () => insert(projectId, at, events))
    },
    /** @returns a copier that runs until the end of the test, or until it is closed */
    copier(options: Partial<FactCopierOptions> = {}): FactCopier {
      const copier = new FactCopier({
        clickhouse,
        barrier: { reach: async () => ({ accepted: stored, stored }) },
        journals: [],
        isOn: true,
        isShared: false,
        log: { info: () => undefined, warn: ({ err }: { err: Error }) => t.fail(err.message) },
        pauseMs: 100,
        ...options,
      })
      t.teardown(() => copier.close())
      copier.start()
      return copier
    },
    complete: (projects: readonly string[]) => completeFacts(clickhouse, projects),
    countDifferences: () => countDifferences(clickhouse),
    async countFacts(): Promise<number> {
      const [row] = await clickhouse.rows<{ count: string }>('SELECT count() AS count FROM event_facts')
      return Number(row?.count)
    },
  }
}

/** Waits until the facts of these projects have all stored events and all changes. */
export async function completeFacts(clickhouse: ClickHouse, projects: readonly string[]): Promise<void> {
  for (const project of projects) await until(`the facts of ${project}`, () => isComplete(clickhouse, project))
}

/** A `FactsReader` would ask again and again until facts have followed a change. */
async function isComplete(clickhouse: ClickHouse, project: string): Promise<boolean> {
  const { point, isOpen } = await readFactsPoint(clickhouse, project)
  if (isOpen || point?.hasLater) return false
  const open = await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3 LIMIT 1')
  if (open.length > 0) return false
  return point !== null || (await clickhouse.rows(EVENT_OF, { project })).length === 0
}

const EVENT_OF = 'SELECT 1 FROM events WHERE project_id = {project:String} LIMIT 1'

/** The number of rows that facts have but should not, or should but do not. */
export async function countDifferences(clickhouse: ClickHouse): Promise<number> {
  const columns = FACT_COLUMNS.filter((name) => name !== 'step')
  const row = `cityHash64(toString(tuple(${columns.join()})))`
  const isCopied = 'toUInt128(event_id) <= arrayElement(known.2, indexOf(known.1, project_id))'
  const [found] = await clickhouse.rows<{ count: string }>(`
    WITH (SELECT (groupArray(project_id), groupArray(hi)) FROM (
      SELECT project_id, argMax(hi, step) AS hi FROM facts_progress
      WHERE generation = (SELECT argMax(generation, version) FROM facts_state) GROUP BY project_id
    )) AS known
    SELECT count() AS count FROM (
      SELECT hash, sum(sign) AS sum FROM (
        SELECT ${row} AS hash, 1 AS sign FROM event_facts
        UNION ALL
        SELECT ${row} AS hash, -1 AS sign FROM (${selectFacts('events', isCopied, '0')})
      ) GROUP BY hash HAVING sum != 0
    )`)
  return Number(found?.count)
}
