import type { ClickHouseSettings } from '@clickhouse/client'
import type { Parameters } from '../clickhouse/parameters.js'
import type { Asked } from './statement.js'

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
  answer(question: Question, rows: readonly unknown[], asked: Asked): Answer
}
