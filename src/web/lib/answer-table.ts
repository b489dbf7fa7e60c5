import { isRest, labelAllSeries, labelBreakdowns, labelEvents, labelField, labelLines } from '../../contract/labels.js'
import type {
  AnswerTo,
  AnyAnswer,
  AnyQuestion,
  Cell,
  FunnelCell,
  FunnelStep,
  SeriesCell,
} from '../../contract/questions.js'
import { formatBuckets, formatDate, formatPeriod } from './answer-labels.js'
import type { CsvRow } from './csv.js'
import { escapeInvisible } from './escape-invisible.js'
import { capitalize, formatDuration, formatMoney, formatNumber, formatShare } from './format.js'
import { type AnswerBefore, isUpcoming, type LineBefore, listStarts } from './period-before.js'
import { hasBegun } from './range.js'

/** An answer that can be visualized. */
export type DrawnAnswer = Exclude<AnyAnswer, { kind: 'users' }>

/** Identifies the users that a number counts. */
export interface DrillDown {
  /** the question as the service answered it */
  of: AnyQuestion
  cell: Cell
}

export interface TableCell {
  /** for display */
  text: string
  /** for the CSV file */
  value: string | number | null
  isNumber?: boolean
  /** whether it stays on one line, as dates do */
  isDate?: boolean
  /** for a number that counts users */
  drillDown?: DrillDown
  /** whether the bucket is not over yet */
  isOpen?: boolean
}

/** The numbers of an answer, for display, screen readers and CSV. */
export interface AnswerTable {
  title: string
  columns: string[]
  rows: TableCell[][]
}

/**
 * @param before the answer about the previous period, aligned with `answer`
 * @param isMoney whether the numbers of a series are amounts of money
 */
export function buildTables(answer: DrawnAnswer, before: AnswerBefore | null = null, isMoney = false): AnswerTable[] {
  switch (answer.kind) {
    case 'series': {
      const table = buildSeriesTable(answer, before)
      return [isMoney ? { ...table, rows: table.rows.map((row) => row.map(toAmount)) } : table]
    }
    case 'funnel':
      return [buildFunnelTable(answer)]
    case 'retention':
      return [buildRetentionTable(answer)]
    case 'paths':
      return buildPathsTables(answer)
  }
}

const textCell = (text: string): TableCell => ({ text: escapeInvisible(text), value: text })

function countCell(value: number | null, drillDown?: DrillDown, isOpen = false): TableCell {
  const text = value === null ? '–' : formatNumber(value)
  return { text, value, isNumber: true, isOpen, ...(drillDown && value !== null && { drillDown }) }
}

function toAmount(cell: TableCell): TableCell {
  return cell.isNumber && typeof cell.value === 'number' ? { ...cell, text: formatMoney(cell.value) } : cell
}

type SeriesAnswer = AnswerTo<'series'>

/** One row per bucket and one column per line; without buckets, one row per line. */
function buildSeriesTable(answer: SeriesAnswer, before: AnswerBefore | null): AnswerTable {
  return answer.query.interval === 'none' ? buildTotalsTable(answer, before) : buildBucketsTable(answer, before)
}

const NUMBERS = 'Numbers'

function buildTotalsTable(answer: SeriesAnswer, before: AnswerBefore | null): AnswerTable {
  const { results, query } = answer
  const names = labelLines(results, query)
  const series = labelAllSeries(query)
  const hasBreakdown = query.breakdown.length > 0
  const breakdowns = labelBreakdowns(results.map(({ breakdown }) => breakdown))
  const rows = results.map((line, i) => [
    textCell((hasBreakdown ? series[line.series] : names[i]) ?? ''),
    ...(hasBreakdown ? [textCell(breakdowns[i] ?? '')] : []),
    countCell(line.total, drillIntoLine(answer, line), line.points[0]?.complete === false),
    ...(before ? [countTotalBefore(before, i)] : []),
  ])
  const by = hasBreakdown ? [query.breakdown.map(labelField).join(', ')] : []
  const totals = before
    ? [`Total, ${formatPeriod(query)}`, `Previous period, ${formatPeriod(before.query)}`]
    : ['Total']
  return { title: NUMBERS, columns: ['Series', ...by, ...totals], rows }
}

/** The last row has the totals. */
function buildBucketsTable(answer: SeriesAnswer, before: AnswerBefore | null): AnswerTable {
  const { results, query } = answer
  const names = labelLines(results, query)
  const times = buildTimeCells(listStarts(answer), answer)
  const timesBefore = before ? buildTimeCells(before.ats, before) : []
  const nothing: TableCell = { text: '', value: null }
  const rows = (before?.pairs ?? times.map((_, now) => ({ now, before: null }))).map((pair) => [
    pair.now === null ? nothing : (times[pair.now] ?? nothing),
    ...(before ? [pair.before === null ? nothing : (timesBefore[pair.before] ?? nothing)] : []),
    ...results.flatMap((line, i) => {
      const now = countPoint(answer, line, pair.now)
      return before ? [now, countPoint(before, findLineBefore(before, i), pair.before)] : [now]
    }),
  ])
  const last = [
    textCell('Total'),
    ...(before ? [{ ...textCell(formatPeriod(before.query)), isDate: true }] : []),
    ...results.flatMap((line, i) => {
      const now = countCell(line.total, drillIntoLine(answer, line))
      return before ? [now, countTotalBefore(before, i)] : [now]
    }),
  ]
  const columns = names.flatMap((name) => (before ? [name, `${name}, previous period`] : [name]))
  return {
    title: NUMBERS,
    columns: ['Time', ...(before ? ['Previous period'] : []), ...columns],
    rows: [...rows, last],
  }
}

function buildTimeCells(ats: string[], { query }: Pick<SeriesAnswer, 'query'>): TableCell[] {
  return formatBuckets(ats, query).map((text, i) => ({ text, value: ats[i] ?? '', isDate: true }))
}

function countTotalBefore(before: AnswerBefore, index: number): TableCell {
  const line = findLineBefore(before, index)
  return line ? countCell(line.total, drillIntoLine(before, line)) : countCell(null)
}

/** @param index of the point; null if the period does not have it */
function countPoint(answer: Pick<SeriesAnswer, 'query'>, line: LineBefore | null, index: number | null): TableCell {
  const point = index === null ? undefined : line?.points[index]
  // A bucket that has not begun has no value, not even 0.
  if (!line || !point || (!point.complete && isUpcoming(point.at, Date.now()))) return countCell(null)
  return countCell(point.value, drillIntoLine(answer, line, point.at), !point.complete)
}

/** Finds a line in the previous period; null if it had no data or is unknown. @param index of the line in the answer */
export function findLineBefore({ results }: Pick<AnswerBefore, 'results'>, index: number): LineBefore | null {
  const line = results[index]
  return line === undefined || line === 'unknown' ? null : line
}

/**
 * The drill-down of a line's total, or of one of its points; undefined if no single cell has the users.
 * @param at of the point
 */
export function drillIntoLine(
  { query }: Pick<SeriesAnswer, 'query'>,
  { series, breakdown, isSum }: LineBefore,
  at?: string,
): DrillDown | undefined {
  if (isSum) return undefined
  const cell: SeriesCell = { series, breakdown: breakdown as SeriesCell['breakdown'], ...(at !== undefined && { at }) }
  return { of: query, cell }
}

function buildFunnelTable({ results, query }: AnswerTo<'funnel'>): AnswerTable {
  const hasBreakdown = query.breakdown.length > 0
  const breakdowns = labelBreakdowns(results.map(({ breakdown }) => breakdown))
  const rows = results.flatMap(({ breakdown, steps, complete }, line) => {
    return steps.map((step, i) => [
      ...(hasBreakdown ? [textCell(breakdowns[line] ?? '')] : []),
      { text: String(i + 1), value: i + 1, isNumber: true },
      textCell(labelStep(query, i)),
      countCell(step.users, { of: query, cell: toStepCell(i, breakdown) }, !complete),
      ...toShareCells(step),
    ])
  })
  const columns = ['Step', 'Event', 'Users', 'Of first', 'Of previous', 'Median time', 'Average time']
  return {
    title: 'Steps',
    columns: [...(hasBreakdown ? [query.breakdown.map(labelField).join(', ')] : []), ...columns],
    rows,
  }
}

/** In a funnel with `any` order, step N means that any N steps were done. */
export function labelStep({ steps, order }: AnswerTo<'funnel'>['query'], index: number): string {
  if (order === 'any') return `${index + 1} of ${steps.length}`
  return labelEvents(steps[index]?.event ?? '')
}

/**
 * The users who reached a step; with `dropped`, those who reached only the one before.
 * @param index of the step, from 0
 */
export function toStepCell(index: number, breakdown: unknown[], dropped = false): FunnelCell {
  return { step: index + 1, breakdown: breakdown as FunnelCell['breakdown'], dropped }
}

function toShareCells({ of_first, of_previous, median_ms, mean_ms }: FunnelStep): TableCell[] {
  const share = (value: number): TableCell => ({ text: formatShare(value), value, isNumber: true })
  const time = (ms: number | null): TableCell => ({
    text: ms === null ? '–' : formatDuration(ms),
    value: ms === null ? null : ms / 1000,
    isNumber: true,
  })
  return [share(of_first), share(of_previous), time(median_ms), time(mean_ms)]
}

function buildRetentionTable({ results, averages, query }: AnswerTo<'retention'>): AnswerTable {
  const rows = results.map(({ cohort, size, cells }) => [
    { text: formatDate(cohort), value: cohort, isDate: true },
    countCell(size, { of: query, cell: { cohort } }),
    ...cells.map(({ interval, users, complete }) => {
      if (!complete && !hasBegun(query, cohort, interval, Date.now())) return { text: '', value: null, isNumber: true }
      return countCell(users, { of: query, cell: { cohort, interval } }, !complete)
    }),
  ])
  const last: TableCell[] = averages.map(({ share }) => ({
    text: share === null ? '–' : formatShare(share),
    value: share,
    isNumber: true,
  }))
  const columns = averages.map(({ interval }) => labelInterval(query.unit, interval))
  return {
    title: 'Cohorts',
    columns: ['Cohort', 'Users', ...columns],
    rows: rows.length > 0 ? [...rows, [textCell('Average'), { text: '', value: null, isNumber: true }, ...last]] : [],
  }
}

/** Labels an interval, such as `Week 3`. */
export function labelInterval(unit: AnswerTo<'retention'>['query']['unit'], interval: number): string {
  return `${capitalize(unit)} ${interval}`
}

function buildPathsTables({ results: { nodes, links }, query }: AnswerTo<'paths'>): AnswerTable[] {
  const step = (value: number): TableCell => ({ text: String(value), value, isNumber: true })
  return [
    {
      title: 'Events',
      columns: ['Step', 'Event', 'Users'],
      rows: nodes.map(({ users, ...cell }) => [
        step(cell.step),
        textCell(labelNode(cell.event)),
        countCell(users, { of: query, cell }),
      ]),
    },
    {
      title: 'Paths',
      columns: ['Step', 'From', 'To', 'Users'],
      rows: links.map(({ users, ...cell }) => [
        step(cell.step),
        textCell(labelNode(cell.from)),
        textCell(labelNode(cell.to)),
        countCell(users, { of: query, cell }),
      ]),
    },
  ]
}

/** Labels a node, which may group the remaining events. */
export function labelNode(event: string): string {
  return isRest([event]) ? 'Other' : event
}

/** Converts a table to CSV rows. */
export function toCsvRows({ columns, rows }: AnswerTable): CsvRow[] {
  return [columns, ...rows.map((row) => row.map(({ value }) => value))]
}
