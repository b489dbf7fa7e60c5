import type { AnyQuestion, Question } from '../contract/questions.js'
import { funnel } from './funnel.js'
import type { CountingKind, Kind } from './kind.js'
import { paths } from './paths.js'
import { retention } from './retention.js'
import { series } from './series.js'
import { usersKind } from './users.js'

/** Every kind of question whose answers count users. */
const COUNTING = { funnel, paths, retention, series }

const users = usersKind((question) => COUNTING[question.kind] as CountingKind<AnyQuestion, unknown>)

export function getKind(question: Question): Kind<Question> {
  return (question.kind === 'users' ? users : COUNTING[question.kind]) as Kind<Question>
}
