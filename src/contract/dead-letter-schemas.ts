import { type Static, Type } from '@sinclair/typebox'
import { MAX_DEAD_LETTERS } from './limits.js'
import { Page, query } from './query-schemas.js'
import { apiKey, messages, milliseconds, numbered, withFields } from './schemas.js'

/** The schemas of dead letters. */

export const DeadLettersQuery = query({
  ...Page,
  limit: Type.Integer({
    ...Page.limit,
    maximum: MAX_DEAD_LETTERS,
    message: `must be a whole number from 1 to ${MAX_DEAD_LETTERS}`,
  }),
})

export const ReplayBody = Type.Object(
  {
    apiKey,
    ids: Type.Array(Type.String({ message: 'must be the id of a dead letter' }), {
      minItems: 1,
      maxItems: MAX_DEAD_LETTERS,
      message: `must be an array of 1 to ${MAX_DEAD_LETTERS} ids`,
    }),
  },
  { message: messages.object },
)

export const DeadLetter = Type.Object({
  id: Type.String(),
  kind: Type.Union([Type.Literal('events'), Type.Literal('rejected')]),
  reason: Type.String(),
  received_at: milliseconds,
  replayed_at: Type.Union([milliseconds, Type.Null()], {
    description: 'When it was stored; null if it has not been replayed.',
  }),
  entry: Type.String({ description: 'The beginning of its text: at most 10 000 characters.' }),
})
export type DeadLetter = Static<typeof DeadLetter>
export const DeadLetterPage = withFields({ dead_letters: Type.Array(DeadLetter), ...numbered })
export type DeadLetterPage = Static<typeof DeadLetterPage>
export const ReplayedDeadLetters = withFields({
  replayed: Type.Integer({ description: 'How many were stored.' }),
  refused: Type.Array(Type.Object({ id: Type.String(), reason: Type.String() })),
})
export type ReplayedDeadLetters = Static<typeof ReplayedDeadLetters>
