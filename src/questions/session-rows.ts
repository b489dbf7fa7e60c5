import { splitField } from '../contract/filters.js'
import { SESSION } from '../contract/question-schemas.js'
import type { FieldName, SessionEvents } from '../contract/questions.js'
import type { FieldRows, FieldSql } from './field-sql.js'
import { Paths } from './property-paths.js'
import type { Sessions } from './sessions.js'
import type { Statement } from './statement.js'
import { joinProfiles } from './users-join.js'

/** Sessions as if they were events: each at its start, of its user, without properties. */
export class SessionRows implements FieldRows {
  readonly statement: Statement
  readonly #sessions: Sessions
  readonly #profile = new Paths('u')

  constructor(statement: Statement, sessions: Sessions) {
    this.statement = statement
    this.#sessions = sessions
  }

  field(name: FieldName): FieldSql {
    const [source, ...path] = splitField(name)
    switch (source) {
      case 'event':
        return { type: 'text', sql: 'event' }
      case 'distinct_id':
        return { type: 'text', sql: this.user() }
      case 'timestamp':
        return { type: 'number', sql: 'timestamp' }
      case 'user':
        return { type: 'json', sql: this.#profile.column(path) }
      case 'page':
        return this.#sessions.field(['entry', 'page', ...path])
      case 'context':
        return this.#sessions.context(path[0] ?? '')
      case 'session':
        return this.#sessions.field(path)
      default:
        return { type: 'json', sql: `''` }
    }
  }

  sessionHas(events: SessionEvents): string {
    return this.#sessions.has(events)
  }

  user(): string {
    return this.#sessions.user()
  }

  userHash(): string {
    return this.#sessions.userHash()
  }

  /** Operand of FROM. Columns: `event`, `timestamp`, `id` and those that were asked for. */
  sql(): string {
    const hasProfile = !this.#profile.isEmpty
    const user = hasProfile ? this.user() : ''
    const rows = `(SELECT *, '${SESSION}' AS event, session_start AS timestamp, session_order AS id FROM ${this.#sessions.sql()})`
    if (!hasProfile) return rows
    const joined = joinProfiles(this.statement, this.#profile.select(this.statement), `e.${user}`, null)
    return `(SELECT e.*, ${this.#profile.names.join(', ')} FROM ${rows} AS e ${joined})`
  }
}
