import { OTHER, SESSION } from '../contract/question-schemas.js'
import type {
  FieldName,
  Metric,
  SeriesCell,
  SeriesDefinition,
  SeriesLine,
  SeriesPoint,
  SeriesQuestion,
} from '../contract/questions.js'
import { isSameJson } from '../contract/same-json.js'
import { formatBreakdown } from '../store/json-sql.js'
import type { Answer, CountingKind } from './kind.js'
import { areDistinct, formatValues, selectMatchingEvents } from './matching-events.js'
import { areDays, findBucketNumber, findBucketOfDay, type Query, type QueryContext, Statement } from './statement.js'
import { type Buckets, formatInstant, parseInstant, parseRange, parseSessions, splitIntoBuckets } from './time.js'

/** A number of the answer as ClickHouse sends it. */
interface Row {
  series: number
  /** the breakdown as JSON; empty for `$other` */
  label: string
  /** number of the bucket, from 1; 0 for the whole range, also if it is the only bucket */
  bucket: number
  /** a number, or `inf`, `-inf`, `nan` */
  value: number | string | null
}

/** Metrics that are 0 without events; the others are null. */
const ZERO: readonly Metric[] = ['events', 'users', 'events_per_user', 'sum']
const OF_USERS: readonly Metric[] = ['users', 'events_per_user']

export const series: CountingKind<SeriesQuestion, SeriesCell> = { query, answer, users }

/**
 * Maximum number of values, counted once per bucket, that a breakdown keeps for a series until it knows which values
 * have a line.
 */
const MAX_GROUPS = 500_000

/** A UNION ALL of passes, each over the events or sessions of one part of the series. */
function query(question: SeriesQuestion, context: QueryContext): Query {
  const statement = new Statement(context)
  const hasLines = question.breakdown.length > 0
  const isRanked = hasLines && !context.hasManyValues
  const select = isRanked ? selectRanked : selectCounts
  const sql = splitSeries(question, hasLines && !isRanked)
    .map((part) => select(statement, question, part))
    .join(' UNION ALL ')
  const limit = isRanked && { max_rows_to_group_by: String(MAX_GROUPS * question.series.length) }
  return { ...statement.query(sql, { output_format_json_quote_denormals: 1, ...limit }), isGreedy: isRanked }
}

/**
 * The series that are counted together. Series of sessions and series of events are separate, so that fields are computed
 * only where they are needed.
 * @param areAlone whether each series is counted by itself, because a pass counts only values that have a line in its
 * series
 */
function splitSeries({ series }: SeriesQuestion, areAlone: boolean): Part[] {
  const all = series.map((definition, number) => ({ definition, number }))
  const split = (isOfSessions: boolean) =>
    all.filter(({ definition: { event } }) => (event === SESSION) === isOfSessions)
  const parts = areAlone ? all.map((one) => [one]) : [split(true), split(false)]
  return parts.filter((part): part is Part => part.length > 0)
}

interface Numbered {
  definition: SeriesDefinition
  number: number
}
type Part = [Numbered, ...Numbered[]]

/**
 * SELECT of the lines of some series: if there is a breakdown, an earlier pass finds the values with a line of their
 * own.
 */
function selectCounts(statement: Statement, question: SeriesQuestion, part: Part): string {
  const buckets = buildBuckets(question)
  const measures = buildMeasures(statement, question, part)
  const label = buildLabel(statement, question, part)
  const { bucket, columns } = buildBucket(statement, buckets)
  const states = measures.flatMap(({ states }) => states)
  const values = measures.map(({ number, merged }) => `(toUInt8(${number}), ${merged})`)
  // The merged states of the buckets are the state of the whole range.
  const sets = buckets === null ? 'label, bucket' : 'GROUPING SETS ((label, bucket), (label))'
  return `SELECT line.1 AS series, label, bucket, line.2 AS value FROM (
      SELECT label, bucket, [${values.join(', ')}] AS lines FROM (
        SELECT ${label.sql} AS label, ${bucket} AS bucket, ${states.join(', ')}
        FROM ${selectEvents(statement, question, part, { columns })} AS events ${label.where} GROUP BY label, bucket
      ) GROUP BY ${sets}
    ) ARRAY JOIN lines AS line`
}

/**
 * SELECT of the lines of some series with a breakdown from one pass over the events: all values are counted in each bucket
 * and ranked, and those beyond the limit are merged. Events that count in the same series are counted together until each
 * of these has few rows; then the values become JSON, too.
 */
function selectRanked(statement: Statement, question: SeriesQuestion, part: Part): string {
  const { breakdown } = question
  const measures = shareMeasures(statement, question, part)
  const buckets = buildBuckets(question)
  const { bucket, columns } = buildBucket(statement, buckets)
  const events = `${selectEvents(statement, question, part, { columns, split: true })} AS events`
  const isAlone = part.length === 1
  const keys = [...breakdown.map((_, i) => `b${i}`), ...(isAlone ? [] : ['mask'])].join(', ')
  const value = `${formatValues(breakdown, statement.context)} AS breakdown`
  const place = `${isAlone ? 'toUInt64(0)' : 'arrayJoin(bitPositionsToArray(mask))'} AS place`
  const states = measures.flatMap(({ states }) => states).join(', ')
  const names = measures.flatMap(({ names }) => names)
  const total = measures.flatMap(({ total }) => total).join(', ')
  const merged = `${chooseMeasure(measures, ({ merged }) => merged)} AS value`
  const number = `${statement.numbers(part.map(({ number }) => number))}[place + 1] AS series`
  if (buckets === null) {
    const counts = `SELECT ${keys}, ${states} FROM ${events} GROUP BY ${keys}`
    const areRows = isAlone && areDistinct(breakdown)
    const values = areRows
      ? `SELECT ${value}, ${place}, ${states} FROM ${events} GROUP BY ${keys}`
      : `SELECT ${value}, ${place}, ${total} FROM (${counts}) AS counts GROUP BY breakdown, place`
    const lines = selectLines(statement, question, measures, { values, columns: names })
    return `SELECT ${number}, label, ${bucket} AS bucket, ${merged} FROM (${lines}) GROUP BY place, label`
  }
  const counts = `SELECT ${keys}, ${bucket} AS bucket, ${states} FROM ${events} GROUP BY ${keys}, bucket`
  const cell = (number: string, cells: readonly string[]) => `(${[number, ...cells].join(', ')})`
  const cellOfBucket = cell(
    'bucket',
    names.map((name) => `counts.${name}`),
  )
  const values = `SELECT ${value}, ${place}, groupArray(${cellOfBucket}) AS cells, ${total} FROM (${counts}) AS counts
    GROUP BY breakdown, place`
  const cells = `arrayPushFront(cells, ${cell('toUInt32(0)', names)}) AS cells`
  const lines = selectLines(statement, question, measures, { values, columns: [cells] })
  const taken = names.map((name, i) => `cell.${i + 2} AS ${name}`).join(', ')
  return `SELECT ${number}, label, bucket, ${merged} FROM (
      SELECT place, label, cell.1 AS bucket, ${taken} FROM (${lines}) ARRAY JOIN cells AS cell
    ) GROUP BY place, label, bucket`
}

/**
 * SELECT of the values that have a line of their own in the series at a `place` of the part, as `label`, and of all others
 * as an empty one if there is a line for them.
 * @param from `values`: SELECT of `place`, `breakdown`, the states and what `columns` need
 */
function selectLines(
  statement: Statement,
  { other, limit }: SeriesQuestion,
  measures: readonly SharedMeasure[],
  { values, columns }: { values: string; columns: readonly string[] },
): string {
  const order = `ORDER BY ${chooseMeasure(measures, ({ finished }) => finished)} DESC NULLS LAST, breakdown`
  const most = statement.count(limit)
  return other
    ? `SELECT place, if(row_number() OVER (PARTITION BY place ${order}) <= ${most}, breakdown, '') AS label, ${columns.join(', ')}
      FROM (${values})`
    : `SELECT place, breakdown AS label, ${columns.join(', ')} FROM (${values}) ${order} LIMIT ${most} BY place`
}

/** A measure, and the places in a part of the series that it measures. */
type SharedMeasure = Measure & { places: number[] }

/** The measures of all series of a part, each once; the `place` of a row says which measure the row belongs to. */
function shareMeasures(statement: Statement, question: SeriesQuestion, part: Part): SharedMeasure[] {
  const found = new Map<string, { definition: SeriesDefinition; places: number[] }>()
  for (const [place, { definition }] of part.entries()) {
    const { metric, property, p } = definition
    const key = JSON.stringify([metric, property, p])
    const known = found.get(key) ?? { definition, places: [] }
    known.places.push(place)
    found.set(key, known)
  }
  return Array.from(found.values(), ({ definition, places }, number) => {
    const bits = places.reduce((all, place) => all + 2 ** place, 0)
    // The users of a rare event, for example, are collected from that event alone.
    const matches = places.length === part.length ? '1' : `bitAnd(mask, ${bits}) != 0`
    const position = findPosition(part, definition)
    return { ...computeMeasure(statement, question, definition, { number, matches, position }), places }
  })
}

/** SQL for the measure of a row's series. */
function chooseMeasure(measures: readonly SharedMeasure[], take: (measure: Measure) => string): string {
  const all = measures.map((measure) => [`place IN (${measure.places.join(', ')})`, take(measure)])
  const last = all.pop()?.[1] ?? ''
  return all.length === 0 ? last : `multiIf(${[...all.flat(), last].join(', ')})`
}

/** SQL for the number of the bucket of an event, from 1, and the columns that it needs; 0 if the whole range is one. */
function buildBucket(statement: Statement, buckets: Buckets | null): { bucket: string; columns: 'day'[] } {
  if (buckets === null) return { bucket: 'toUInt32(0)', columns: [] }
  const isOfDays = areDays(buckets)
  const index = isOfDays
    ? findBucketOfDay(statement, 'day', buckets)
    : findBucketNumber(statement, 'timestamp', buckets)
  return { bucket: `toUInt32(${index} + 1)`, columns: isOfDays ? ['day'] : [] }
}

/** Operand of FROM. @param options `split`: whether each value of the breakdown is a column of its own */
function selectEvents(
  statement: Statement,
  question: SeriesQuestion,
  part: Part,
  { columns, split = false }: { columns?: 'day'[]; split?: boolean } = {},
): string {
  const definitions = part.map(({ definition }) => definition)
  const { breakdown } = question
  return selectMatchingEvents(statement, {
    definitions,
    where: question.where,
    timezone: question.timezone,
    ...(breakdown.length > 0 && (split ? { split: breakdown } : { breakdown })),
    ...(columns && { columns }),
    values: listValueFields(definitions),
    ...parseRange(question),
    sessions: parseSessions(question),
    user: definitions.some(({ metric }) => OF_USERS.includes(metric)) ? 'all' : 'none',
  })
}

/** The fields whose numbers are measured, each once. */
function listValueFields(definitions: SeriesDefinition[]): FieldName[] {
  const byKey = definitions.flatMap(({ property }) =>
    property === undefined ? [] : [[JSON.stringify(property), property] as const],
  )
  return [...new Map(byKey).values()]
}

/** Which of the value fields of a part is measured. */
function findPosition(part: Part, { property }: SeriesDefinition): number {
  const fields = listValueFields(part.map(({ definition }) => definition))
  return fields.findIndex((field) => isSameJson(field, property))
}

/** SQL for the line that an event counts in: the line of its value, or `$other`. */
function buildLabel(statement: Statement, question: SeriesQuestion, part: Part): { sql: string; where: string } {
  const { breakdown, other } = question
  if (breakdown.length === 0) return { sql: `'[]'`, where: '' }
  const isTop = `breakdown ${statement.global}IN (${selectTopValues(statement, question, part[0])})`
  return other ? { sql: `if(${isTop}, breakdown, '')`, where: '' } : { sql: 'breakdown', where: `WHERE ${isTop}` }
}

/** SELECT of the values that have a line of their own. */
function selectTopValues(statement: Statement, question: SeriesQuestion, one: Numbered): string {
  const { definition, number } = one
  const { states, finished } = computeMeasure(statement, question, definition, { number, matches: '1', position: 0 })
  return `SELECT breakdown
    FROM (SELECT breakdown, ${states.join(', ')} FROM ${selectEvents(statement, question, [one])} AS events GROUP BY breakdown)
    ORDER BY ${finished} DESC NULLS LAST, breakdown LIMIT ${statement.count(question.limit)}`
}

/** Selects the users of all counted events, even if the metric ignores some of them. */
function users(question: SeriesQuestion, { series, breakdown, at }: SeriesCell, statement: Statement): string {
  const definition = question.series[series]
  if (!definition) throw new RangeError(`there is no series ${series}`)
  const { where, timezone } = question
  const isSplit = question.breakdown.length > 0
  const split = isSplit && { breakdown: question.breakdown }
  const range = { ...parseRange(question), sessions: parseSessions(question), user: 'known' } as const
  const events = selectMatchingEvents(statement, { definitions: [definition], where, timezone, ...split, ...range })
  const conditions = at === undefined ? [] : [matchBucket(statement, question, at)]
  // If the question has no line for other values, `$other` is an ordinary value.
  if (isSplit && question.other && breakdown.length === 1 && breakdown[0] === OTHER) {
    conditions.push(
      `breakdown ${statement.global}NOT IN (${selectTopValues(statement, question, { definition, number: series })})`,
    )
  } else if (isSplit) {
    conditions.push(`breakdown = ${statement.text(formatBreakdown(breakdown))}`)
  }
  return `SELECT user FROM ${events} AS events ${conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''}`
}

/** SQL condition for events in the bucket of a point. @param at `at` of that point in the answer */
function matchBucket(statement: Statement, question: SeriesQuestion, at: string): string {
  const buckets = buildBuckets(question)
  if (!buckets) return '1'
  const first = parseInstant(at, question.timezone)
  const number = buckets.buckets.findIndex(({ from }) => from === first)
  return number < 0 ? '0' : `${findBucketNumber(statement, 'timestamp', buckets)} = ${statement.number(number)}`
}

/** How a series is measured: aggregate states, and the value that is a Nullable(Float64). */
interface Measure {
  number: number
  /** columns with the states, and their names */
  states: string[]
  names: string[]
  /** columns with the states of all rows of a GROUP BY of a table `counts`, with the same names */
  total: string[]
  /** SQL for the value of all rows of a GROUP BY */
  merged: string
  /** SQL for the value of one row */
  finished: string
}

/** An aggregate function, its parameters, and its arguments except the condition. */
interface State {
  name: string
  aggregate: string
  value: string
  when: string
}

function createMeasure(number: number, states: State[], compute: (...values: string[]) => string): Measure {
  const split = states.map(({ name, aggregate, value, when }) => {
    const [, fn = aggregate, parameters = ''] = /^(\w+)(\(.*\))$/.exec(aggregate) ?? []
    return { name, fn, parameters, operands: `${value}${value && ', '}${when}` }
  })
  const finish = (values: string[]) => `CAST(${compute(...values)} AS Nullable(Float64))`
  return {
    number,
    states: split.map(({ name, fn, parameters, operands }) => `${fn}IfState${parameters}(${operands}) AS ${name}`),
    names: split.map(({ name }) => name),
    total: split.map(({ name, fn, parameters }) => `${fn}IfMergeState${parameters}(counts.${name}) AS ${name}`),
    merged: finish(split.map(({ name, fn, parameters }) => `${fn}IfMerge${parameters}(${name})`)),
    finished: finish(split.map(({ name }) => `finalizeAggregation(${name})`)),
  }
}

function buildMeasures(statement: Statement, question: SeriesQuestion, part: Part): Measure[] {
  return part.map(({ definition, number }, bit) => {
    const position = findPosition(part, definition)
    return computeMeasure(statement, question, definition, { number, matches: `bitTest(mask, ${bit})`, position })
  })
}

function computeMeasure(
  statement: Statement,
  { approximate }: SeriesQuestion,
  { metric, p = 95 }: SeriesDefinition,
  { number, matches, position }: { number: number; matches: string; position: number },
): Measure {
  const name = `m${number}`
  const count = approximate ? 'uniqCombined64' : 'uniqExact'
  const quantile = approximate ? 'quantileTDigest' : 'quantileExactInclusive'
  const one = (aggregate: string, value: string, when: string, compute = (sql: string) => sql): Measure =>
    createMeasure(number, [{ name, aggregate, value, when }], compute)
  const isNumber = `${matches} AND v${position} IS NOT NULL`
  const measureNumbers = (aggregate: string) => one(aggregate, `assumeNotNull(v${position})`, isNumber, nanToNull)
  const percentile = (level: string) =>
    // Infinite numbers occur only in texts that need repair.
    statement.context.repairsTexts && !approximate
      ? one('groupArray', `assumeNotNull(v${position})`, isNumber, (numbers) =>
          nanToNull(computePercentile(numbers, level)),
        )
      : measureNumbers(`${quantile}(${level})`)
  switch (metric) {
    case 'events':
      return one('count', '', matches)
    case 'users':
      return one(count, 'user', `${matches} AND user != 0`)
    case 'events_per_user': {
      const when = `${matches} AND user != 0`
      const states = [
        { name: `${name}_events`, aggregate: 'count', value: '', when },
        { name: `${name}_users`, aggregate: count, value: 'user', when },
      ]
      return createMeasure(number, states, (events, users) => `if(${users} = 0, 0, ${events} / ${users})`)
    }
    case 'sum':
      return one('sum', `assumeNotNull(v${position})`, isNumber)
    case 'avg':
      return measureNumbers('avg')
    case 'min':
    case 'max':
      return one(`${metric}OrNull`, `v${position}`, matches)
    case 'median':
      return percentile(statement.number(0.5))
    case 'percentile':
      return percentile(statement.number(p / 100))
  }
}

/**
 * Like `quantileExactInclusive`, but correct next to infinite numbers, which that function multiplies by 0. Between -∞
 * and a finite number, the result is -∞; between the two infinities, there is none. NaN if there are no numbers.
 */
function computePercentile(numbers: string, level: string): string {
  const place = `(${level} * (length(sorted) - 1) + 1)`
  const whole = `toUInt64(${place})`
  const [below, above] = [`sorted[${whole}]`, `sorted[${whole} + 1]`]
  const between = `if(isInfinite(${below}), ${below} + ${above}, ${below} + (${above} - ${below}) * (${place} - ${whole}))`
  const isExact = `${place} = ${whole} OR ${below} = ${above}`
  return `arrayMap(sorted -> multiIf(empty(sorted), nan, ${isExact}, ${below}, ${between}), [arraySort(${numbers})])[1]`
}

/** Turns NaN, which the aggregates return without numbers, into null. */
function nanToNull(sql: string): string {
  return `if(isNaN(${sql}), NULL, ${sql})`
}

/** The buckets of the range; null if the question has no interval. */
function buildBuckets({ interval, timezone, week_start, ...range }: SeriesQuestion): Buckets | null {
  return interval === 'none'
    ? null
    : splitIntoBuckets(parseRange({ ...range, timezone }), interval, timezone, week_start)
}

interface Line {
  series: number
  label: string
  total: number | null
  values: Map<number, number | null>
}

function answer(question: SeriesQuestion, rows: readonly unknown[], { now }: Pick<QueryContext, 'now'>): Answer {
  const lines = toLines(question, rows as Row[])
  const spans = listSpans(question)
  const isWhole = question.interval === 'none'
  const results: SeriesLine[] = lines.map(({ series, label, total, values }) => {
    const empty = getEmptyValue(question, series)
    const points: SeriesPoint[] = spans.map(({ at, to }, i) => {
      const value = isWhole ? total : values.get(i + 1)
      return { at, value: value === undefined ? empty : value, complete: to <= now }
    })
    return { series, breakdown: label === '' ? [OTHER] : JSON.parse(label), total, points }
  })
  return { results, ...(question.approximate && { approximate: true }) }
}

function listSpans(question: SeriesQuestion): { at: string; to: number }[] {
  const buckets = buildBuckets(question)
  if (buckets) return buckets.buckets
  const { from, to } = parseRange(question)
  return [{ at: formatInstant(from, question.timezone), to }]
}

/** The lines by series, the largest first, the rest last. */
function toLines(question: SeriesQuestion, rows: Row[]): Line[] {
  const lines = new Map<string, Line>()
  for (const { series, label, bucket, value } of rows) {
    const key = `${series} ${label}`
    const line = lines.get(key) ?? toEmptyLine(question, series, label)
    lines.set(key, line)
    if (bucket === 0) line.total = readNumber(value)
    else line.values.set(bucket, readNumber(value))
  }
  if (question.breakdown.length === 0) {
    return question.series.map((_, series) => lines.get(`${series} []`) ?? toEmptyLine(question, series, '[]'))
  }
  return [...lines.values()].sort((a, b) => {
    if (a.series !== b.series) return a.series - b.series
    if (a.label === '' || b.label === '') return a.label === '' ? 1 : -1
    return compareDescending(a.total, b.total) || Buffer.compare(Buffer.from(a.label), Buffer.from(b.label))
  })
}

function toEmptyLine(question: SeriesQuestion, series: number, label: string): Line {
  return { series, label, total: getEmptyValue(question, series), values: new Map() }
}

function compareDescending(a: number | null, b: number | null): number {
  if (a === b) return 0
  if (a === null) return 1
  return b === null || a > b ? -1 : 1
}

function getEmptyValue({ series }: SeriesQuestion, number: number): number | null {
  const metric = series[number]?.metric ?? 'events'
  return ZERO.includes(metric) ? 0 : null
}

const DENORMALS: Record<string, number | null> = {
  inf: Number.POSITIVE_INFINITY,
  '-inf': Number.NEGATIVE_INFINITY,
  nan: null,
  '-nan': null,
}

function readNumber(value: Row['value']): number | null {
  return typeof value === 'string' ? (DENORMALS[value] ?? null) : value
}
