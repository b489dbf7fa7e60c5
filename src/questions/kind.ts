import type { ClickHouseSettings } from '@clickhouse/client'
import type { Parameters } from '../clickhouse/parameters.js'
import type { QueryContext, Statement } from './statement.js'

/** A query for ClickHouse. */
export interface Query {
  /** without a FORMAT */
  sql: string
  parameters: Parameters
  settings?: ClickHouseSettings
}

/** The fields of an answer besides those that every answer has. */
export interface Answer {
  results: unknown
  averages?: unknown
  approximate?: true
}

/** A kind of question: makes the query for ClickHouse, and the answer from its rows. Both are pure. */
export interface Kind<Question> {
  query(question: Question, asked: QueryContext): Query
  /** @param rows as JSON objects, where 64-bit integers are texts */
  answer(question: Question, rows: readonly unknown[], asked: Pick<QueryContext, 'now'>): Answer
}

/** A kind of question whose answers count users, who can be listed. */
export interface CountingKind<Question, Cell> extends Kind<Question> {
  /** SELECT of one column, `user`: the users behind one number of the answer, possibly repeated */
  users(question: Question, cell: Cell, statement: Statement): string
}
