import type { ApiError } from '../contract/errors.js'
import type { SettingsChange } from '../contract/project-settings.js'
import { Sessions } from '../contract/question-schemas.js'
import { Faults } from '../questions/faults.js'
import { StrictReader } from '../questions/strict-reader.js'

/** Characters of the default definition of sessions, as JSON: it is a part of many questions, which have limits, too. */
const MAX_SESSIONS = 4_000

/** Finds what is wrong with a change of settings that matches `SettingsBody`. @returns null if it is valid */
export function findSettingsFault({ sessions }: SettingsChange): ApiError | null {
  const faults = new Faults()
  if (sessions != null) {
    new StrictReader(faults).check(Sessions, sessions, '/sessions')
    if (JSON.stringify(sessions).length > MAX_SESSIONS) {
      faults.add('/sessions', `must have at most ${MAX_SESSIONS} characters as JSON`)
    }
  }
  return faults.toError()
}
