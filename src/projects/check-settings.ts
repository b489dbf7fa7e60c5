import type { Shards } from '../clickhouse/shards.js'
import type { ApiError } from '../contract/errors.js'
import type { SettingsChange } from '../contract/project-settings.js'
import { Sessions } from '../contract/question-schemas.js'
import { Faults } from '../questions/faults.js'
import { checkPatterns, findPatterns, fitsProject, type Pattern } from '../questions/patterns.js'
import { StrictReader } from '../questions/strict-reader.js'

/**
 * Maximum length of the default definition of sessions, as JSON: it becomes part of many questions, which have their
 * own limits.
 */
const MAX_SESSIONS = 4_000
const FILTERS = { of: 'a project', most: 10 }

/**
 * Finds what is wrong with a change of settings that matches `SettingsBody`, except for regular expressions that RE2
 * rejects.
 * @returns null if it is valid
 */
export function findSettingsFault(change: SettingsChange): ApiError | null {
  const { sessions } = change
  const faults = new Faults()
  if (sessions != null) {
    new StrictReader(faults, { limit: FILTERS }).check(Sessions, sessions, '/sessions')
    if (JSON.stringify(sessions).length > MAX_SESSIONS) {
      faults.add('/sessions', `must have at most ${MAX_SESSIONS} characters as JSON`)
    }
    if (!fitsProject(listPatterns(change))) faults.add('/sessions/where', 'must have smaller regular expressions')
  }
  return faults.toError()
}

/**
 * Checks a change of settings that matches `SettingsBody`.
 * @throws ApiError `invalid_request`; StoreError, StoreUnreachableError, because ClickHouse checks regular expressions
 */
export async function checkSettings(shards: Shards, change: SettingsChange): Promise<void> {
  const fault = findSettingsFault(change)
  if (fault) throw fault
  await checkPatterns(listPatterns(change), ({ sql, parameters }) => shards.rows(sql, parameters))
}

function listPatterns({ sessions }: SettingsChange): Pattern[] {
  return sessions == null || sessions === 'id' ? [] : findPatterns(sessions.where ?? null, '/sessions/where')
}
