import type { Static } from '@sinclair/typebox'
import type * as answers from './answer-schemas.js'
import type { Input, Parsed } from './fields.js'
import type { Comparison, FieldName, Filter, Operator, Scalar, SessionEvents } from './filters.js'
import type * as schemas from './question-schemas.js'
import type { Warning } from './warning.js'

/**
 * The types of questions and answers. `…Question` is a question with every default filled in. `…Input` is a question as
 * callers write it: fields that have a default may be absent or null.
 */

export type { Comparison, FieldName, Filter, Operator, Scalar, SessionEvents }

export type Definition = Parsed<typeof schemas.Definition>
export type DefinitionInput = Input<typeof schemas.Definition>
export type SeriesDefinition = Parsed<typeof schemas.SeriesDefinition>
export type SeriesDefinitionInput = Input<typeof schemas.SeriesDefinition>
export type Exclusion = Parsed<typeof schemas.Exclusion>
export type ExclusionInput = Input<typeof schemas.Exclusion>
export type Metric = SeriesDefinition['metric']
export type Interval = SeriesQuestion['interval']

export type SeriesQuestion = Parsed<typeof schemas.Series>
export type SeriesInput = Input<typeof schemas.Series>
export type FunnelQuestion = Parsed<typeof schemas.Funnel>
export type FunnelInput = Input<typeof schemas.Funnel>
export type RetentionQuestion = Parsed<typeof schemas.Retention>
export type RetentionInput = Input<typeof schemas.Retention>
/** Exactly one of `start` and `end` is set. */
export type PathsQuestion = Parsed<typeof schemas.Paths>
export type PathsInput = Input<typeof schemas.Paths>

/** A question whose answer has numbers. */
export type AnyQuestion = SeriesQuestion | FunnelQuestion | RetentionQuestion | PathsQuestion
/** The fields of every question about a range of time. */
export type RangeQuestion = Pick<AnyQuestion, 'from' | 'to' | 'timezone' | 'week_start' | 'where' | 'sessions'>
export type SessionsDefinition = RangeQuestion['sessions']

export type SeriesCell = Parsed<typeof schemas.CELLS.series>
export type FunnelCell = Parsed<typeof schemas.CELLS.funnel>
export type RetentionCell = Parsed<typeof schemas.CELLS.retention>
/** A node, which has `event`, or a link, which has `from` and `to`. */
export type PathsCell = Parsed<typeof schemas.CELLS.paths>
export type Cell = SeriesCell | FunnelCell | RetentionCell | PathsCell

/** The users who make up a number of the answer to `of`. */
export type UsersQuestion = Parsed<(typeof schemas.USERS)[keyof typeof schemas.USERS]>
export type UsersInput = Input<(typeof schemas.USERS)[keyof typeof schemas.USERS]>

export type Question = AnyQuestion | UsersQuestion
export type QuestionInput = SeriesInput | FunnelInput | RetentionInput | PathsInput | UsersInput

export type SeriesPoint = Static<typeof answers.SeriesPoint>
export type SeriesLine = Static<typeof answers.SeriesLine>
export type FunnelStep = Static<typeof answers.FunnelStep>
export type FunnelLine = Static<typeof answers.FunnelLine>
export type Cohort = Static<typeof answers.Cohort>
export type Averages = Static<typeof answers.Averages>
export type Paths = Static<typeof answers.PathsResults>
export type UsersPage = Static<typeof answers.UsersPage>

interface Results {
  series: SeriesLine[]
  funnel: FunnelLine[]
  retention: Cohort[]
  paths: Paths
  users: UsersPage
}

interface Extra {
  series: {
    /** the numbers may come from sketches */
    approximate?: true
  }
  retention: { averages: Averages }
}

/** The answer to a question of this kind. */
export type AnswerTo<Kind extends Question['kind']> = {
  kind: Kind
  results: Results[Kind]
  /** the question with every default filled in */
  query: Extract<Question, { kind: Kind }>
  /** accepted events that the answer does not count yet */
  pending: number
  elapsed_ms: number
  /** about names that do not exist, and ignored fields; absent if there are none */
  warnings?: Warning[]
} & (Kind extends keyof Extra ? Extra[Kind] : unknown)

export type AnyAnswer = { [Kind in Question['kind']]: AnswerTo<Kind> }[Question['kind']]
