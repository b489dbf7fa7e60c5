import type {
  Cohort,
  Definition,
  Exclusion,
  FunnelCell,
  FunnelLine,
  FunnelQuestion,
  Paths,
  PathsCell,
  PathsQuestion,
  Question,
  RetentionCell,
  RetentionQuestion,
  SeriesCell,
  SeriesDefinition,
  SeriesLine,
  SeriesQuestion,
  UsersPage,
} from './questions.js'
import type { Warning } from './warning.js'

/** Questions as callers write them, what the service fills in left out, and the answers to each kind. */

/** These fields may be absent, or null. */
type Optional<T, K extends keyof T> = Omit<T, K> & { [P in K]?: T[P] | null | undefined }
type Range = 'from' | 'to' | 'timezone' | 'week_start' | 'where'
type Split = 'breakdown' | 'limit'

export type DefinitionInput = Optional<Definition, 'where'>
export type SeriesDefinitionInput = Optional<SeriesDefinition, 'where' | 'metric' | 'property' | 'p'>
export type ExclusionInput = Optional<Exclusion, 'where'>

export type SeriesInput = Optional<
  Omit<SeriesQuestion, 'series'>,
  Range | Split | 'interval' | 'other' | 'approximate'
> & { series: SeriesDefinitionInput[] }

export type FunnelInput = Optional<Omit<FunnelQuestion, 'steps' | 'exclude'>, Range | Split | 'window' | 'order'> & {
  steps: DefinitionInput[]
  exclude?: ExclusionInput[] | null | undefined
}

/** A name stands for the events of that name. */
export type RetentionInput = Optional<
  Omit<RetentionQuestion, 'start' | 'return'>,
  Range | 'cohort' | 'unit' | 'mode' | 'count' | 'intervals'
> & { start: DefinitionInput | string; return: DefinitionInput | string }

/** One of `start` and `end` is there. */
export type PathsInput = Optional<Omit<PathsQuestion, 'start' | 'end'>, Range | 'steps' | 'window' | 'limit'> & {
  start?: DefinitionInput | string | null | undefined
  end?: DefinitionInput | string | null | undefined
}

/** Who is behind a number of the answer to `of`. */
export type UsersInput = {
  kind: 'users'
  limit?: number | null | undefined
  page?: number | null | undefined
} & (
  | { of: SeriesInput; cell: Optional<SeriesCell, 'series' | 'breakdown' | 'at'> }
  | { of: FunnelInput; cell: Optional<FunnelCell, 'breakdown' | 'dropped'> }
  | { of: RetentionInput; cell: Optional<RetentionCell, 'interval'> }
  | { of: PathsInput; cell: PathsCell }
)

export type QuestionInput = SeriesInput | FunnelInput | RetentionInput | PathsInput | UsersInput

interface Results {
  series: SeriesLine[]
  funnel: FunnelLine[]
  retention: Cohort[]
  paths: Paths
  users: UsersPage
}

interface Beside {
  series: {
    /** the numbers may come from sketches */
    approximate?: true
  }
  /** of the cells that are over; null where there is none */
  retention: { averages: { interval: number; share: number | null }[] }
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
  /** names that nothing has, and fields that are ignored; absent if there are none */
  warnings?: Warning[]
} & (Kind extends keyof Beside ? Beside[Kind] : unknown)

export type AnyAnswer = { [Kind in Question['kind']]: AnswerTo<Kind> }[Question['kind']]
