import type { AnyQuestion, Question, UsersPage, UsersQuestion } from '../contract/questions.js'
import { funnel } from './funnel.js'
import type { CountingKind, Kind } from './kind.js'
import { paths } from './paths.js'
import { retention } from './retention.js'
import { series } from './series.js'
import { Statement } from './statement.js'

/** Every kind of question whose answers count users. */
const COUNTING = { funnel, paths, retention, series }

interface UsersRow {
  count: string
  page: string[]
}

/** Lists the users that a number of another question's answer counts, in byte order of their names. */
const users: Kind<UsersQuestion> = {
  query({ of, cell, limit, page }, context) {
    const statement = new Statement(context, { namesUsers: true })
    const counting = COUNTING[of.kind] as CountingKind<AnyQuestion, unknown>
    const first = statement.number((page - 1) * limit + 1)
    const sql = `SELECT count() AS count, arraySlice(arraySort(groupArray(user)), toInt64(${first}), toInt64(${statement.number(limit)})) AS page
        FROM (SELECT DISTINCT user FROM (${counting.users(of, cell, statement)}))`
    return { ...statement.query(sql), isGreedy: of.kind === 'retention' && !context.hasManyValues }
  },

  answer({ limit, page }, rows) {
    const [row] = rows as UsersRow[]
    const count = Number(row?.count ?? 0)
    const results: UsersPage = { users: row?.page ?? [], count, page, limit, hasMore: page * limit < count }
    return { results }
  },
}

export function getKind(question: Question): Kind<Question> {
  return (question.kind === 'users' ? users : COUNTING[question.kind]) as Kind<Question>
}
