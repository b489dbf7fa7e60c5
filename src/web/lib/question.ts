import type {
  AnyQuestion,
  Definition,
  Exclusion,
  FunnelQuestion,
  Interval,
  Metric,
  PathsQuestion,
  RetentionQuestion,
  SeriesDefinition,
  SeriesQuestion,
} from '../../contract/questions.js'
import { isFieldName, isFilter, withoutGaps } from './filters.js'
import { linkTo } from './link.js'

/** A question as the page edits it: everything is there but the range of time, which may follow the calendar. */
type Ranged<Q extends AnyQuestion> = Omit<Q, 'from' | 'to'> & Partial<Pick<Q, 'from' | 'to'>>
export type SeriesDraft = Ranged<SeriesQuestion>
export type FunnelDraft = Ranged<FunnelQuestion>
export type RetentionDraft = Ranged<RetentionQuestion>
export type PathsDraft = Ranged<PathsQuestion>
export type Draft = SeriesDraft | FunnelDraft | RetentionDraft | PathsDraft
export type Kind = Draft['kind']

const DRAWINGS = ['line', 'area', 'bar', 'number', 'funnel', 'grid', 'flow', 'table'] as const
export type Drawing = (typeof DRAWINGS)[number]

/** Ranges that move with the days. */
export const PRESETS = ['today', '7d', '30d', '90d', '12m'] as const
export type Preset = (typeof PRESETS)[number]

/** How an answer is shown; it is kept beside a saved question. */
export interface Display {
  as?: Drawing
  /** the range of time, of a question without `from` and `to` */
  range?: Preset
  /** whether the period before is shown, too */
  compare?: boolean
}

export const KINDS: readonly Kind[] = ['series', 'funnel', 'retention', 'paths']
const NUMBER_METRICS: readonly Metric[] = ['sum', 'avg', 'min', 'max', 'median', 'percentile']
const METRICS: readonly Metric[] = ['events', 'users', 'events_per_user', ...NUMBER_METRICS]
const INTERVALS: readonly Interval[] = ['hour', 'day', 'week', 'month', 'none']

/** Whether it is of the numbers in a property. */
export function isOfNumbers(metric: Metric): boolean {
  return NUMBER_METRICS.includes(metric)
}

/** What the service takes where a question says nothing. */
const COMMON = { timezone: 'UTC', week_start: 'monday', where: null } as const
const DEFAULTS = {
  series: { ...COMMON, interval: 'day', breakdown: [], limit: 10, other: true, approximate: false },
  funnel: { ...COMMON, window: '7d', order: 'ordered', exclude: [], breakdown: [], limit: 10 },
  retention: { ...COMMON, cohort: 'first', unit: 'day', mode: 'calendar', count: 'on', intervals: 8 },
  paths: { ...COMMON, steps: 3, window: '30m', limit: 10 },
} as const

/** A first question of a kind; an empty name is one that is still to be chosen. */
export function newQuestion(kind: Kind, event: string, timezone: string): Draft {
  const definition: Definition = { event, where: null }
  switch (kind) {
    case 'series':
      return { ...DEFAULTS.series, kind, timezone, breakdown: [], series: [{ ...definition, metric: 'events' }] }
    case 'funnel': {
      const steps = [definition, { event: '', where: null }]
      return { ...DEFAULTS.funnel, kind, timezone, breakdown: [], exclude: [], steps }
    }
    case 'retention':
      return { ...DEFAULTS.retention, kind, timezone, start: definition, return: { event: '*', where: null } }
    case 'paths':
      return { ...DEFAULTS.paths, kind, timezone, start: definition, end: null }
  }
}

/** The same question as another kind: it keeps its range, its filter and its first event. */
export function asKind(draft: Draft, kind: Kind): Draft {
  if (draft.kind === kind) return draft
  const event = eventsOf(draft)[0]?.event ?? ''
  const next = newQuestion(kind, typeof event === 'string' ? event : (event[0] ?? ''), draft.timezone)
  const { week_start, where, from, to } = draft
  return { ...next, week_start, where, ...(from !== undefined && { from }), ...(to !== undefined && { to }) }
}

/** The events that a question names. */
function eventsOf(draft: Draft): Definition[] {
  switch (draft.kind) {
    case 'series':
      return draft.series
    case 'funnel':
      return draft.steps
    case 'retention':
      return [draft.start, draft.return]
    case 'paths':
      return [draft.start, draft.end].filter((one) => one !== null)
  }
}

type Json = Record<string, unknown>

/**
 * A question with its defaults filled in.
 * @param value as somebody wrote it, parsed
 * @returns null if it is not one that can be edited field by field
 */
export function filled(value: unknown): Draft | null {
  if (!isObject(value) || !KINDS.includes(value.kind as Kind)) return null
  const kind = value.kind as Kind
  const given = Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null && one !== undefined))
  const draft = { ...DEFAULTS[kind], ...given } as unknown as Draft
  if (!hasKnownValues(draft)) return null
  try {
    return withDefinitions(draft)
  } catch {
    return null
  }
}

const WORDS: Record<string, readonly unknown[]> = {
  interval: INTERVALS,
  week_start: ['monday', 'sunday'],
  order: ['ordered', 'strict', 'any'],
  cohort: ['first', 'recurring'],
  unit: ['day', 'week', 'month'],
  mode: ['calendar', 'rolling'],
  count: ['on', 'on_or_after'],
}

function hasKnownValues(draft: Draft): boolean {
  return Object.entries(draft).every(([name, value]) => {
    const words = Object.hasOwn(WORDS, name) ? WORDS[name] : undefined
    if (words) return words.includes(value)
    if (name === 'breakdown') return Array.isArray(value) && value.every(isFieldName)
    if (name === 'limit' || name === 'intervals') return typeof value === 'number'
    if (name === 'window' || name === 'timezone') return typeof value === 'string'
    if (name === 'from' || name === 'to') return typeof value === 'string' || typeof value === 'number'
    return name !== 'where' || value === null || isFilter(value)
  })
}

/** @throws Error if there is something that is no definition of events */
function withDefinitions(draft: Draft): Draft {
  switch (draft.kind) {
    case 'series':
      return { ...draft, series: listOf(draft.series).map(seriesOf) }
    case 'funnel': {
      const exclude = listOf(draft.exclude).map((one) => ({ ...definitionOf(one), after: Number(one.after) }))
      return { ...draft, steps: listOf(draft.steps).map(definitionOf), exclude }
    }
    case 'retention':
      return { ...draft, start: definitionOf(draft.start), return: definitionOf(draft.return) }
    case 'paths': {
      if (typeof draft.steps !== 'number') throw new Error('not a number')
      return { ...draft, start: draft.start && definitionOf(draft.start), end: draft.end && definitionOf(draft.end) }
    }
  }
}

function seriesOf(value: SeriesDefinition): SeriesDefinition {
  const metric = value.metric ?? 'events'
  if (!METRICS.includes(metric) || !(value.property == null || isFieldName(value.property))) throw new Error('unknown')
  const { property, p } = value
  return { ...definitionOf(value), metric, ...(property && { property }), ...(typeof p === 'number' && { p }) }
}

function definitionOf(value: Definition | string): Definition {
  if (typeof value === 'string') return { event: value, where: null }
  if (!isObject(value) || !isFieldName(value.event)) throw new Error('not events')
  const where = value.where ?? null
  if (where !== null && !isFilter(where)) throw new Error('not a filter')
  return { event: value.event, where }
}

function listOf<T>(value: T[]): T[] {
  if (!Array.isArray(value)) throw new Error('not a list')
  return value
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Without what the service fills in anyway: for short links. */
export function compact(draft: Draft): Json {
  const defaults: Json = DEFAULTS[draft.kind]
  const entries = Object.entries(draft).filter(([name, value]) => {
    return (
      value !== null && !(Object.hasOwn(defaults, name) && JSON.stringify(value) === JSON.stringify(defaults[name]))
    )
  })
  return { kind: draft.kind, ...(withoutNulls(Object.fromEntries(entries)) as Json) }
}

/** Leaves out the filters of events that have none; the nulls within filters stay. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => (isObject(one) ? withoutNulls(one) : one))
  if (!isObject(value)) return value
  const kept = Object.entries(value).filter(([, one]) => one !== null)
  return Object.fromEntries(kept.map(([name, one]) => [name, name === 'where' ? one : withoutNulls(one)]))
}

/** What the page shows, as its URL has it. */
export interface Shown {
  /** the text of the question, which may be anything */
  text: string
  display: Display
  /** the saved question that it began with */
  saved: string
}

/** @param question as the service takes it; @param saved id of the saved question that it is */
export function exploreLink(question: unknown, display: Display = {}, saved = ''): string {
  const { as = '', range = '', compare } = display
  return linkTo(['explore'], { q: JSON.stringify(question), as, range, compare: compare ? '1' : '', saved })
}

/** The other way round; what a link has that nobody knows is left out. */
export function shownBy(query: URLSearchParams): Shown {
  const display = displayOf({ as: query.get('as'), range: query.get('range'), compare: query.get('compare') === '1' })
  return { text: query.get('q') ?? '', saved: query.get('saved') ?? '', display }
}

/** What the page knows of how an answer is to be shown. @param value as it was saved, by whomever */
export function displayOf(value: unknown): Display {
  if (!isObject(value)) return {}
  const as = DRAWINGS.find((one) => one === value.as)
  const range = PRESETS.find((one) => one === value.range)
  return { ...(as && { as }), ...(range && { range }), ...(value.compare === true && { compare: true }) }
}

/** The ways in which an answer can be drawn, the usual one first. */
export function drawingsOf(draft: Draft): Drawing[] {
  switch (draft.kind) {
    case 'series': {
      const canStack = draft.series.every(({ metric }) => ['events', 'users', 'sum'].includes(metric))
      if (draft.interval === 'none') return ['bar', 'number', 'table']
      return canStack ? ['line', 'area', 'bar', 'number', 'table'] : ['line', 'number', 'table']
    }
    case 'funnel':
      return ['funnel', 'table']
    case 'retention':
      return ['grid', 'table']
    case 'paths':
      return ['flow', 'table']
  }
}

/** How an answer to this question is drawn: as it was chosen, if that is possible. */
export function drawingOf(draft: Draft, { as }: Display): Drawing {
  const possible = drawingsOf(draft)
  return possible.find((one) => one === as) ?? possible[0] ?? 'table'
}

/** The question without filters that are not filled in yet, so that an answer stays while they are written. */
export function finished(draft: Draft): Draft {
  const clean = <T extends Definition | Exclusion>(one: T): T => ({ ...one, where: withoutGaps(one.where) })
  const where = withoutGaps(draft.where)
  switch (draft.kind) {
    case 'series': {
      const breakdown = draft.breakdown.filter((field) => field.length > 0)
      return { ...draft, where, breakdown, series: draft.series.map(clean) }
    }
    case 'funnel': {
      const breakdown = draft.breakdown.filter((field) => field.length > 0)
      const exclude = draft.exclude.filter(({ event }) => event.length > 0).map(clean)
      return { ...draft, where, breakdown, exclude, steps: draft.steps.map(clean) }
    }
    case 'retention':
      return { ...draft, where, start: clean(draft.start), return: clean(draft.return) }
    case 'paths':
      return { ...draft, where, start: draft.start && clean(draft.start), end: draft.end && clean(draft.end) }
  }
}

/** What is still to be chosen before a question can be asked, in the form of the service's own details. */
export function gapsOf(draft: Draft): { path: string; message: string }[] {
  const gap = ({ event }: Definition, path: string) =>
    event.length === 0 || (Array.isArray(event) && event.includes(''))
      ? [{ path: `${path}/event`, message: 'Choose an event.' }]
      : []
  switch (draft.kind) {
    case 'series':
      return draft.series.flatMap((one, i) => {
        const needsProperty = isOfNumbers(one.metric) && (one.property === undefined || one.property.length === 0)
        const path = `/series/${i}/property`
        return [
          ...gap(one, `/series/${i}`),
          ...(needsProperty ? [{ path, message: 'Choose a property that is a number.' }] : []),
        ]
      })
    case 'funnel':
      return draft.steps.flatMap((one, i) => gap(one, `/steps/${i}`))
    case 'retention':
      return [...gap(draft.start, '/start'), ...gap(draft.return, '/return')]
    case 'paths':
      return [...(draft.start ? gap(draft.start, '/start') : []), ...(draft.end ? gap(draft.end, '/end') : [])]
  }
}
