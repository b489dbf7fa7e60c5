import type { World } from './data.js'
import { funnelAnswer } from './funnel.js'
import { pathsAnswer } from './paths.js'
import { frameOf, type Question } from './question.js'
import { retentionAnswer } from './retention.js'
import { seriesAnswer } from './series.js'
import { usersAnswer } from './users.js'

/**
 * The correct answer to a question, over events in an array: as slow and obvious as can be, and written only from the
 * definitions in docs/questions.md, so that an SQL answer that agrees with it is right.
 */
export function answerOf(given: Question, world: World, now: number) {
  const question = withoutNulls(given)
  const asked = question.kind === 'users' ? question.of : question
  const frame = frameOf(asked, world, now)
  switch (question.kind) {
    case 'series':
      return seriesAnswer(question, frame)
    case 'funnel':
      return funnelAnswer(question, frame)
    case 'retention':
      return retentionAnswer(question, frame)
    case 'paths':
      return pathsAnswer(question, frame)
    case 'users':
      return usersAnswer(question, frame)
  }
}

/** A member that is null counts as absent; a null among the values of a filter is one of them. */
function withoutNulls<Given>(given: Given): Given {
  if (Array.isArray(given)) return given.map(withoutNulls) as Given
  if (typeof given !== 'object' || given === null || given instanceof Map) return given
  const members = Object.entries(given).filter(([, value]) => value !== null)
  return Object.fromEntries(members.map(([name, value]) => [name, withoutNulls(value)])) as Given
}
