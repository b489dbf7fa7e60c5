import { parseOptions, UsageError } from '../command.js'

/** Options of the command itself; every other one is a part of a question. */
const COMMAND = {
  url: { type: 'string' },
  'key-file': { type: 'string' },
  format: { type: 'string' },
} as const

/** Fields of any question that are given as they are. */
const TEXTS = ['timezone', 'interval', 'window', 'order', 'unit', 'cohort', 'mode', 'count'] as const
const INTEGERS = ['limit', 'intervals'] as const
/** Parts of a series. */
const SERIES = ['event', 'metric', 'property', 'p'] as const

const text = { type: 'string' } as const
const PARTS = {
  kind: text,
  event: { type: 'string', multiple: true },
  metric: text,
  property: text,
  p: text,
  steps: text,
  start: text,
  return: text,
  end: text,
  from: text,
  to: text,
  'week-start': text,
  where: text,
  breakdown: { type: 'string', multiple: true },
  timezone: text,
  interval: text,
  window: text,
  order: text,
  unit: text,
  cohort: text,
  mode: text,
  count: text,
  limit: text,
  intervals: text,
} as const

type Parts = {
  [Name in keyof typeof PARTS]?: (typeof PARTS)[Name] extends { multiple: true } ? string[] : string
}

/** @throws UsageError */
export function readArguments(args: string[]) {
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options: { ...COMMAND, ...PARTS } })
  const { url, 'key-file': keyFile, format, ...parts } = values
  return {
    target: { ...(url !== undefined && { url }), ...(keyFile !== undefined && { 'key-file': keyFile }) },
    format,
    parts: parts as Parts,
    positionals,
  }
}

/**
 * The question that the options make. What they mean is checked by the service, which knows best.
 * @throws UsageError if they make none
 */
export function questionOf(parts: Parts): Record<string, unknown> {
  const kind = parts.kind ?? likelyKind(parts)
  const question: Record<string, unknown> = { kind }
  if (kind === 'series') question.series = seriesOf(parts)
  else for (const name of SERIES) if (parts[name] !== undefined) throw new UsageError(`--${name} is of a series only.`)
  if (parts.steps !== undefined) {
    question.steps =
      kind === 'paths' ? integer('steps', parts.steps) : parts.steps.split(',').map((event) => ({ event }))
  }
  for (const name of ['start', 'return', 'end'] as const) {
    if (parts[name] !== undefined) question[name] = { event: parts[name] }
  }
  for (const name of ['from', 'to'] as const) if (parts[name] !== undefined) question[name] = timeOf(parts[name])
  for (const name of TEXTS) if (parts[name] !== undefined) question[name] = parts[name]
  for (const name of INTEGERS) if (parts[name] !== undefined) question[name] = integer(name, parts[name])
  if (parts['week-start'] !== undefined) question.week_start = parts['week-start']
  if (parts.where !== undefined) question.where = json('--where', parts.where)
  if (parts.breakdown !== undefined) question.breakdown = parts.breakdown.map(fieldOf)
  return question
}

/** @throws UsageError if the text is not JSON */
export function json(what: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function likelyKind({ steps, start, end, return: back }: Parts): string {
  if (back !== undefined) return 'retention'
  if (start !== undefined || end !== undefined) return 'paths'
  return steps === undefined ? 'series' : 'funnel'
}

function seriesOf({ event = [], metric, property, p }: Parts): object[] {
  if (event.length === 0) {
    throw new UsageError('Say what to count: --event NAME, or "*" for all; or ask a question in JSON.')
  }
  return event.map((name) => ({
    event: name,
    ...(metric !== undefined && { metric }),
    ...(property !== undefined && { property: fieldOf(property) }),
    ...(p !== undefined && { p: json('--p', p) }),
  }))
}

/** A field whose names have dots in them is a JSON array. */
function fieldOf(field: string): unknown {
  return field.startsWith('[') ? json('The field', field) : field
}

/** Digits are milliseconds since 1970. */
function timeOf(time: string): string | number {
  return /^\d+$/.test(time) ? Number(time) : time
}

function integer(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`--${name} must be a whole number.`)
  return Number(text)
}
