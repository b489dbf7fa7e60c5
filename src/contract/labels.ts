import { type Comparison, type FieldName, type Filter, OPERATORS, type Operator, splitField } from './filters.js'
import { OTHER, SESSION } from './question-schemas.js'
import type { SeriesDefinition, SeriesLine, SeriesQuestion } from './questions.js'

/** Labels for the parts of questions, for the page and for the tables in a terminal. */

/** A filter with a longer label is only mentioned. */
const MAX_FILTER_LABEL = 60

/** The label of each operator. */
export const OPERATOR_LABELS: Record<Operator, string> = {
  is: 'is',
  is_not: 'is not',
  contains: 'contains',
  not_contains: 'does not contain',
  starts_with: 'starts with',
  ends_with: 'ends with',
  matches: 'matches the pattern',
  gt: 'is more than',
  gte: 'is at least',
  lt: 'is less than',
  lte: 'is at most',
  set: 'is set',
  not_set: 'is not set',
}

/** Labels the events of a line, step or node. */
export function labelEvents(event: string | string[]): string {
  if (event === '*') return 'Any event'
  if (event === SESSION) return 'Sessions'
  return typeof event === 'string' ? event : event.join(' or ')
}

/** Labels a field for people: `price`, not `properties.price`. */
export function labelField(field: FieldName): string {
  const [source, ...names] = splitField(field)
  if (names.length === 0) return source === 'distinct_id' ? 'user' : (source ?? '')
  switch (source) {
    case 'user':
      return `user’s ${names.join(' › ')}`
    case 'session':
      return labelSessionField(names)
    case 'page':
      return `page ${names.join(' › ')}`
    case 'context':
      return names.join(' › ').replaceAll('_', ' ')
    default:
      return names.join(' › ')
  }
}

/** Labels a field of a session, such as `entry page path` and `session seconds`. */
function labelSessionField([name = '', ...names]: string[]): string {
  if (names.length === 0) return `session ${name}`
  const event = { first: 'first event’s ', last: 'last event’s ', entry: 'entry ', exit: 'exit ' }[name]
  return event === undefined ? `session ${[name, ...names].join(' › ')}` : `${event}${labelField(names)}`
}

/** Labels the values of a breakdown. */
export function labelBreakdown(values: readonly unknown[]): string {
  return values.map((_, place) => labelPlace(values, place)).join(', ')
}

/** Labels breakdowns that are shown together. A string that looks like another value is quoted. */
export function labelBreakdowns(breakdowns: readonly (readonly unknown[])[]): string[] {
  const firsts = new Map<string, unknown>()
  const clashes = new Set<string>()
  const toKey = (values: readonly unknown[], place: number) => `${place} ${labelPlace(values, place)}`
  for (const values of breakdowns) {
    for (const [place, value] of values.entries()) {
      const key = toKey(values, place)
      if (firsts.has(key) && firsts.get(key) !== value) clashes.add(key)
      else firsts.set(key, value)
    }
  }
  return breakdowns.map((values) => {
    const labels = values.map((value, place) => {
      const isQuoted = typeof value === 'string' && !isRest(values) && clashes.has(toKey(values, place))
      return isQuoted ? JSON.stringify(value) : labelPlace(values, place)
    })
    return labels.join(', ')
  })
}

function labelPlace(values: readonly unknown[], place: number): string {
  return isRest(values) ? 'Other' : labelValue(values[place])
}

/** Whether the values of a line stand for all that have no line of their own. */
export function isRest(values: readonly unknown[]): boolean {
  return values.length === 1 && values[0] === OTHER
}

function labelValue(value: unknown): string {
  if (value === null) return '(not set)'
  if (value === '') return '(empty)'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Describes a filter, such as `country is AT or DE, and plan is set`. */
export function labelFilter(filter: Filter): string {
  if (filter[0] === 'not') return `not (${labelFilter(filter[1])})`
  if (filter[0] === 'and' || filter[0] === 'or') {
    const [joint, parts] = filter
    const texts = parts.map((part) =>
      part[0] === 'and' || part[0] === 'or' ? `(${labelFilter(part)})` : labelFilter(part),
    )
    return texts.join(`, ${joint} `)
  }
  if (filter[0] === 'session_has') {
    const { event, where } = filter[1]
    return `session has ${labelEvents(event)}${where ? ` (${labelFilter(where)})` : ''}`
  }
  const [operator, field, operand] = filter as Comparison
  const name = `${labelField(field)} ${OPERATOR_LABELS[operator]}`
  if (OPERATORS[operator] === 'nothing') return name
  const values: unknown[] = Array.isArray(operand) ? operand : [operand]
  return `${name} ${values.map((value) => labelBreakdown([value])).join(' or ')}`
}

/** Labels a series, such as `purchased (sum of price, country is AT)`. */
export function labelSeries({ event, metric, property = '', p = 95, where }: SeriesDefinition): string {
  const field = labelField(property)
  const metrics: Record<SeriesDefinition['metric'], string> = {
    events: '',
    users: 'unique users',
    events_per_user: 'events per user',
    sum: `sum of ${field}`,
    avg: `average ${field}`,
    min: `minimum ${field}`,
    max: `maximum ${field}`,
    median: `median ${field}`,
    percentile: `p${p} of ${field}`,
  }
  const filter = where ? labelFilter(where) : ''
  const notes = [metrics[metric], filter.length > MAX_FILTER_LABEL ? 'filtered' : filter].filter((note) => note !== '')
  return notes.length > 0 ? `${labelEvents(event)} (${notes.join(', ')})` : labelEvents(event)
}

/** Unique labels for the series of a question. */
export function labelAllSeries({ series }: Pick<SeriesQuestion, 'series'>): string[] {
  return countEqual(series.map(labelSeries))
}

/** Unique labels for the lines of an answer. A line that has a `name` is labelled with it. */
export function labelLines(
  lines: readonly (SeriesLine & { name?: string })[],
  { series }: Pick<SeriesQuestion, 'series'>,
): string[] {
  const names = labelAllSeries({ series })
  const breakdowns = labelBreakdowns(lines.map(({ breakdown }) => breakdown))
  const texts = lines.map((line, i) => {
    const name = line.name ?? names[line.series] ?? String(line.series)
    const values = breakdowns[i] ?? ''
    return values === '' ? name : series.length === 1 ? values : `${name}: ${values}`
  })
  return countEqual(texts)
}

/** Numbers repeated texts: `a`, `a #2`. */
function countEqual(texts: readonly string[]): string[] {
  const taken = new Set(texts)
  const seen = new Set<string>()
  return texts.map((text) => {
    let label = text
    for (let number = 2; seen.has(text) && taken.has(label); number++) label = `${text} #${number}`
    seen.add(text)
    taken.add(label)
    return label
  })
}
