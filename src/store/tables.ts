import type { ClickHouse } from '../clickhouse/client.js'
import type { Block, Entry, EntryKind, StoredState } from '../journal/journal.js'
import type { Position } from '../model/position.js'
import { formatProfile, type Profile, parseProfile } from '../model/profile.js'
import { type Properties, sizeOfProperties } from '../model/properties.js'
import { formatSession, parseSession, type Session } from '../model/session.js'
import { type StateKind, stateKeyOf } from '../model/state-key.js'
import { insertDeadLetter } from './dead-letters.js'
import { insertEvents, lastStoredPosition, storedPositions } from './events.js'
import { isInserting } from './insert.js'
import { PROFILES } from './profiles.js'
import { SESSIONS } from './sessions.js'
import type { StoredValue, VersionedTable } from './versioned.js'

/** What the writer stores blocks in. A token that was used before stores nothing again. */
export interface Tables {
  insert(kind: EntryKind, entries: Entry[], token: string, signal: AbortSignal): Promise<void>
  insertDeadLetter(entry: Entry, reason: string, token: string): Promise<void>
  /**
   * The last position, from `first` on, whose events are stored; null for none.
   * @throws while an INSERT of this journal is running
   */
  lastStored(first: Position): Promise<Position | null>
  /** Whether an INSERT with this token is still running, as one whose response was lost may be. */
  isInserting(token: string): Promise<boolean>
  /** The positions of a block's entries whose events are stored. */
  storedPositions(block: Pick<Block, 'first' | 'last'>): Promise<Set<Position>>
  /** The states whose rows are in these entries. */
  statesIn(entries: Entry[]): StoredState[]
}

/** How values of one kind are kept: as an opaque text in the journal, as a row in the store. */
export interface StateTable<Value> {
  kind: StateKind
  format(value: Value): string
  parse(text: string): Value
  /**
   * The value's row as JSON.
   * @param value null for a deleted one
   */
  row(projectId: string, name: string, value: Value | null): string
  /** bytes of its properties, which are limited */
  sizeOf(value: Value): number
  /** The stored values by name, those with more than `maxBytes` of properties as null; unknown names are missing. */
  read(projectId: string, names: string[], maxBytes: number): Promise<Map<string, StoredValue<Value>>>
}

export interface StoreTables extends Tables {
  profiles: StateTable<Profile>
  sessions: StateTable<Session>
}

/** The tables as the writer and the state stores see them. */
export function openTables(clickhouse: ClickHouse, journalId: number): StoreTables {
  return {
    async insert(kind: EntryKind, entries: Entry[], token: string, signal: AbortSignal): Promise<void> {
      switch (kind) {
        case 'events':
          return await insertEvents(clickhouse, journalId, entries, token, signal)
        case 'profiles':
          return await PROFILES.insert(clickhouse, entries, signal)
        case 'sessions':
          return await SESSIONS.insert(clickhouse, entries, signal)
        default:
          throw new Error(`no table holds ${kind satisfies never}`)
      }
    },
    lastStored: (first) => lastStoredPosition(clickhouse, journalId, first),
    isInserting: (token) => isInserting(clickhouse, token),
    storedPositions: (block) => storedPositions(clickhouse, journalId, block),
    insertDeadLetter: (entry, reason, token) => insertDeadLetter(clickhouse, journalId, entry, reason, token),
    statesIn,
    profiles: stateTable(clickhouse, PROFILES, { format: formatProfile, parse: parseProfile }),
    sessions: stateTable(clickhouse, SESSIONS, { format: formatSession, parse: parseSession }),
  }
}

function stateTable<Value extends { properties: Properties }>(
  clickhouse: ClickHouse,
  { kind, row, read }: VersionedTable<Value>,
  text: Pick<StateTable<Value>, 'format' | 'parse'>,
): StateTable<Value> {
  return {
    kind,
    ...text,
    row,
    sizeOf: ({ properties }) => sizeOfProperties(properties),
    read: (projectId, names, maxBytes) => read(clickhouse, projectId, names, maxBytes),
  }
}

function statesIn(entries: Entry[]): StoredState[] {
  return entries.flatMap(({ kind, position: version, body }) => {
    if (kind === 'events') return []
    const rows = JSON.parse(`[${body}]`) as { project_id: string; distinct_id: string; session_id?: string }[]
    return rows.map((row) => {
      const name = kind === 'profiles' ? row.distinct_id : (row.session_id ?? '')
      return { stateKey: stateKeyOf(kind, row.project_id, name), version }
    })
  })
}
