import type { Question } from '../contract/questions.js'
import { funnel } from './funnel.js'
import type { Kind } from './kind.js'
import { paths } from './paths.js'
import { series } from './series.js'

type Kinds = { [Name in Question['kind']]?: Kind<Extract<Question, { kind: Name }>> }

/** Every kind of question. */
const KINDS: Kinds = { funnel, paths, series }

export function kindOf(question: Question): Kind<Question> {
  const kind = KINDS[question.kind]
  if (!kind) throw new RangeError(`no such kind: ${question.kind}`)
  return kind as Kind<Question>
}
