import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import { QUOTAS, type Quota, type QuotaName } from '../contract/project-settings.js'
import type { Log } from '../lib/log.js'
import { formatEventId } from '../model/event-id.js'
import { countNewEventNames, readStoredBytes } from '../store/project-usage.js'
import type { Projects } from './projects.js'
import { PropertyNames } from './property-names.js'
import { toDay, type Usage } from './usage.js'

/** Interval of the checks. Bytes on disk and names change slowly enough for a minute. */
const LOOK_MS = 60_000
const LIMIT_MS = 10_000
/** Projects in one query. */
const MAX_PROJECTS = 1_000

/** How much of a quota is used. */
export interface QuotaStatus extends Quota {
  projectId: string
  name: QuotaName
  used: number
}

export interface QuotaWatchOptions {
  projects: Pick<Projects, 'get' | 'list'>
  usage: Pick<Usage, 'own' | 'others' | 'write'>
  shards: Shards
  log: Pick<Log, 'warn'>
  closing: AbortSignal
  /** default: a minute */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/** Checks the quotas of all projects each minute, so that the log and the metrics show a soft one that is reached. */
export class QuotaWatch {
  readonly #options: QuotaWatchOptions
  #statuses: QuotaStatus[] = []
  /** by project: see `storedBytes` */
  #stored: ReadonlyMap<string, number> = new Map()
  /** by project and quota: the day (UTC) on which the log last said that it was reached */
  readonly #told = new Map<string, string>()
  readonly #propertyNames: PropertyNames

  constructor(options: QuotaWatchOptions) {
    this.#options = options
    this.#propertyNames = new PropertyNames(options.shards)
  }

  /** As of the last check. */
  get statuses(): readonly QuotaStatus[] {
    return this.#statuses
  }

  /** The bytes that a project has on disk; undefined before the first check, and without a quota. */
  storedBytes(projectId: string): number | undefined {
    return this.#stored.get(projectId)
  }

  async start(): Promise<void> {
    const { everyMs = LOOK_MS, closing, projects, log } = this.#options
    while (!closing.aborted) {
      const statuses: QuotaStatus[] = []
      const ids = [...projects.list().keys()]
      for (let at = 0; at < ids.length; at += MAX_PROJECTS) {
        const some = ids.slice(at, at + MAX_PROJECTS)
        const known = () => this.#statuses.filter(({ projectId }) => some.includes(projectId))
        statuses.push(...(await this.read(some).catch(known)))
      }
      this.#statuses = statuses
      const stored = statuses.filter(({ name }) => name === 'stored_bytes')
      this.#stored = new Map(stored.map(({ projectId, used }) => [projectId, used]))
      const today = toDay(this.#now())
      for (const { projectId: project, name, limit, used, mode } of statuses) {
        const key = `${name} ${project}`
        if (used < limit || this.#told.get(key) === today) continue
        this.#told.set(key, today)
        log.warn({ project, quota: name, limit, used, mode }, 'a project has reached a quota')
      }
      await wait(everyMs, undefined, { signal: closing, ref: false }).catch(() => undefined)
    }
  }

  /** How much of each quota the projects have used by now. @throws StoreUnreachableError, StoreError */
  async read(projectIds: readonly string[]): Promise<QuotaStatus[]> {
    const { projects } = this.#options
    const statuses: QuotaStatus[] = []
    for (const name of QUOTAS) {
      const limited = projectIds.flatMap((projectId) => {
        const quota = projects.get(projectId).settings.quotas[name]
        return quota ? [{ projectId, name, ...quota }] : []
      })
      if (limited.length === 0) continue
      const ids = limited.map(({ projectId }) => projectId)
      const used = await this.#measure(ids, name)
      statuses.push(...limited.map((one) => ({ ...one, used: used.get(one.projectId) ?? 0 })))
    }
    return statuses
  }

  async #measure(projectIds: readonly string[], name: QuotaName): Promise<Map<string, number>> {
    const { usage, shards } = this.#options
    const today = toDay(this.#now())
    if (name === 'stored_bytes') return await readStoredBytes(shards, projectIds)
    if (name === 'new_event_names_per_day') {
      const first = formatEventId({ position: BigInt(Date.parse(today)) << 16n, index: 0, journalId: 0 })
      return await countNewEventNames(shards, projectIds, first)
    }
    if (name === 'new_property_names_per_day') {
      const counts = new Map<string, number>()
      for (const projectId of projectIds) {
        counts.set(projectId, await this.#propertyNames.countNew(projectId, this.#now()))
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
