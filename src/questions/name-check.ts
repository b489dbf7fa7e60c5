import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { SESSION } from '../contract/question-schemas.js'
import type { FieldName, Scalar } from '../contract/questions.js'
import type { Warning } from '../contract/warning.js'
import { createNearestFinder } from '../lib/nearest.js'
import type { ReadPoint } from '../reads/read-barrier.js'
import type { Backlog } from './backlog.js'
import { toField } from './field-name.js'
import {
  findNearestNames,
  findPropertyFaults,
  type KnownProperties,
  mergeProperties,
  type PropertyFault,
  toKnownProperties,
} from './known-properties.js'
import { TYPE_NAMES } from './known-values.js'
import { type Counts, estimateSize, type NameCounts, ROOM } from './name-counts.js'
import {
  MAX_NAMES,
  type PropertyRow,
  queryNameInTexts,
  queryPropertyNames,
  queryRowProperties,
  readLastReplay,
} from './names.js'
import type { CheckedNames, EventUse, PropertyUse } from './names-used.js'
import { RefreshingCache } from './refreshing-cache.js'
import type { Questions } from './run.js'
import { countNamed } from './sample-range.js'
import type { Samples } from './samples.js'

/** A warning suggests the nearest of this many names, the most frequent ones. */
const MAX_CANDIDATES = 2_000
/** A property used with more event names than this is looked for in events of all names. */
const MAX_EVENTS = 3
/** Maximum number of samples that are read for one question. */
const MAX_SAMPLES = 5
/** Maximum difference of the clocks of two machines, ms. */
const CLOCK_SLACK_MS = 60_000
/** How many profiles or sessions are read for their properties. */
const ROWS = 10_000
/** Where the name means sessions, it is not checked. */
const SESSION_MISPLACED = `No event is called “${SESSION}”. It means sessions only as the one event of a series or a step, not in a list or a filter.`
/** Where a field of each source begins. */
const PREFIXES = { properties: ['properties'], user: ['user'], session: ['session', 'properties'] } as const
/** The tables with properties of anything but events, and the words for their rows. */
const TABLES = {
  user: { table: 'profiles', one: 'profile' },
  session: { table: 'sessions', one: 'session' },
} as const

type TableSource = keyof typeof TABLES

export interface NameCheckOptions {
  shards: Shards
  questions: Pick<Questions, 'read'>
  backlog: Backlog
  counts: NameCounts
  properties: Samples<PropertyRow>
  /** monotonic clock, ms */
  clock(): number
}

/** The sample that was read for a property, and what it shows. */
interface Looked {
  known: KnownProperties
  /** begins the sentence about what is missing, such as "None of the newest 20 events" */
  subject: string
  /** whether everything was sampled */
  isWhole: boolean
}

/** Profiles or sessions that were sampled. */
interface SampledRows {
  begunAt: number
  deletions: string
  rows: PropertyRow[]
}

/**
 * Finds unknown names in questions. A name only counts as unknown after everything accepted before the question was
 * searched. Names that are already known cost no query.
 */
export class NameCheck {
  readonly #options: NameCheckOptions
  readonly #rows: RefreshingCache<SampledRows>

  constructor(options: NameCheckOptions) {
    this.#options = options
    this.#rows = new RefreshingCache<SampledRows>({
      room: ROOM,
      weigh: (key, { rows }) =>
        estimateSize(
          key,
          rows.flatMap(({ path, examples }) => [...path, ...examples.flat()]),
        ),
      backlog: options.backlog,
      isOutdated: (one, by) => one.deletions !== by.deletions,
    })
  }

  /** @param point the point up to which the answer counts events @throws ApiError `overloaded`, `query_too_large` */
  async warnings(projectId: string, { events, properties }: CheckedNames, point: ReadPoint): Promise<Warning[]> {
    const { counts } = this.#options
    const last = counts.last(projectId)
    const doubtful = events.filter(({ name }) => !last?.names.has(name))
    const unseen = properties.filter((use) => !this.#wasSeen(projectId, use))
    if (doubtful.length === 0 && unseen.length === 0) return []
    const now = await counts.at(projectId, point)
    // Beyond the limit, not all names are known. A project without events has no names to confuse.
    if (now.names.size > MAX_NAMES || now.total === 0) return []
    const ofEvents = await this.#checkEvents(doubtful, now)
    return [...ofEvents, ...(await this.#checkProperties(projectId, unseen, now, point))]
  }

  async #checkEvents(uses: readonly EventUse[], counts: Counts): Promise<Warning[]> {
    const unknown = uses.filter(({ name }) => !counts.names.has(name))
    if (unknown.length === 0 || (await this.#mayLack(counts))) return []
    const nearest = createNearestFinder(listMostFrequent(counts))
    return unknown.map(({ path, name }) => {
      if (name === SESSION) return { path, message: SESSION_MISPLACED }
      const suggestion = nearest(name)
      const hint = suggestion === undefined ? '' : ` Did you mean “${suggestion}”?`
      const message = `No event is called “${name}”.${hint}`
      return { path, message, ...(suggestion !== undefined && { suggestion }) }
    })
  }

  /** Whether events with old ids, from replayed dead letters, may have been stored since the count. */
  async #mayLack({ countedAt }: Counts): Promise<boolean> {
    const { shards, clock } = this.#options
    return (await readLastReplay(shards)) > Date.now() - (clock() - countedAt) - CLOCK_SLACK_MS
  }

  /** Whether earlier samples show nothing wrong with a property. */
  #wasSeen(projectId: string, use: PropertyUse): boolean {
    const { properties } = this.#options
    const samples =
      use.source !== 'properties'
        ? [this.#rows.last(toKey(use.source, projectId))?.rows ?? []]
        : listSampledNames(use).flatMap((event) => properties.last({ projectId, event }))
    const known = mergeProperties(samples.map(toKnownProperties))
    return known.byPath.size > 0 && findPropertyFaults(use, known).length === 0
  }

  async #checkProperties(
    projectId: string,
    uses: readonly PropertyUse[],
    counts: Counts,
    point: ReadPoint,
  ): Promise<Warning[]> {
    const warnings: Warning[] = []
    const read = new Map<string | undefined, KnownProperties>()
    for (const use of uses) {
      // If no event has this name, the mistake is the name, not the property.
      const names = listSampledNames(use).filter((event) => event === undefined || counts.names.has(event))
      const isKnown = names.every((event) => read.has(event))
      if (use.source === 'properties' && (names.length === 0 || (!isKnown && read.size >= MAX_SAMPLES))) continue
      const looked =
        use.source !== 'properties'
          ? await this.#lookAtRows(use.source, projectId, point)
          : await this.#lookAtEvents(projectId, names, { counts, point, read })
      for (const fault of findPropertyFaults(use, looked.known)) {
        const warning = await this.#describe(projectId, use, fault, looked, point)
        if (warning) warnings.push(warning)
      }
    }
    return warnings
  }

  async #lookAtEvents(
    projectId: string,
    names: readonly (string | undefined)[],
    { counts, point, read }: { counts: Counts; point: ReadPoint; read: Map<string | undefined, KnownProperties> },
  ): Promise<Looked> {
    const all: KnownProperties[] = []
    for (const event of names) {
      const looked = { projectId, event }
      const known =
        read.get(event) ??
        toKnownProperties(await this.#options.properties.upTo(looked, point, counts, queryPropertyNames))
      read.set(event, known)
      all.push(known)
    }
    const known = mergeProperties(all)
    const isWhole = known.sampled >= names.reduce((sum, event) => sum + countNamed(counts, event), 0)
    const called = names[0] === undefined ? '' : ` called ${names.map((name) => `“${name}”`).join(' or ')}`
    const subject = isWhole ? `No event${called}` : `None of the newest ${known.sampled} events${called}`
    return { known, subject, isWhole }
  }

  async #lookAtRows(source: TableSource, projectId: string, { deletions }: ReadPoint): Promise<Looked> {
    const { clock, questions } = this.#options
    const { table, one } = TABLES[source]
    const askedAt = clock()
    const make = async () => {
      const begunAt = clock()
      const rows = await questions.read(projectId, (context) => queryRowProperties(context, table, ROWS))
      return { begunAt, deletions, rows: rows as PropertyRow[] }
    }
    const { rows } = await this.#rows.get(toKey(source, projectId), {
      projectId,
      isCurrent: ({ begunAt }) => begunAt >= askedAt,
      suffices: () => false,
      make,
      renew: make,
    })
    const known = toKnownProperties(rows)
    const isWhole = known.sampled < ROWS
    return { known, subject: isWhole ? `No ${one}` : `None of ${ROWS} ${one}s`, isWhole }
  }

  /** @returns null if the use may be correct */
  async #describe(
    projectId: string,
    use: PropertyUse,
    fault: PropertyFault,
    looked: Looked,
    point: ReadPoint,
  ): Promise<Warning | null> {
    const { path, source, names } = use
    const { known, subject, isWhole } = looked
    const label = formatNames(source, names)
    switch (fault.kind) {
      case 'absent': {
        const near = findNearestNames(names, known)
        const suggestion = near ? toUsed(use, source, near) : await this.#findInOther(projectId, use, point)
        if (!isWhole && (await this.#isOlder(projectId, use, suggestion !== undefined))) return null
        const hint =
          suggestion === undefined ? '' : ` Did you mean ${near ? formatNames(source, near) : quoteField(suggestion)}?`
        const message = `${subject} has the property ${label}.${hint}`
        return { path, message, ...(suggestion !== undefined && { suggestion }) }
      }
      case 'types': {
        const wanted = (use.types ?? []).map((type) => TYPE_NAMES[type][0]).join(' or ')
        const found = fault.types.map((type) => TYPE_NAMES[type][1]).join(' and ')
        return { path, message: `${subject} has ${wanted} in ${label}: its values are ${found}.` }
      }
      case 'value': {
        const { compared, suggestion } = fault
        // A rare value may occur only in older events.
        if (!isWhole && suggestion === undefined) return null
        const hint = suggestion === undefined ? '' : ` Did you mean ${formatScalar(suggestion)}?`
        const message = `${subject} has the value ${formatScalar(compared.value)} in ${label}.${hint}`
        return { path: compared.path, message, ...(suggestion !== undefined && { suggestion }) }
      }
    }
  }

  /** Whether a property that a sample lacks is elsewhere, or the sample is too small to call it unknown. */
  async #isOlder(projectId: string, { source, names, events }: PropertyUse, hasSuggestion: boolean): Promise<boolean> {
    if (source !== 'properties') return !hasSuggestion
    try {
      const name = names.at(-1) ?? ''
      const found = await this.#options.questions.read(projectId, (context) =>
        queryNameInTexts(context, { name, events }),
      )
      return found.length > 0
    } catch (error) {
      // There are too many events to search them all in time.
      if (error instanceof ApiError && error.code === 'query_too_large') return false
      throw error
    }
  }

  /** The field of the same name of events, or of users instead of events, if an earlier sample has it. */
  async #findInOther(projectId: string, use: PropertyUse, point: ReadPoint): Promise<FieldName | undefined> {
    const { source, names } = use
    const other = source === 'properties' ? 'user' : 'properties'
    const { known } =
      other === 'user'
        ? await this.#lookAtRows('user', projectId, point)
        : {
            known: mergeProperties(
              this.#options.properties.last({ projectId, event: undefined }).map(toKnownProperties),
            ),
          }
    return known.byPath.has(JSON.stringify(names)) ? toUsed(use, other, names) : undefined
  }
}

/** The event names to sample for a property; undefined stands for all names. */
function listSampledNames({ events }: PropertyUse): (string | undefined)[] {
  return events === null || events.length > MAX_EVENTS ? [undefined] : [...new Set(events)]
}

function listMostFrequent({ names }: Counts): string[] {
  const sorted = [...names.values()].sort((a, b) => b.count - a.count || (a.event < b.event ? -1 : 1))
  return sorted.slice(0, MAX_CANDIDATES).map(({ event }) => event)
}

/** The field that reads a property from the same event as another field. */
function toUsed(use: PropertyUse, source: PropertyUse['source'], names: readonly string[]): FieldName {
  // A session itself has the properties of its calls; properties of its events belong to its first event, for example.
  const within = use.source === 'session' && source !== 'session' ? ['session', 'first'] : (use.within ?? [])
  const [first = '', ...rest] = [...within, ...PREFIXES[source], ...names]
  return toField(first, rest)
}

function toKey(source: TableSource, projectId: string): string {
  return `${source} ${projectId}`
}

/** Quotes the names of a path as in a field, but without its source if that is not ambiguous. */
function formatNames(source: PropertyUse['source'], names: readonly string[]): string {
  return names.some((name) => name.includes('.'))
    ? JSON.stringify([...PREFIXES[source], ...names])
    : `“${names.join('.')}”`
}

function quoteField(field: FieldName): string {
  return typeof field === 'string' ? `“${field}”` : JSON.stringify(field)
}

function formatScalar(value: Scalar): string {
  if (typeof value === 'string') return `“${value}”`
  return typeof value === 'number' ? `the number ${value}` : String(value)
}
