import { Kind as SchemaKind } from '@sinclair/typebox'
import { formatExactJson } from '../../contract/exact-json.js'
import { type Schema, withoutNull } from '../../contract/fields.js'
import { fillQuestion, QUESTION_DEFAULTS } from '../../contract/project-settings.js'
import { COUNTING, NUMBER_METRICS } from '../../contract/question-schemas.js'
import type {
  AnyQuestion,
  Definition,
  Exclusion,
  FunnelQuestion,
  Metric,
  PathsQuestion,
  RetentionQuestion,
  SeriesDefinition,
  SeriesQuestion,
} from '../../contract/questions.js'
import { isObject, type Reader, readFields } from '../../contract/read-fields.js'
import { isSameJson } from '../../contract/same-json.js'
import { dropIncomplete, isFieldName, isFilter } from './filters.js'
import { getProjectSettings } from './project-settings.js'
import { fitsInterval, PRESETS, type Preset, pickBounds, type RangeChoice } from './range.js'
import { linkTo } from './route.js'

/**
 * A question as the page edits it: all fields are set, except that the range may be relative, and that the interval may
 * depend on the range.
 */
type Ranged<Q extends AnyQuestion, Optional extends keyof Q = never> = Omit<Q, 'from' | 'to' | Optional> &
  Partial<Pick<Q, 'from' | 'to' | Optional>>
export type SeriesDraft = Ranged<SeriesQuestion, 'interval'>
export type FunnelDraft = Ranged<FunnelQuestion>
export type RetentionDraft = Ranged<RetentionQuestion>
export type PathsDraft = Ranged<PathsQuestion>
export type Draft = SeriesDraft | FunnelDraft | RetentionDraft | PathsDraft
export type Kind = Draft['kind']

const VISUALIZATIONS = ['line', 'area', 'bar', 'number', 'funnel', 'grid', 'flow', 'table'] as const
export type Visualization = (typeof VISUALIZATIONS)[number]

/** How an answer is displayed; saved together with the question. */
export interface Display {
  as?: Visualization
  /** the range of a question without `from` and `to` */
  range?: Preset
  /** whether to compare to the previous period */
  compare?: boolean
  /** whether the numbers are amounts of money, in the currency of the project */
  money?: boolean
}

export const KINDS = Object.keys(COUNTING) as readonly Kind[]

/** Whether a metric aggregates a numeric property. */
export function isNumberMetric(metric: Metric): boolean {
  return (NUMBER_METRICS as readonly Metric[]).includes(metric)
}

/** Whether the numbers of a metric can be summed across lines. */
export function isAdditive(metric: Metric): boolean {
  return metric === 'events' || metric === 'sum'
}

/** The minimum and maximum of a numeric field. */
export function findBounds(field: Schema): { min: number; max: number } {
  const { minimum, maximum } = withoutNull(field)
  return { min: minimum, max: maximum }
}

/** Creates a question of a kind with the project's defaults; an empty event name is still to be chosen. */
export function createDraft(kind: Kind, event: string): Draft {
  const events = {
    series: { series: [{ event }] },
    funnel: { steps: [{ event }, { event: '' }] },
    retention: { start: event, return: '*' },
    paths: { start: event },
  }
  return readDraft({ kind, ...events[kind] })
}

/** Converts a question to another kind, keeping its range, its sessions, its filter and its first event. */
export function convertDraft(draft: Draft, kind: Kind): Draft {
  if (draft.kind === kind) return draft
  const event = listDefinitions(draft)[0]?.event ?? ''
  const next = createDraft(kind, typeof event === 'string' ? event : (event[0] ?? ''))
  const { timezone, week_start, sessions, where } = draft
  return { ...next, timezone, week_start, sessions, where, ...pickBounds(draft) }
}

/** The definitions of the events that a breakdown is taken from: in a funnel, those that begin an entry. */
export function listSplitDefinitions(draft: SeriesDraft | FunnelDraft): Definition[] {
  if (draft.kind === 'series') return draft.series
  return draft.order === 'any' ? draft.steps : draft.steps.slice(0, 1)
}

/** The definitions of the events that a question names. */
export function listDefinitions(draft: Draft): Definition[] {
  return locateDefinitions(draft).map(([, one]) => one)
}

/** The definitions of the events that a question names, with their paths. */
function locateDefinitions(draft: Draft): [path: string, one: Definition | SeriesDefinition][] {
  switch (draft.kind) {
    case 'series':
      return draft.series.map((one, i) => [`/series/${i}`, one])
    case 'funnel':
      return draft.steps.map((one, i) => [`/steps/${i}`, one])
    case 'retention':
      return [
        ['/start', draft.start],
        ['/return', draft.return],
      ]
    case 'paths':
      return draft.start ? [['/start', draft.start]] : draft.end ? [['/end', draft.end]] : []
  }
}

type Json = Record<string, unknown>

/**
 * Parses a question and fills in its defaults.
 * @param value parsed JSON
 * @returns null if the form cannot edit it
 */
export function parseDraft(value: unknown): Draft | null {
  try {
    return readDraft(value)
  } catch {
    return null
  }
}

/** Accepts fields of the right shape without checking limits; the service does that. */
const READER: Reader = {
  isDraft: true,
  check(schema, value) {
    if (hasForm(schema, value)) return true
    throw new TypeError(`${schema.message}`)
  },
  fault(path, message) {
    throw new TypeError(`${path} ${message}`)
  },
}

/** @throws TypeError if it is not a question that the form can edit */
function readDraft(value: unknown): Draft {
  const kind = isObject(value) ? KINDS.find((one) => one === value.kind) : undefined
  if (!isObject(value) || kind === undefined) throw new TypeError('not a kind that can be edited')
  const draft = readFields(COUNTING[kind], fillQuestion(value, getProjectSettings()), '', READER) as Draft
  if (draft.kind !== 'series' || value.interval != null) return draft
  const { interval: _, ...rest } = draft
  return rest
}

function hasForm(schema: Schema, value: unknown): boolean {
  switch (schema[SchemaKind]) {
    case 'Array':
      return Array.isArray(value)
    case 'Choice':
      return schema.enum.includes(value)
    case 'EventNames':
    case 'Field':
      return isFieldName(value)
    case 'Filter':
      return isFilter(value)
    case 'Integer':
      return typeof value === 'number'
    case 'Sessions':
      return value === 'id' || isObject(value)
    case 'Time':
      return typeof value === 'number' || typeof value === 'string'
    default:
      return 'const' in schema ? value === schema.const : typeof value === schema.type
  }
}

/**
 * Omits defaults, so that links are short and the question follows its project. An interval that the user chose is
 * kept.
 */
export function toQuestion(draft: Draft): Json {
  const fields: Record<string, Schema> = COUNTING[draft.kind].properties
  const entries = Object.entries(omitProjectDefaults(draft)).filter(([name, value]) => {
    const isDefault = !FROM_PROJECT.has(name) && isSameJson(value, fields[name]?.default)
    return value !== null && (name === 'interval' || !isDefault)
  })
  return { kind: draft.kind, ...(withoutNulls(Object.fromEntries(entries)) as Json) }
}

/** The fields whose defaults come from the project, not from the schema. */
const FROM_PROJECT: ReadonlySet<string> = new Set(QUESTION_DEFAULTS)

/** Omits the fields of a question or a board that equal the project's settings, so that they follow these settings. */
export function omitProjectDefaults(fields: object): object {
  const defaults = Object(getProjectSettings())
  const isDefault = (name: string, value: unknown) => isSameJson(value, defaults[name])
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => !FROM_PROJECT.has(name) || !isDefault(name, value)),
  )
}

/** Removes filters that are null; nulls inside filters are kept. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => (isObject(one) ? withoutNulls(one) : one))
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([, one]) => one !== null)
  return Object.fromEntries(entries.map(([name, one]) => [name, name === 'where' ? one : withoutNulls(one)]))
}

/** The state of Explore, as encoded in the URL. */
export interface ExploreState {
  /** JSON of the question, not validated */
  text: string
  display: Display
  /** id of the saved question it was opened from */
  saved: string
}

/** @param question as the service takes it; @param saved id of the saved question, if it is one */
export function linkToExplore(question: unknown, display: Display = {}, saved = ''): string {
  const { as = '', range = '', compare, money } = display
  const flags = { compare: compare ? '1' : '', money: money ? '1' : '' }
  return linkTo(['explore'], { q: formatExactJson(question), as, range, ...flags, saved })
}

/** A link to Explore for the recent count of an event, optionally by the values of a property. */
export function linkToEvent(event: string, property?: string): string {
  const question = createDraft('series', event)
  const breakdown = property === undefined ? {} : { breakdown: [['properties', property]] }
  return linkToExplore({ ...toQuestion(question), ...breakdown }, { range: '30d' })
}

/** The inverse of `linkToExplore`; unknown values are ignored. */
export function parseExploreQuery(query: URLSearchParams): ExploreState {
  const display = parseDisplay({
    as: query.get('as'),
    range: query.get('range'),
    compare: query.get('compare') === '1',
    money: query.get('money') === '1',
  })
  return { text: query.get('q') ?? '', saved: query.get('saved') ?? '', display }
}

/** Parses display settings, ignoring unknown ones. @param value as saved, not validated */
export function parseDisplay(value: unknown): Display {
  if (!isObject(value)) return {}
  const as = VISUALIZATIONS.find((one) => one === value.as)
  const range = PRESETS.find((one) => one === value.range)
  const { compare, money } = value
  return {
    ...(as && { as }),
    ...(range && { range }),
    ...(compare === true && { compare }),
    ...(money === true && { money }),
  }
}

/** Whether the numbers of a question can be amounts of money, because all are computed from a property. */
export function canBeMoney(question: Draft | AnyQuestion): boolean {
  return question.kind === 'series' && question.series.every(({ metric }) => isNumberMetric(metric))
}

/** The possible visualizations of an answer, the default first. */
export function listVisualizations(draft: Draft): Visualization[] {
  switch (draft.kind) {
    case 'series': {
      if (draft.interval === 'none') return ['bar', 'number', 'table']
      return canStack(draft) ? ['line', 'area', 'bar', 'number', 'table'] : ['line', 'number', 'table']
    }
    case 'funnel':
      return ['funnel', 'table']
    case 'retention':
      return ['grid', 'table']
    case 'paths':
      return ['flow', 'table']
  }
}

/** Whether the numbers of lines add up. A user may be in several lines. */
function canStack({ series, breakdown }: SeriesDraft): boolean {
  const isOneLine = series.length === 1 && breakdown.length === 0
  return series.every(({ metric }) => isAdditive(metric) || (isOneLine && metric === 'users'))
}

/** The selected visualization if it is possible, otherwise the default. */
export function chooseVisualization(draft: Draft, { as }: Display): Visualization {
  const possible = listVisualizations(draft)
  return possible.find((one) => one === as) ?? possible[0] ?? 'table'
}

/** Removes incomplete filters, so that the answer stays while the user edits them. */
export function dropIncompleteFilters(draft: Draft): Draft {
  const clean = <T extends Definition | Exclusion>(one: T): T => ({ ...one, where: dropIncomplete(one.where) })
  const where = dropIncomplete(draft.where)
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

/** Changes the range of a question. An interval that no longer fits gives way to the default. @param now epoch ms */
export function changeRange(draft: Draft, choice: RangeChoice, now: number): Draft {
  const { from: _, to: __, ...rest } = draft
  const { timezone, week_start } = choice
  const next = { ...rest, ...pickBounds(choice), timezone, week_start }
  if (next.kind !== 'series' || !next.interval || fitsInterval(next.interval, choice, now)) return next
  const { interval: ___, ...fitting } = next
  return fitting
}

/** Lists what the user still has to choose, in the format of the service's validation errors. */
export function findGaps(draft: Draft): { path: string; message: string }[] {
  return locateDefinitions(draft).flatMap(([path, one]) => {
    const needsEvent = one.event.length === 0 || (Array.isArray(one.event) && one.event.includes(''))
    const needsProperty = 'metric' in one && isNumberMetric(one.metric) && !one.property?.length
    return [
      ...(needsEvent ? [{ path: `${path}/event`, message: 'Choose an event.' }] : []),
      ...(needsProperty ? [{ path: `${path}/property`, message: 'Choose a property that is a number.' }] : []),
    ]
  })
}

/**
 * The question to answer while the user still has to choose something: it has the events of the last complete question,
 * so that its answer stays, or else omits its incomplete parts.
 * @param last of the same form; null if there was none
 * @returns null if nothing can be answered yet
 */
export function completeDraft(draft: Draft, last: Draft | null): Draft | null {
  const isComplete = (one: Draft) => findGaps(one).length === 0
  if (isComplete(draft)) return draft
  const known = last && keepDefinitions(draft, last)
  if (known && isComplete(known)) return known
  const rest = dropIncompleteDefinitions(draft)
  return isComplete(rest) ? rest : null
}

/** A question with the events of the last one; null if that was of another kind. */
function keepDefinitions(draft: Draft, last: Draft): Draft | null {
  if (draft.kind === 'series' && last.kind === 'series') return { ...draft, series: last.series }
  if (draft.kind === 'funnel' && last.kind === 'funnel') return { ...draft, steps: last.steps, exclude: last.exclude }
  if (draft.kind === 'paths' && last.kind === 'paths') return { ...draft, start: last.start, end: last.end }
  if (draft.kind !== 'retention' || last.kind !== 'retention') return null
  return { ...draft, start: last.start, return: last.return }
}

/** A question without its incomplete series or steps, if enough are left. */
function dropIncompleteDefinitions(draft: Draft): Draft {
  if (draft.kind === 'series') {
    const series = draft.series.filter((one) => findGaps({ ...draft, series: [one] }).length === 0)
    return series.length > 0 ? { ...draft, series } : draft
  }
  if (draft.kind !== 'funnel') return draft
  const steps = draft.steps.filter((one) => findGaps({ ...draft, steps: [one] }).length === 0)
  return steps.length > 1
    ? { ...draft, steps, exclude: draft.exclude.filter(({ after }) => after < steps.length) }
    : draft
}
