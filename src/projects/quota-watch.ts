import type { Shards } from '../clickhouse/shards.js'
import { NAME_QUOTAS, QUOTAS, type Quota, type QuotaName } from '../contract/project-settings.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import { formatEventId } from '../model/event-id.js'
import { countNewEventNames, readStoredBytes } from '../store/project-usage.js'
import type { Projects } from './projects.js'
import { PropertyNames } from './property-names.js'
import type { Usage } from './usage.js'

/** Interval of the checks of bytes on disk and of names, which take longer and change slowly. */
const LOOK_MS = 60_000
/** Interval of the checks of counted events, in which processes also store what they have counted. */
const COUNT_MS = 10_000
const LIMIT_MS = 10_000
/** Projects in one query. Names of properties are read for one project after another. */
const MAX_PROJECTS = 1_000

/** How much of a quota is used. */
export interface QuotaStatus extends Quota {
  projectId: string
  name: QuotaName
  used: number
}

export interface QuotaWatchOptions {
  projects: Pick<Projects, 'get' | 'list'>
  usage: Pick<Usage, 'own' | 'others'>
  shards: Shards
  log: Pick<Log, 'warn'>
  closing: AbortSignal
  /** default: 10 s for events, a minute for bytes and names */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/** Checks the quotas of all projects, so that the log and the metrics show when a soft one is reached. */
export class QuotaWatch {
  readonly #options: QuotaWatchOptions
  /** by quota, then by project: as of the last check */
  readonly #statuses = new Map<QuotaName, ReadonlyMap<string, QuotaStatus>>()
  /** by project and quota: the day (UTC) on which the log last reported that it was reached */
  readonly #reported = new Map<string, string>()
  readonly #propertyNames: PropertyNames

  constructor(options: QuotaWatchOptions) {
    this.#options = options
    this.#propertyNames = new PropertyNames(options.shards, options.closing)
  }

  /** As of the last check; some quotas may not have been checked yet. */
  get statuses(): QuotaStatus[] {
    return QUOTAS.flatMap((name) => [...(this.#statuses.get(name)?.values() ?? [])])
  }

  /** The bytes that a project has on disk; undefined before the first check, and without a quota. */
  storedBytes(projectId: string): number | undefined {
    return this.#statuses.get('stored_bytes')?.get(projectId)?.used
  }

  /** Checks each quota separately, because reading names takes longest and must not delay the others. */
  async start(): Promise<void> {
    await Promise.all(QUOTAS.map((name) => this.#watch(name)))
  }

  async #watch(name: QuotaName): Promise<void> {
    const isCounted = name === 'events_per_day' || name === 'events_per_month'
    const { everyMs = isCounted ? COUNT_MS : LOOK_MS, closing, projects, log } = this.#options
    const size = name === 'new_property_names_per_day' ? 1 : MAX_PROJECTS
    while (!closing.aborted) {
      const before = this.#statuses.get(name)
      const statuses: QuotaStatus[] = []
      const ids = [...projects.list().keys()].filter((id) => projects.get(id).settings.quotas[name])
      for (let at = 0; at < ids.length && !closing.aborted; at += size) {
        const some = ids.slice(at, at + size)
        const known = () => some.flatMap((id) => before?.get(id) ?? [])
        statuses.push(...(await this.#readOne(some, name).catch(known)))
      }
      this.#statuses.set(name, new Map(statuses.map((one) => [one.projectId, one])))
      const today = toDay(this.#now())
      for (const { projectId: project, limit, used, mode } of statuses) {
        const key = `${name} ${project}`
        if (used < limit || this.#reported.get(key) === today) continue
        this.#reported.set(key, today)
        log.warn({ project, quota: name, limit, used, mode }, 'a project has reached a quota')
      }
      await pause(everyMs, closing)
    }
  }

  /**
   * How much of each quota the projects have used by now. New names are as of the last check, because reading them takes
   * long. Quotas that have not been checked yet are left out.
   * @param shards read the bytes on the disk
   * @throws StoreUnreachableError, StoreError
   */
  async read(projectIds: readonly string[], shards: Shards): Promise<QuotaStatus[]> {
    const statuses: QuotaStatus[] = []
    for (const name of QUOTAS) {
      const isSlow = NAME_QUOTAS.includes(name)
      statuses.push(...(isSlow ? this.#findChecked(projectIds, name) : await this.#readOne(projectIds, name, shards)))
    }
    return statuses
  }

  /** The statuses of the last check, with the current limits. */
  #findChecked(projectIds: readonly string[], name: QuotaName): QuotaStatus[] {
    return projectIds.flatMap((projectId) => {
      const quota = this.#options.projects.get(projectId).settings.quotas[name]
      const checked = this.#statuses.get(name)?.get(projectId)
      return quota && checked ? [{ ...checked, ...quota }] : []
    })
  }

  async #readOne(
    projectIds: readonly string[],
    name: QuotaName,
    shards = this.#options.shards,
  ): Promise<QuotaStatus[]> {
    const limited = projectIds.flatMap((projectId) => {
      const quota = this.#options.projects.get(projectId).settings.quotas[name]
      return quota ? [{ projectId, name, ...quota }] : []
    })
    if (limited.length === 0) return []
    const ids = limited.map(({ projectId }) => projectId)
    const used = await this.#measure(ids, name, shards)
    return limited.flatMap((one) => {
      const count = used.get(one.projectId)
      return count === undefined ? [] : [{ ...one, used: count }]
    })
  }

  /** By project; without projects whose names cannot be counted. */
  async #measure(projectIds: readonly string[], name: QuotaName, shards: Shards): Promise<Map<string, number>> {
    const { usage } = this.#options
    const today = toDay(this.#now())
    if (name === 'stored_bytes') return await readStoredBytes(shards, projectIds)
    if (name === 'new_event_names_per_day') {
      const first = formatEventId({ position: BigInt(Date.parse(today)) << 16n, index: 0, journalId: 0 })
      return await countNewEventNames(shards, projectIds, first)
    }
    if (name === 'new_property_names_per_day') {
      const counts = new Map<string, number>()
      for (const projectId of projectIds) {
        const count = await this.#propertyNames.countNew(projectId, this.#now())
        if (count !== null) counts.set(projectId, count)
      }
      return counts
    }
    const others = await usage.others(projectIds, LIMIT_MS)
    return new Map(
      projectIds.map((projectId) => {
        const days = [...(others.get(projectId) ?? [])].filter(([day]) => name === 'events_per_month' || day === today)
        return [projectId, days.reduce((sum, [, { events }]) => sum + events, usage.own(projectId).events)]
      }),
    )
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}
