import { type Static, Type } from '@sinclair/typebox'
import { MAX_CARDS } from './limits.js'
import type { QuestionInput } from './questions.js'
import { anyProperties, apiKey, messages, milliseconds, Name, optional, warnings, withFields } from './schemas.js'

/** The schemas of saved questions and boards. */

const SavedId = Type.String({
  pattern: '^[A-Za-z0-9_-]{1,64}$',
  message: 'must be 1 to 64 letters, digits, _ and -',
})
const Revision = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  message: 'must be the revision to replace, 0 for none',
})
const Display = Type.Object({}, { additionalProperties: true, message: messages.object })
const Question = Type.Object({}, { additionalProperties: true, message: messages.object })

export const SavedQuestionBody = Type.Object(
  { apiKey, name: Name, question: Question, display: optional(Display), revision: optional(Revision) },
  { message: messages.object },
)

const CardBody = Type.Object(
  {
    id: SavedId,
    name: Name,
    question: { ...Question, description: 'A question, or `{"saved": "<id>"}` for one that is saved.' },
    display: optional(Display),
    width: Type.Integer({ minimum: 1, maximum: 4, message: 'must be a whole number from 1 to 4' }),
    height: optional(Type.Integer({ minimum: 1, maximum: 1000, message: 'must be a whole number from 1 to 1000' })),
  },
  { message: messages.object },
)

export const BoardBody = Type.Object(
  {
    apiKey,
    name: Name,
    cards: Type.Array(CardBody, { maxItems: MAX_CARDS, message: `must be an array of at most ${MAX_CARDS} cards` }),
    display: optional(Display),
    revision: optional(Revision),
  },
  { message: messages.object },
)

export const SavedParams = Type.Object({ id: Type.String() })
/** Parameters of calls that save something under an id that the client chooses. */
export const NewSavedParams = Type.Object({ id: SavedId })

const savedFields = {
  id: Type.String(),
  name: Type.String(),
  revision: Type.Integer({ description: 'Higher with each change.' }),
  updated_at: milliseconds,
}
const displayOrNull = Type.Union([anyProperties(), Type.Null()])
const anyQuestion = <T>() => Type.Unsafe<T>(Type.Object({}, { additionalProperties: true }))
const SavedQuestion = Type.Object({
  ...savedFields,
  question: anyQuestion<QuestionInput>(),
  display: displayOrNull,
})
export const BoardCard = Type.Object({
  id: Type.String(),
  name: Type.String(),
  question: anyQuestion<QuestionInput | { saved: string }>(),
  display: displayOrNull,
  width: Type.Integer({ description: 'In columns, 1 to 4.' }),
  height: Type.Union([Type.Integer(), Type.Null()]),
})
export type BoardCard = Static<typeof BoardCard>
export const BoardSummary = Type.Object({
  ...savedFields,
  count: Type.Integer({ description: 'How many cards it has.' }),
})
export type BoardSummary = Static<typeof BoardSummary>
export const Board = Type.Object({ ...savedFields, cards: Type.Array(BoardCard), display: displayOrNull })
export type Board = Static<typeof Board>
export const SavedQuestions = withFields({ questions: Type.Array(SavedQuestion) })
export const OneSavedQuestion = withFields({ question: SavedQuestion })
export const Boards = withFields({ boards: Type.Array(BoardSummary) })
export const OneBoard = withFields({ board: Board })
export const Saved = withFields({ revision: Type.Integer(), warnings })
