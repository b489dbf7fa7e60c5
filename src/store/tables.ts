import { buffer } from 'node:stream/consumers'
import type { ClickHouse } from '../clickhouse/client.js'
import { Shards } from '../clickhouse/shards.js'
import type { Block, Entry, EntryKind, Journal, StoredState } from '../journal/journal.js'
import { type Alias, formatAlias, parseAlias } from '../model/alias.js'
import type { Position } from '../model/position.js'
import { formatProfile, measureProfile, type Profile, parseProfile } from '../model/profile.js'
import { measureProperties, type Properties } from '../model/properties.js'
import { formatSession, parseSession, type Session } from '../model/session.js'
import { type StateKind, toStateKey } from '../model/state-key.js'
import { ALIASES } from './aliases.js'
import { insertDeadLetter, insertRejected, readDeadLetterBody, walkDeadLetters } from './dead-letters.js'
import { findLastStored, findStoredPositions, insertEvents } from './events.js'
import { insertEntries, isInserting, versionedRows } from './insert.js'
import { VERSIONED_TABLES } from './newest-rows.js'
import { PROFILES } from './profiles.js'
import { SESSIONS } from './sessions.js'
import { type StoredValue, toKeyEnd, type VersionedTable } from './versioned-table.js'

/** The tables that the writer stores blocks in. An INSERT with a token that was used before has no effect. */
export interface Tables {
  /** @throws if the lane's shard, or one that may have its earlier entries, does not respond within 2 s */
  ping(): Promise<void>
  insert(kind: EntryKind, entries: Entry[], token: string, signal: AbortSignal): Promise<void>
  insertDeadLetter(entry: Entry, reason: string, token: string): Promise<void>
  /**
   * The last position, from `first` on, whose events are stored; null for none. Not covered: an INSERT that is running
   * on a replica that does not respond.
   * @throws StoreUnreachableError while an INSERT of this journal is running, or if a shard is down
   */
  lastStored(first: Position): Promise<Position | null>
  /**
   * Whether an INSERT with this token is still running, which is possible if its response was lost; null if it may be
   * running on a replica that does not respond.
   */
  isInserting(token: string): Promise<boolean | null>
  /** The positions of a block's entries whose events are stored. */
  storedPositions(block: Pick<Block, 'first' | 'last'>): Promise<Set<Position>>
  /** The states whose rows are in these entries. */
  statesIn(entries: Entry[]): StoredState[]
}

/** How values of one kind are stored: as an opaque string in the journal, as a row in ClickHouse. */
export interface StateTable<Value> {
  kind: StateKind
  format(value: Value): string
  parse(text: string): Value
  /**
   * The value's row as JSON.
   * @param value null for a deleted one
   */
  row(projectId: string, name: string, value: Value | null): string
  /** Bytes of its properties, which are limited. */
  countBytes(value: Value): number
  /**
   * The stored values by name, without unknown names; null for a value with more than `maxBytes` of properties.
   * @param isFresh whether to ignore cached results
   */
  read(
    projectId: string,
    names: string[],
    maxBytes: number,
    isFresh?: boolean,
  ): Promise<Map<string, StoredValue<Value>>>
}

/** The state keys of all rows of one kind; see `VersionedTable`. */
export interface StoredKeys {
  count(): Promise<number>
  stateKeys(after: Position, signal: AbortSignal): Promise<AsyncIterable<Buffer>>
}

/** A table of states in the store. */
export type StoredTable<Value> = StateTable<Value> & StoredKeys

export interface StoreTables extends Tables {
  profiles: StoredTable<Profile>
  sessions: StoredTable<Session>
  aliases: StoredTable<Alias>
}

/**
 * The tables as the writer and the state stores of a lane see them.
 * @param clickhouse the shard that the lane's writer stores in
 * @param journal its id is read at each call, because the id may not be known yet while a lane is down
 * @param places the shards that may have states, and entries that the lane stored earlier; default: only the lane's
 *   shard
 */
export function openTables(
  clickhouse: ClickHouse,
  journal: Pick<Journal, 'id'>,
  places: Shards = Shards.of(clickhouse),
): StoreTables {
  return {
    ping: async () => void (await places.each(({ clickhouse }) => clickhouse.ping())),
    async insert(kind: EntryKind, entries: Entry[], token: string, signal: AbortSignal): Promise<void> {
      switch (kind) {
        case 'events':
          return await insertEvents(clickhouse, journal.id, entries, token, signal)
        case 'rejected':
          return await insertRejected(clickhouse, journal.id, entries, token)
        default:
          return await insertEntries(clickhouse, INSERTS[kind], entries, versionedRows, signal)
      }
    },
    lastStored: async (first) => {
      const found = await places.each(({ clickhouse }) => findLastStored(clickhouse, journal.id, first))
      return found.reduce((last, one) => (last === null || (one !== null && one > last) ? one : last), null)
    },
    isInserting: (token) => isInserting(clickhouse, token),
    storedPositions: async (block) => {
      const found = await places.each(({ clickhouse }) => findStoredPositions(clickhouse, journal.id, block))
      return new Set(found.flatMap((positions) => [...positions]))
    },
    insertDeadLetter: (entry, reason, token) => insertDeadLetter(clickhouse, journal.id, entry, reason, token),
    statesIn,
    profiles: stateTable<Profile>(places, PROFILES, {
      format: formatProfile,
      parse: parseProfile,
      countBytes: measureProfile,
    }),
    sessions: stateTable<Session>(places, SESSIONS, {
      format: formatSession,
      parse: parseSession,
      countBytes: countPropertyBytes,
    }),
    aliases: stateTable(places, ALIASES, { format: formatAlias, parse: parseAlias, countBytes: () => 0 }),
  }
}

/** The INSERT of each kind of state. */
const INSERTS: Record<StateKind, string> = {
  profiles: PROFILES.insertQuery,
  sessions: SESSIONS.insertQuery,
  aliases: ALIASES.insertQuery,
}

function countPropertyBytes({ properties }: { properties: Properties }): number {
  return measureProperties(properties)
}

function stateTable<Value>(
  shards: Shards,
  { kind, row, read, count, stateKeys }: VersionedTable<Value>,
  text: Pick<StateTable<Value>, 'format' | 'parse' | 'countBytes'>,
): StoredTable<Value> {
  return {
    kind,
    ...text,
    row,
    read: (projectId, names, maxBytes) => read(shards, projectId, names, maxBytes),
    count: () => count(shards),
    stateKeys: (after, signal) => stateKeys(shards, after, signal),
  }
}

/**
 * The keys of a table and of the waiting dead letters of all shards: a replay stores their rows with the versions that
 * they had, so whoever looks for newer rows would miss them.
 */
export function withDeadLetters({ kind, count, stateKeys }: StoredTable<unknown>, shards: Shards): StoredKeys {
  const read = async function* (after: Position, signal: AbortSignal): AsyncGenerator<Buffer> {
    for await (const letter of walkDeadLetters(shards, { kind, after: { position: after, journalId: 0 } })) {
      signal.throwIfAborted()
      const body = await buffer(await readDeadLetterBody(letter))
      for (const { stateKey } of statesIn([{ ...letter, body }])) yield toKeyEnd(stateKey)
    }
    // Read them last: a dead letter that is replayed meanwhile is one of them.
    yield* await stateKeys(after, signal)
  }
  return { count, stateKeys: async (after, signal) => read(after, signal) }
}

function statesIn(entries: Pick<Entry, 'kind' | 'position' | 'body'>[]): StoredState[] {
  return entries.flatMap(({ kind, position: version, body }) => {
    if (kind === 'events' || kind === 'rejected') return []
    const rows = JSON.parse(`[${body}]`) as Record<string, string>[]
    return rows.map(({ project_id = '', [VERSIONED_TABLES[kind].key]: name = '' }) => {
      return { stateKey: toStateKey(kind, project_id, name), version }
    })
  })
}
