import type { AnyQuestion, UsersPage, UsersQuestion } from '../contract/questions.js'
import type { CountingKind, Kind } from './kind.js'
import { Statement } from './statement.js'

interface Row {
  count: string
  page: string[]
}

/** Lists the users that a number of another question's answer counts, in byte order of their names. */
export function usersKind(getKind: (question: AnyQuestion) => CountingKind<AnyQuestion, unknown>): Kind<UsersQuestion> {
  return {
    query({ of, cell, limit, page }, asked) {
      const statement = new Statement(asked, { namesUsers: true })
      const users = getKind(of).users(of, cell, statement)
      const first = statement.number((page - 1) * limit + 1)
      const sql = `SELECT count() AS count, arraySlice(arraySort(groupArray(user)), toInt64(${first}), toInt64(${statement.number(limit)})) AS page
        FROM (SELECT DISTINCT user FROM (${users}))`
      return { ...statement.query(sql), isGreedy: of.kind === 'retention' && !asked.hasManyValues }
    },

    answer({ limit, page }, rows) {
      const [row] = rows as Row[]
      const count = Number(row?.count ?? 0)
      const results: UsersPage = { users: row?.page ?? [], count, page, limit, hasMore: page * limit < count }
      return { results }
    },
  }
}
