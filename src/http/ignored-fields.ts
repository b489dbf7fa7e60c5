import type { FastifyRequest } from 'fastify'
import { eventWarnings } from './field-warnings.js'

/** Minimum time between two log lines about a project, ms. */
const SILENT_MS = 60_000
/** Maximum number of projects that are counted separately; operators create projects, so there are few. */
const MAX_PROJECTS = 1000

interface Noted {
  /** events since the start */
  events: number
  /** events that the log has not mentioned yet */
  unlogged: number
  silentUntil: number
}

/** Notes fields of single events that are ignored and look like mistakes, because the response does not name them. */
export class IgnoredFields {
  readonly #projects = new Map<string, Noted>()
  readonly #now: () => number

  /** @param now ms of any clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * Logs the ignored fields of an event, at most once a minute for each project. An event without unknown fields costs
   * nothing. Call it while `rawBody` still belongs to the request.
   */
  note(request: FastifyRequest): void {
    const warnings = eventWarnings(request)
    if (warnings.length === 0) return
    const project = this.#projects.has(request.projectId) || this.#projects.size < MAX_PROJECTS ? request.projectId : ''
    const noted = this.#projects.get(project) ?? { events: 0, unlogged: 0, silentUntil: Number.NEGATIVE_INFINITY }
    this.#projects.set(project, noted)
    noted.events++
    noted.unlogged++
    const now = this.#now()
    if (now < noted.silentUntil) return
    request.server.log.warn(
      { project, events: noted.unlogged, fields: warnings.map(({ message }) => message) },
      'events have fields that are ignored',
    )
    noted.unlogged = 0
    noted.silentUntil = now + SILENT_MS
  }

  /** How many events had such fields since the start, by project; '' for all beyond the first thousand. */
  get counts(): [project: string, events: number][] {
    return [...this.#projects].map(([project, { events }]) => [project, events])
  }
}
