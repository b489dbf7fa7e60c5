import type { ClickHouse } from '../clickhouse/client.js'
import type { Entry, EntryKind, StoredState } from '../journal/journal.js'
import { formatProfile, type Profile, parseProfile } from '../model/profile.js'
import { sizeOfProperties } from '../model/properties.js'
import { formatSession, parseSession, type Session } from '../model/session.js'
import { stateKeyOf } from '../model/state-key.js'
import type { StateTable } from '../pipeline/state-store.js'
import type { Tables } from '../pipeline/writer.js'
import { insertDeadLetter } from './dead-letters.js'
import { insertEvents, lastStoredPosition, storedPositions } from './events.js'
import { isInserting } from './insert.js'
import { insertProfiles, profileRow, readProfiles } from './profiles.js'
import { insertSessions, readSessions, sessionRow } from './sessions.js'

export interface StoreTables extends Tables {
  profiles: StateTable<Profile>
  sessions: StateTable<Session>
}

/** The tables as the writer and the states see them. */
export function openTables(clickhouse: ClickHouse, journalId: number): StoreTables {
  return {
    async insert(kind: EntryKind, entries: Entry[], token: string, signal: AbortSignal): Promise<void> {
      switch (kind) {
        case 'events':
          return await insertEvents(clickhouse, journalId, entries, token, signal)
        case 'profiles':
          return await insertProfiles(clickhouse, entries, signal)
        case 'sessions':
          return await insertSessions(clickhouse, entries, signal)
        default:
          throw new Error(`no table holds ${kind satisfies never}`)
      }
    },
    lastStored: (first) => lastStoredPosition(clickhouse, journalId, first),
    isInserting: (token) => isInserting(clickhouse, token),
    storedPositions: (block) => storedPositions(clickhouse, journalId, block),
    insertDeadLetter: (entry, reason, token) => insertDeadLetter(clickhouse, journalId, entry, reason, token),
    statesIn,
    profiles: {
      kind: 'profiles',
      format: formatProfile,
      parse: parseProfile,
      row: profileRow,
      sizeOf: ({ properties }) => sizeOfProperties(properties),
      read: (projectId, names, maxBytes) => readProfiles(clickhouse, projectId, names, maxBytes),
    },
    sessions: {
      kind: 'sessions',
      format: formatSession,
      parse: parseSession,
      row: sessionRow,
      sizeOf: ({ properties }) => sizeOfProperties(properties),
      read: (projectId, names, maxBytes) => readSessions(clickhouse, projectId, names, maxBytes),
    },
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
