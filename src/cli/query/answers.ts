import { DAY_MS, HOUR_MS } from '../../contract/durations.js'
import { labelAllSeries, labelBreakdown, labelEvents, labelLines } from '../../contract/labels.js'
import { OTHER } from '../../contract/question-schemas.js'
import type { AnswerTo, AnyAnswer, FieldName } from '../../contract/questions.js'
import { counted } from '../progress.js'
import type { Cell, Table } from './table.js'

const UNITS: [ms: number, unit: string][] = [
  [DAY_MS, 'd'],
  [HOUR_MS, 'h'],
  [60_000, 'min'],
  [1000, 's'],
]

export interface Shown {
  tables: Table[]
  /** remarks that do not fit into the tables */
  note: string
}

/** Formats an answer for people. */
export function showAnswer(answer: AnyAnswer): Shown {
  switch (answer.kind) {
    case 'series':
      return { tables: [seriesTable(answer)], note: openNote(answer) }
    case 'funnel':
      return { tables: [funnelTable(answer)], note: openNote(answer) }
    case 'retention':
      return { tables: [retentionGrid(answer)], note: openNote(answer) }
    case 'paths':
      return { tables: pathsTables(answer), note: '' }
    case 'users': {
      const { users, count, page, hasMore } = answer.results
      const rest = hasMore ? `Page ${page}; there are more pages.\n` : ''
      return {
        tables: [{ columns: ['user'], rows: users.map((user) => [user]) }],
        note: `${counted(count, 'user')}.\n${rest}`,
      }
    }
  }
}

/** Formats an answer for programs: one table with one number per row. */
export function flatTable(answer: AnyAnswer): Table {
  switch (answer.kind) {
    case 'series': {
      const rows = answer.results.flatMap(({ series, breakdown, points }) => {
        return points.map(({ at, value, complete }) => [
          series,
          ...listValues(answer, breakdown),
          at,
          value,
          String(complete),
        ])
      })
      return { columns: ['series', ...nameFields(answer), 'at', 'value', 'complete'], rows }
    }
    case 'funnel': {
      const rows = answer.results.flatMap(({ breakdown, steps, complete }) => {
        return steps.map(({ users, of_first, of_previous, median_ms, mean_ms }, i) => [
          ...listValues(answer, breakdown),
          i + 1,
          formatEventNames(answer.query.steps[i]?.event),
          ...[users, of_first, of_previous, median_ms, mean_ms],
          String(complete),
        ])
      })
      const columns = ['step', 'event', 'users', 'of_first', 'of_previous', 'median_ms', 'mean_ms', 'complete']
      return { columns: [...nameFields(answer), ...columns], rows }
    }
    case 'retention': {
      const rows = answer.results.flatMap(({ cohort, size, cells }) => {
        return cells.map(({ interval, users, complete }) => [cohort, size, interval, users, String(complete)])
      })
      return { columns: ['cohort', 'size', 'interval', 'users', 'complete'], rows }
    }
    case 'paths': {
      const { nodes, links } = answer.results
      const rows = [
        ...nodes.map(({ step, event, users }) => [step, event, null, users]),
        ...links.map(({ step, from, to, users }) => [step, from, to, users]),
      ]
      return { columns: ['step', 'from', 'to', 'users'], rows }
    }
    case 'users':
      return { columns: ['user'], rows: answer.results.users.map((user) => [user]) }
  }
}

/** Formats a series: a column per line and a row per bucket, or without buckets a row per line. */
function seriesTable(answer: AnswerTo<'series'>): Table {
  const { results, query } = answer
  const names = labelAllSeries(query)
  if (query.interval === 'none') {
    const rows = results.map(({ series, breakdown, total, points }) => {
      return [
        names[series] ?? '',
        ...formatValues(answer, breakdown),
        markIncomplete(total, points[0]?.complete ?? true),
      ]
    })
    return { columns: ['series', ...nameFields(answer), 'total'], rows }
  }
  const rows = (results[0]?.points ?? []).map(({ at }, i) => [
    at,
    ...results.map(({ points }) => markIncomplete(points[i]?.value ?? null, points[i]?.complete ?? true)),
  ])
  return {
    columns: ['at', ...labelLines(results, query)],
    rows: [...rows, ['total', ...results.map(({ total }) => total)]],
  }
}

function funnelTable(answer: AnswerTo<'funnel'>): Table {
  const { results, query } = answer
  const rows = results.flatMap(({ breakdown, steps, complete }) => {
    return steps.map(({ users, of_first, of_previous, median_ms, mean_ms }, i) => [
      ...formatValues(answer, breakdown),
      i + 1,
      labelEvents(query.steps[i]?.event ?? ''),
      markIncomplete(users, complete),
      formatPercent(of_first),
      formatPercent(of_previous),
      formatDuration(median_ms),
      formatDuration(mean_ms),
    ])
  })
  const columns = ['step', 'event', 'users', 'of first', 'of previous', 'median time', 'mean time']
  return { columns: [...nameFields(answer), ...columns], rows }
}

function retentionGrid({ results, averages, query }: AnswerTo<'retention'>): Table {
  const rows: Cell[][] = results.map(({ cohort, size, cells }) => [
    cohort,
    size,
    ...cells.map(({ users, complete }) => (size === 0 ? null : markIncomplete(formatPercent(users / size), complete))),
  ])
  const last = ['average', null, ...averages.map(({ share }) => (share === null ? null : formatPercent(share)))]
  const columns = averages.map(({ interval }) => `${query.unit} ${interval}`)
  return { columns: ['cohort', 'size', ...columns], rows: [...rows, last] }
}

function pathsTables({ results: { nodes, links } }: AnswerTo<'paths'>): Table[] {
  return [
    { columns: ['step', 'event', 'users'], rows: nodes.map(({ step, event, users }) => [step, event, users]) },
    {
      columns: ['step', 'from', 'to', 'users'],
      rows: links.map(({ step, from, to, users }) => [step, from, to, users]),
    },
  ]
}

function openNote(answer: AnswerTo<'series'> | AnswerTo<'funnel'> | AnswerTo<'retention'>): string {
  return /"complete":false/.test(JSON.stringify(answer.results)) ? '* is not over yet\n' : ''
}

function nameFields({ query }: AnswerTo<'series'> | AnswerTo<'funnel'>): string[] {
  return query.breakdown.map((field: FieldName) => (typeof field === 'string' ? field : JSON.stringify(field)))
}

/** Lists the values of a breakdown. The remainder, `$other`, has one value for all fields. */
function listValues(answer: AnswerTo<'series'> | AnswerTo<'funnel'>, breakdown: unknown[]): Cell[] {
  return answer.query.breakdown.map((_, i) => {
    const value = breakdown[i] ?? (breakdown[0] === OTHER && breakdown.length === 1 ? OTHER : null)
    return value === null || typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value)
  })
}

function formatValues(answer: AnswerTo<'series'> | AnswerTo<'funnel'>, breakdown: unknown[]): Cell[] {
  return listValues(answer, breakdown).map((value) => (typeof value === 'number' ? value : labelBreakdown([value])))
}

function formatEventNames(event: string | string[] = ''): string {
  return typeof event === 'string' ? event : event.join(' or ')
}

function markIncomplete(value: Cell, isComplete: boolean): Cell {
  if (isComplete || value === null) return value
  return `${typeof value === 'number' ? Number(value.toPrecision(12)) : value}*`
}

function formatPercent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

function formatDuration(ms: number | null): Cell {
  if (ms === null) return null
  const [length = 1, unit = 'ms'] = UNITS.find(([length]) => ms >= length) ?? []
  return `${Math.round((ms / length) * 10) / 10} ${unit}`
}
