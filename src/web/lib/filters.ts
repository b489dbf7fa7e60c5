import {
  type Comparison as Condition,
  type FieldName,
  type Filter,
  OPERATORS,
  type Operator,
  type Scalar,
} from '../../contract/filters.js'
import { isScalar } from './fields.js'

export type { Condition, Operator }
export type Joint = 'and' | 'or'

/** Whether a value has the shape of a filter, even if incomplete. */
export function isFilter(value: unknown): value is Filter {
  if (!Array.isArray(value)) return false
  const [operator, operand, compared] = value
  if (operator === 'not') return value.length === 2 && isFilter(operand)
  if (operator === 'session_has') {
    if (value.length !== 2 || typeof operand !== 'object' || operand === null || !isFieldName(operand.event))
      return false
    return operand.where === undefined || operand.where === null || isFilter(operand.where)
  }
  if (operator === 'and' || operator === 'or') {
    return value.length === 2 && Array.isArray(operand) && operand.every(isFilter)
  }
  if (typeof operator !== 'string' || !Object.hasOwn(OPERATORS, operator) || !isFieldName(operand)) return false
  switch (OPERATORS[operator as Operator]) {
    case 'nothing':
      return value.length === 2
    case 'values':
      return Array.isArray(compared) && compared.every(isScalar)
    case 'texts':
      return isFieldName(compared)
    case 'order':
      return typeof compared === 'number' || typeof compared === 'string'
  }
}

/** Whether a value is a field: a name or a list of names. */
export function isFieldName(value: unknown): value is FieldName {
  return typeof value === 'string' || (Array.isArray(value) && value.every((name) => typeof name === 'string'))
}

/** Removes incomplete conditions, such as `["is", field, []]`, which would match nothing. */
export function dropIncomplete(filter: Filter | null): Filter | null {
  if (filter === null) return null
  if (filter[0] === 'not') {
    const inner = dropIncomplete(filter[1])
    return inner && ['not', inner]
  }
  if (filter[0] === 'and' || filter[0] === 'or') {
    const inner = filter[1].map(dropIncomplete).filter((one) => one !== null)
    return inner.length > 0 ? [filter[0], inner] : null
  }
  if (filter[0] === 'session_has') {
    const { event, where } = filter[1]
    return event.length === 0 ? null : ['session_has', { event, where: dropIncomplete(where ?? null) }]
  }
  const [, field, compared] = filter as Condition
  if (field.length === 0 || field === 'properties.' || field === 'user.') return null
  return compared === '' || (Array.isArray(compared) && compared.length === 0) ? null : filter
}

/** A filter as the form edits it: conditions, and groups of conditions, joined by `and` or `or`. */
export interface Group {
  joint: Joint
  rows: (Condition | Group)[]
}

/** @returns null if the filter has a `not`, a `session_has` or nested groups; such a filter is edited as JSON */
export function toGroup(filter: Filter | null): Group | null {
  if (filter === null) return { joint: 'and', rows: [] }
  const group = toGroupOfAnyDepth(filter)
  const isDeeper = group?.rows.some((row) => isGroup(row) && row.rows.some(isGroup))
  return isDeeper ? null : group
}

function toGroupOfAnyDepth(filter: Filter): Group | null {
  if (filter[0] === 'not' || filter[0] === 'session_has') return null
  if (isCondition(filter)) return { joint: 'and', rows: [filter] }
  const rows = (filter[1] as Filter[]).map((one) => (isCondition(one) ? one : toGroupOfAnyDepth(one)))
  return rows.includes(null) ? null : { joint: filter[0] as Joint, rows: rows.filter((row) => row !== null) }
}

function isCondition(filter: Filter): filter is Condition {
  return !['and', 'or', 'not', 'session_has'].includes(filter[0])
}

export function isGroup(row: Condition | Group): row is Group {
  return !Array.isArray(row)
}

/** The inverse of `toGroup`. A single condition needs no group, and an empty group means no filter. */
export function toFilter({ joint, rows }: Group): Filter | null {
  const filters = rows.map(toFilterPart)
  const [only] = filters
  if (only === undefined) return null
  return filters.length === 1 && joint === 'and' ? only : [joint, filters]
}

function toFilterPart(row: Condition | Group): Filter {
  return isGroup(row) ? [row.joint, row.rows.map(toFilterPart)] : row
}

/** Joins filters that all have to match. */
export function joinFilters(filters: Filter[]): Filter | null {
  const [only = null] = filters
  return filters.length > 1 ? ['and', filters] : only
}

/** Changes the operator of a condition, and keeps the operand if possible. */
export function changeOperator(condition: Condition, operator: Operator): Condition {
  const [, field, before = []] = condition
  const values: Scalar[] = Array.isArray(before) ? before : before === '' ? [] : [before]
  switch (OPERATORS[operator]) {
    case 'nothing':
      return [operator, field] as Condition
    case 'values':
      return [operator, field, values] as Condition
    case 'texts':
      return [operator, field, values.filter((value) => value !== null).map(String)] as Condition
    case 'order': {
      const [first = ''] = values
      return [operator, field, typeof first === 'number' ? first : String(first ?? '')] as Condition
    }
  }
}
