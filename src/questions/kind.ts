import type { Query, QueryContext, Statement } from './statement.js'

/** The fields of an answer that depend on its kind. */
export interface Answer {
  results: unknown
  averages?: unknown
  approximate?: true
}

/** A kind of question: builds the query for ClickHouse, and the answer from its rows. Both are pure. */
export interface Kind<Question> {
  query(question: Question, context: QueryContext): Query
  /** @param rows JSON objects, with 64-bit integers as strings */
  answer(question: Question, rows: readonly unknown[], context: Pick<QueryContext, 'now'>): Answer
}

/** A kind of question whose answers count users, who can be listed. */
export interface CountingKind<Question, Cell> extends Kind<Question> {
  /** SELECT of the column `user`: the users counted in one number of the answer, possibly with duplicates */
  users(question: Question, cell: Cell, statement: Statement): string
}
