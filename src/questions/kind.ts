import type { ClickHouseSettings } from '@clickhouse/client'
import type { Parameters } from '../clickhouse/parameters.js'
import type { Asked, Statement } from './statement.js'

/** What ClickHouse is asked. */
export interface Query {
  /** without a FORMAT */
  sql: string
  parameters: Parameters
  settings?: ClickHouseSettings
}

/** What an answer has besides what every one has. */
export interface Answer {
  results: unknown
  averages?: unknown
  approximate?: true
}

/** A kind of question: what to ask ClickHouse, and what its rows mean. Both are pure. */
export interface Kind<Question> {
  query(question: Question, asked: Asked): Query
  /** @param rows as JSON objects, where 64-bit integers are texts */
  answer(question: Question, rows: readonly unknown[], asked: Pick<Asked, 'now'>): Answer
}

/** A kind of question whose answers have numbers that users are behind. */
export interface CountingKind<Question, Cell> extends Kind<Question> {
  /** SELECT of one column, `user`: those behind a number of the answer, each of them once or more */
  users(question: Question, cell: Cell, statement: Statement): string
}
