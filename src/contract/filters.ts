/** Filters of events, as sent to the API. */

export type Scalar = string | number | boolean | null

/**
 * `event`, `distinct_id`, `timestamp`, `properties.<name>[.<name>…]`, `user.<name>…`, `session.<name>`, `page.<name>` or
 * `context.<name>`; a list of names if one of them has a dot in it.
 */
export type FieldName = string | string[]

/** Splits a field into its source and the path to a value within it. */
export function splitField(field: FieldName): string[] {
  return typeof field === 'string' ? field.split('.') : field
}

/** The kind of value that each operator compares a field with. */
export const OPERATORS = {
  is: 'values',
  is_not: 'values',
  contains: 'texts',
  not_contains: 'texts',
  starts_with: 'texts',
  ends_with: 'texts',
  matches: 'texts',
  gt: 'order',
  gte: 'order',
  lt: 'order',
  lte: 'order',
  set: 'nothing',
  not_set: 'nothing',
} as const

interface Operands {
  values: [Scalar[]]
  texts: [string | string[]]
  order: [number | string]
  nothing: []
}

export type Operator = keyof typeof OPERATORS
export type Operand = keyof Operands
type OperatorWith<O extends Operand> = {
  [Name in Operator]: (typeof OPERATORS)[Name] extends O ? Name : never
}[Operator]

/** A filter that compares one field. */
export type Comparison = { [O in Operand]: [OperatorWith<O>, FieldName, ...Operands[O]] }[Operand]
/** A session needs at least one such event. */
export interface SessionEvents {
  event: string | string[]
  where?: Filter | null
}
export type Filter = Comparison | ['session_has', SessionEvents] | ['and' | 'or', Filter[]] | ['not', Filter]
