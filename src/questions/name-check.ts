import type { Shards } from '../clickhouse/shards.js'
import type { Warning } from '../contract/warning.js'
import { createNearestFinder } from '../lib/nearest.js'
import type { ReadPoint } from '../reads/read-barrier.js'
import { unmarkName } from './json-sql.js'
import type { Counts, NameCounts } from './name-counts.js'
import { MAX_NAMES, MAX_PROPERTIES, type PropertyRow, queryPropertyNames, readLastReplay } from './names.js'
import type { EventUse, NamesUsed, PropertyUse } from './names-used.js'
import type { Samples } from './samples.js'

/** A warning suggests the nearest of this many names, the most frequent ones. */
const MAX_CANDIDATES = 2_000
/** A property used with more event names than this is looked for in events of all names. */
const MAX_EVENTS = 3
/** Maximum number of samples that are read for one question. */
const MAX_SAMPLES = 5
/** Maximum difference of the clocks of two machines, ms. */
const CLOCK_SLACK_MS = 60_000

export interface NameCheckOptions {
  shards: Shards
  counts: NameCounts
  properties: Samples<PropertyRow>
  /** monotonic clock, ms */
  clock(): number
}

/** The known properties of some events. */
interface KnownProperties {
  names: ReadonlySet<string>
  sampled: number
}

/**
 * Finds unknown names in questions. A name only counts as unknown after everything accepted before the question was
 * searched. Names that are already known cost no query.
 */
export class NameCheck {
  readonly #options: NameCheckOptions

  constructor(options: NameCheckOptions) {
    this.#options = options
  }

  /** @param point the point up to which the answer counts events @throws ApiError `overloaded`, `query_too_large` */
  async warnings(projectId: string, { events, properties }: NamesUsed, point: ReadPoint): Promise<Warning[]> {
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
    return unknown.map(({ path, name }) => ({
      path,
      message: `No event is called ${name}.${formatHint(nearest(name))}`,
    }))
  }

  /** Whether events with old ids, those of replayed dead letters, may have been stored since the count. */
  async #mayLack({ countedAt }: Counts): Promise<boolean> {
    const { shards, clock } = this.#options
    return (await readLastReplay(shards)) > Date.now() - (clock() - countedAt) - CLOCK_SLACK_MS
  }

  /** Whether an earlier sample has the property. */
  #wasSeen(projectId: string, { name, events }: PropertyUse): boolean {
    const { properties } = this.#options
    return toSampledNames(events).some((event) => {
      return properties.last({ projectId, event }).some((rows) => rows.some((row) => unmarkName(row.name) === name))
    })
  }

  async #checkProperties(
    projectId: string,
    uses: readonly PropertyUse[],
    counts: Counts,
    point: ReadPoint,
  ): Promise<Warning[]> {
    const warnings: Warning[] = []
    const read = new Map<string | undefined, KnownProperties | null>()
    for (const { path, name, rest, events } of uses) {
      // If no event has the name, that is the mistake, not the property.
      const looked = toSampledNames(events).filter((event) => event === undefined || counts.names.has(event))
      const all: (KnownProperties | null)[] = []
      for (const event of looked) {
        if (!read.has(event) && read.size < MAX_SAMPLES) {
          read.set(event, await this.#read(projectId, event, counts, point))
        }
        all.push(read.get(event) ?? null)
      }
      const known = all.filter((one) => one !== null)
      const sampled = known.reduce((sum, one) => sum + one.sampled, 0)
      if (known.length < all.length || sampled === 0 || known.some(({ names }) => names.has(name))) continue
      const names = new Set(known.flatMap((one) => [...one.names]))
      const joined = [name, ...rest].join('.')
      const meant = names.has(joined) ? JSON.stringify(['properties', joined]) : createNearestFinder(names)(name)
      warnings.push({ path, message: `${describeAbsence(sampled, looked)} the property ${name}.${formatHint(meant)}` })
    }
    return warnings
  }

  /** @returns null if the sample has more properties than are listed */
  async #read(
    projectId: string,
    event: string | undefined,
    counts: Counts,
    point: ReadPoint,
  ): Promise<KnownProperties | null> {
    const rows = await this.#options.properties.upTo({ projectId, event }, point, counts, queryPropertyNames)
    if (rows.length >= MAX_PROPERTIES) return null
    const named = rows.filter(({ type }) => type !== 'none')
    const sampled = Number(rows.find(({ type }) => type === 'none')?.count ?? 0)
    return { names: new Set(named.map((row) => unmarkName(row.name))), sampled }
  }
}

/** The event names to sample for a property; undefined stands for all names. */
function toSampledNames(events: readonly string[] | null): (string | undefined)[] {
  return events === null || events.length > MAX_EVENTS ? [undefined] : [...new Set(events)]
}

function listMostFrequent({ names }: Counts): string[] {
  const sorted = [...names.values()].sort((a, b) => b.count - a.count || (a.event < b.event ? -1 : 1))
  return sorted.slice(0, MAX_CANDIDATES).map(({ event }) => event)
}

function describeAbsence(sampled: number, looked: readonly (string | undefined)[]): string {
  const called = looked[0] === undefined ? '' : ` called ${looked.join(' or ')}`
  return sampled === 1 ? `The newest event${called} lacks` : `None of the newest ${sampled} events${called} has`
}

function formatHint(meant: string | undefined): string {
  return meant === undefined ? '' : ` Did you mean ${meant}?`
}
