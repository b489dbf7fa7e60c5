import type { Shards } from '../clickhouse/shards.js'
import { splitField } from '../contract/filters.js'
import { SESSION } from '../contract/question-schemas.js'
import type { FieldName, Filter } from '../contract/questions.js'
import type { EventNames, FieldValue, FieldValues, PropertyNames } from '../contract/responses.js'
import type { Warning } from '../contract/warning.js'
import { type Backoff, retry } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import type { Barrier } from '../reads/read-barrier.js'
import { Backlog } from './backlog.js'
import { FIELDS, isEventOfSession } from './field-name.js'
import { warnOfUnknownValues, warnOfUses } from './known-values.js'
import { NameCheck } from './name-check.js'
import { LARGE, NameCounts } from './name-counts.js'
import {
  findLargestProjects,
  MAX_NAMES,
  type PropertyRow,
  queryFieldValues,
  queryPropertyNames,
  toProperties,
  type ValueRow,
} from './names.js'
import { type CheckedNames, findFieldNames, findFilterNames, findNames } from './names-used.js'
import type { Questions, Review } from './run.js'
import { type SampledEvents, Samples } from './samples.js'

/** A request for the values of a field. */
export interface ValuesRequest {
  field: FieldName
  event?: string | undefined
  /** only values that contain this text, case-insensitive */
  search?: string | undefined
  limit: number
}

export interface CatalogOptions {
  shards: Shards
  barrier: Pick<Barrier, 'waitForProject'>
  questions: Pick<Questions, 'read' | 'getProject'>
  log: Pick<Log, 'info'>
  /** monotonic clock, ms; default: performance.now() */
  clock?: () => number
}

/** Number of projects whose lists are prepared at the start. */
const PREPARED = 20
/** Pauses while ClickHouse is unavailable; about ten minutes in total. */
const BACKOFF: Backoff = { firstMs: 500, maxMs: 30_000 }
const MAX_FAILURES = 30

/** Lists all event names with exact counts, and the properties and values of the newest events. */
export class Catalog {
  readonly #options: CatalogOptions
  readonly #backlog: Backlog
  readonly #counts: NameCounts
  readonly #properties: Samples<PropertyRow>
  readonly #values: Samples<ValueRow>
  readonly #check: NameCheck

  constructor(options: CatalogOptions) {
    const { clock = () => performance.now(), log } = options
    const backlog = new Backlog(log)
    const counts = new NameCounts({ ...options, backlog, clock })
    const common = { ...options, backlog, clock, counts }
    this.#options = options
    this.#backlog = backlog
    this.#counts = counts
    this.#properties = new Samples({
      ...common,
      texts: ({ path, examples }) => [...path, ...examples.flat()],
      sampledIn: countSampled,
    })
    this.#values = new Samples({ ...common, texts: ({ value }) => [value], sampledIn: sumCounts })
    this.#check = new NameCheck({ ...common, properties: this.#properties })
  }

  /** Warns about unknown names in a question. @throws like `events` */
  readonly review: Review = async (projectId, { question, body, point }) => {
    return await this.#check.warnings(projectId, findNames(question, body), point)
  }

  /**
   * Prepares the first lists of the largest projects. Never rejects: a list that fails is made on request.
   * @param closing ends the wait for ClickHouse
   */
  async prepare(closing: AbortSignal): Promise<void> {
    const { log } = this.#options
    for (const projectId of await this.#largestProjects(closing)) {
      if (closing.aborted) return
      try {
        await this.events(projectId)
        await this.properties({ projectId, event: undefined })
        log.info({ project: projectId }, 'the names of events are counted')
      } catch (error) {
        log.info({ err: error, project: projectId }, 'could not count the names of events; they are counted on request')
      }
    }
  }

  /** Resolves when nothing is being counted or sampled in the background. */
  async settled(): Promise<void> {
    await this.#backlog.settled()
  }

  /** The names of a project's events, the most frequent first. @throws ApiError `overloaded`, `query_too_large` */
  async events(projectId: string): Promise<EventNames> {
    const point = await this.#options.barrier.waitForProject(projectId)
    const { names } = await this.#counts.at(projectId, point)
    const events = [...names.values()].sort((a, b) => b.count - a.count || (a.event < b.event ? -1 : 1))
    return { events: events.slice(0, MAX_NAMES), pending: point.pending }
  }

  /**
   * The properties of a project's newest events, or of those with a name, most frequent first.
   * @throws like `events`
   */
  async properties(looked: SampledEvents): Promise<PropertyNames> {
    const { rows, pending } = await this.#properties.sample(looked, '', queryPropertyNames)
    const sampled = countSampled(rows)
    const events = looked.event === undefined ? [] : [{ path: '/event', name: looked.event }]
    const warned = sampled === 0 && (await this.#warn(looked.projectId, { events, properties: [] }))
    return { properties: toProperties(rows, sampled), fields: FIELDS, sampled, pending, ...warned }
  }

  /**
   * The values of a field in a project's newest events, or in those with a name, most frequent first.
   * @throws like `events`
   */
  async values(projectId: string, { field, event, search = '', limit }: ValuesRequest): Promise<FieldValues> {
    const known = listSessionValues(field)
    const { rows, pending } = known
      ? { rows: known, pending: 0 }
      : await this.#sampleValues(projectId, findFieldOfEvents(field), event === SESSION ? undefined : event)
    const values: FieldValue[] = []
    const wanted = search.toLowerCase()
    for (const { value: json, count } of rows) {
      if (values.length === limit) break
      if (json === '' || json === 'null') continue
      const value: unknown = JSON.parse(json)
      const text = typeof value === 'string' ? value : json
      if (text.toLowerCase().includes(wanted)) values.push({ value, count: Number(count) })
    }
    const warned = values.length === 0 && (await this.#warn(projectId, findFieldNames(field, event)))
    return { values, sampled: sumCounts(rows), pending, ...warned }
  }

  /** Warnings about a filter of users that matches none. @throws like `events` */
  async reviewUsers(projectId: string, filter: Filter): Promise<{ warnings?: Warning[] }> {
    const used = findFilterNames(filter)
    const warnings = [...warnOfUnknownValues(used.values), ...warnOfUses(used.fields)]
    return warnings.length > 0 ? { warnings } : await this.#warn(projectId, used)
  }

  async #sampleValues(projectId: string, field: FieldName, event: string | undefined) {
    const { page_views, page_fields } = this.#options.questions.getProject(projectId)
    // Samples of page fields depend on where the project takes them from.
    const key = splitField(field)[0] === 'page' ? [field, page_views, page_fields] : field
    return await this.#values.sample({ projectId, event }, JSON.stringify(key), (context, range) =>
      queryFieldValues(context, range, field),
    )
  }

  /**
   * Warns about unknown names in a request whose list is empty. If that fails, the list is returned without warnings.
   */
  async #warn(projectId: string, used: CheckedNames): Promise<{ warnings?: Warning[] }> {
    const point = await this.#options.barrier.waitForProject(projectId)
    const warnings = await this.#check.warnings(projectId, used, point).catch(() => [])
    return warnings.length > 0 ? { warnings } : {}
  }

  /** Waits for ClickHouse, because it may start after the service. */
  async #largestProjects(signal: AbortSignal): Promise<string[]> {
    const { shards, log } = this.#options
    let projects: string[] = []
    let failures = 0
    const find = async () => {
      projects = await findLargestProjects(shards, { than: LARGE, limit: PREPARED })
    }
    const isRetryable = () => ++failures < MAX_FAILURES
    const onFailure = (error: unknown, next: object) =>
      log.info({ err: error, ...next }, 'could not count the names of events yet; retrying')
    await retry(find, { backoff: BACKOFF, signal, isRetryable, onFailure }).catch((error: unknown) => {
      log.info(
        { err: error },
        'could not count the names of events in advance; the first request for them will be slower',
      )
    })
    return projects
  }
}

/** The field of events that has the values of a session's field. */
function findFieldOfEvents(field: FieldName): FieldName {
  const [source = '', which = '', ...path] = splitField(field)
  return isEventOfSession(source, which) ? path : field
}

/**
 * The values that a field of the session itself can have, if known without reading sessions; null for all other fields.
 */
function listSessionValues(field: FieldName): ValueRow[] | null {
  const [source = '', name = ''] = splitField(field)
  if (source !== 'session' || isEventOfSession(source, name)) return null
  const values = { bounced: ['true', 'false'], state: ['"active"', '"completed"'] }[name] ?? []
  return values.map((value) => ({ value, count: '0' }))
}

function countSampled(rows: readonly PropertyRow[]): number {
  return Number(rows.find(({ type }) => type === 'none')?.count ?? 0)
}

function sumCounts(rows: readonly ValueRow[]): number {
  return rows.reduce((sum, { count }) => sum + Number(count), 0)
}
