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
import { SESSIONS } from '../../src/store/sessions.js'
import { openTables } from '../../src/store/tables.js'
import { emptyClickHouse } from '../shared-engine.js'
import { completeFacts, countDifferences } from './copied-facts.js'

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
 * A shard with events that are stored without a service, and copied by any number of copiers.
 * @param engine default: the one that the tests of this process share
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
      await openTables(clickhouse, { id: JOURNAL }).insert('sessions', [entry], '', UNINTERRUPTED)
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
    /**
     * Skips an entry, as if it had become a dead letter.
     * @returns a function that stores it later
     * @param before runs before it is stored, but after that was logged
     */
    skip(
      projectId: string,
      events: readonly StoredEvent[],
      before: () => Promise<unknown> = async () => undefined,
    ): () => Promise<string[]> {
      const at = ++position
      stored = at
      const place = { projectId, position: at, journalId: JOURNAL }
      const store = async () => {
        await before()
        return await insert(projectId, at, events)
      }
      return () => logReplay(clickhouse, place, store)
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
