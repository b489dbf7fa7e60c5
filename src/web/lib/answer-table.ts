import type {
  AnswerTo,
  AnyAnswer,
  AnyQuestion,
  Cell,
  FunnelCell,
  FunnelStep,
  SeriesCell,
} from '../../contract/questions.js'
import { bucketTexts, dateText, eventText, lineNames, seriesText } from './answer-labels.js'
import type { CsvRow } from './csv.js'
import { visible } from './escape-invisible.js'
import { breakdownText, fieldLabel } from './fields.js'
import { durationText, numberText, shareText } from './format.js'
import type { AnswerBefore, LineBefore } from './period-before.js'

/** The answer to a question that can be drawn. */
export type DrawnAnswer = Exclude<AnyAnswer, { kind: 'users' }>

/** Whom a number counts. */
export interface Behind {
  /** the question of the answer that has the number, as it was answered */
  of: AnyQuestion
  cell: Cell
}

export interface TableCell {
  /** as people read it */
  text: string
  /** as a file has it */
  raw: string | number | null
  isNumber?: boolean
  /** where it is a number that has users behind it */
  behind?: Behind
  /** whether it may still change */
  isOpen?: boolean
}

/** The numbers of an answer, for people who read them, for screen readers, and for a file. */
export interface AnswerTable {
  title: string
  columns: string[]
  rows: TableCell[][]
}

/** @param before the answer about the period before, bucket by bucket beside the first */
export function tablesOf(answer: DrawnAnswer, before: AnswerBefore | null = null): AnswerTable[] {
  switch (answer.kind) {
    case 'series':
      return [seriesTable(answer, before)]
    case 'funnel':
      return [funnelTable(answer)]
    case 'retention':
      return [retentionTable(answer)]
    case 'paths':
      return pathsTables(answer)
  }
}

const words = (text: string): TableCell => ({ text: visible(text), raw: text })

function count(value: number | null, behind?: Behind, isOpen = false): TableCell {
  const text = value === null ? '–' : numberText(value)
  return { text, raw: value, isNumber: true, isOpen, ...(behind && value !== null && { behind }) }
}

type SeriesAnswer = AnswerTo<'series'>

/** A row per bucket and a column per line; without buckets, a row per line. */
function seriesTable(answer: SeriesAnswer, before: AnswerBefore | null): AnswerTable {
  const { results, query } = answer
  const names = lineNames(results, query)
  const title = 'Numbers'
  const totals = (line: Line, index: number, isOpen = false) => [
    count(line.total, lineBehind(answer, line), isOpen),
    ...(before ? [totalBefore(before, index)] : []),
  ]
  if (query.interval === 'none') {
    const rows = results.map((line, i) => [
      words(query.breakdown.length > 0 ? seriesNameOf(answer, line.series) : (names[i] ?? '')),
      ...(query.breakdown.length > 0 ? [words(breakdownText(line.breakdown))] : []),
      ...totals(line, i, line.points[0]?.complete === false),
    ])
    const by = query.breakdown.length > 0 ? [query.breakdown.map(fieldLabel).join(', ')] : []
    return { title, columns: ['Series', ...by, 'Total', ...(before ? ['Period before'] : [])], rows }
  }
  const ats = (results[0]?.points ?? []).map(({ at }) => at)
  const texts = bucketTexts(ats, query.interval)
  const rows = ats.map((at, index) => [
    { text: texts[index] ?? '', raw: at },
    ...results.flatMap((line, i) => {
      const now = pointIn(answer, line, index)
      return before ? [now, pointIn(before, lineOf(before, i), index)] : [now]
    }),
  ])
  const columns = names.flatMap((name) => (before ? [name, `${name}, period before`] : [name]))
  const last = [words('Total'), ...results.flatMap((line, i) => totals(line, i))]
  return { title, columns: ['Time', ...columns], rows: [...rows, last] }
}

type Line = SeriesAnswer['results'][number]

function totalBefore(before: AnswerBefore, index: number): TableCell {
  const line = lineOf(before, index)
  return line ? count(line.total, lineBehind(before, line)) : count(null)
}

function pointIn(answer: Pick<SeriesAnswer, 'query'>, line: LineBefore | null, index: number): TableCell {
  const point = line?.points[index]
  if (!line || !point) return count(null)
  return count(point.value, lineBehind(answer, line, point.at), !point.complete)
}

/** What a line of now was in the period before; null if nothing was there, or nobody knows. @param index of the line */
export function lineOf({ results }: AnswerBefore, index: number): LineBefore | null {
  const line = results[index]
  return line === undefined || line === 'unknown' ? null : line
}

/** Who is behind the total of a line, or behind one of its points; undefined if no cell says it. @param at of the point */
export function lineBehind(
  { query }: Pick<SeriesAnswer, 'query'>,
  { series, breakdown, isSum }: LineBefore,
  at?: string,
): Behind | undefined {
  if (isSum) return undefined
  const cell: SeriesCell = { series, breakdown: breakdown as SeriesCell['breakdown'], ...(at !== undefined && { at }) }
  return { of: query, cell }
}

function seriesNameOf({ query }: SeriesAnswer, series: number): string {
  const definition = query.series[series]
  return definition ? seriesText(definition) : String(series)
}

function funnelTable({ results, query }: AnswerTo<'funnel'>): AnswerTable {
  const hasBreakdown = query.breakdown.length > 0
  const rows = results.flatMap(({ breakdown, steps, complete }) => {
    return steps.map((step, i) => [
      ...(hasBreakdown ? [words(breakdownText(breakdown))] : []),
      { text: String(i + 1), raw: i + 1, isNumber: true },
      words(stepText(query, i)),
      count(step.users, { of: query, cell: stepCell(i, breakdown) }, !complete),
      ...stepShares(step),
    ])
  })
  const columns = ['Step', 'Event', 'Users', 'Of first', 'Of step before', 'Median time', 'Average time']
  return {
    title: 'Steps',
    columns: [...(hasBreakdown ? [query.breakdown.map(fieldLabel).join(', ')] : []), ...columns],
    rows,
  }
}

/** With `any` order, a step is how many of them were done. */
export function stepText({ steps, order }: AnswerTo<'funnel'>['query'], index: number): string {
  if (order === 'any') return `${index + 1} of ${steps.length}`
  return eventText(steps[index]?.event ?? '')
}

/** Who got to a step, or who got only to the one before. @param index of the step, from 0 */
export function stepCell(index: number, breakdown: unknown[], dropped = false): FunnelCell {
  return { step: index + 1, breakdown: breakdown as FunnelCell['breakdown'], dropped }
}

function stepShares({ of_first, of_previous, median_ms, mean_ms }: FunnelStep): TableCell[] {
  const share = (value: number): TableCell => ({ text: shareText(value), raw: value, isNumber: true })
  const time = (ms: number | null): TableCell => ({
    text: ms === null ? '–' : durationText(ms),
    raw: ms === null ? null : ms / 1000,
    isNumber: true,
  })
  return [share(of_first), share(of_previous), time(median_ms), time(mean_ms)]
}

function retentionTable({ results, averages, query }: AnswerTo<'retention'>): AnswerTable {
  const rows = results.map(({ cohort, size, cells }) => [
    { text: dateText(cohort), raw: cohort },
    count(size, { of: query, cell: { cohort } }),
    ...cells.map(({ interval, users, complete }) => count(users, { of: query, cell: { cohort, interval } }, !complete)),
  ])
  const last: TableCell[] = averages.map(({ share }) => ({
    text: share === null ? '–' : shareText(share),
    raw: share,
    isNumber: true,
  }))
  const columns = averages.map(({ interval }) => intervalText(query.unit, interval))
  return {
    title: 'Cohorts',
    columns: ['Cohort', 'Size', ...columns],
    rows: rows.length > 0 ? [...rows, [words('Average'), { text: '', raw: null, isNumber: true }, ...last]] : [],
  }
}

/** The heading of an interval, such as `Week 3`. */
export function intervalText(unit: AnswerTo<'retention'>['query']['unit'], interval: number): string {
  return `${unit[0]?.toUpperCase()}${unit.slice(1)} ${interval}`
}

function pathsTables({ results: { nodes, links }, query }: AnswerTo<'paths'>): AnswerTable[] {
  const step = (value: number): TableCell => ({ text: String(value), raw: value, isNumber: true })
  return [
    {
      title: 'Events',
      columns: ['Step', 'Event', 'Users'],
      rows: nodes.map(({ users, ...cell }) => [
        step(cell.step),
        words(nodeText(cell.event)),
        count(users, { of: query, cell }),
      ]),
    },
    {
      title: 'Ways',
      columns: ['Step', 'From', 'To', 'Users'],
      rows: links.map(({ users, ...cell }) => [
        step(cell.step),
        words(nodeText(cell.from)),
        words(nodeText(cell.to)),
        count(users, { of: query, cell }),
      ]),
    },
  ]
}

/** The name of a node, of which `$other` has the rest. */
export function nodeText(event: string): string {
  return event === '$other' ? 'Other' : event
}

/** A table as rows of a file. */
export function rawRows({ columns, rows }: AnswerTable): CsvRow[] {
  return [columns, ...rows.map((row) => row.map(({ raw }) => raw))]
}
