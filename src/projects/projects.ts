import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import {
  changeSettings,
  changeToDefaults,
  DEFAULT_SETTINGS,
  type KeptTimes,
  listKeptTimes,
  listLockedChanges,
  listSet,
  listSettings,
  type ProjectSettings,
  type SettingsChange,
} from '../contract/project-settings.js'
import { isSameJson } from '../contract/same-json.js'
import type { Log } from '../lib/log.js'
import { OutageLog } from '../lib/outage-log.js'
import { pause } from '../lib/pause.js'
import type { Actor, AuditChanges } from '../model/audit-entry.js'
import { addAuditEntries } from '../store/audit.js'
import { readAllSettings, readSettings, replaceSettings, type StoredSettings } from '../store/project-settings.js'
import { checkSettings } from './check-settings.js'

/**
 * How often the settings are read, so a change reaches every process within this time plus the duration of the query.
 */
const REFRESH_MS = 5_000
/** Maximum number of attempts to change settings that others are changing at the same time. */
const MAX_TRIES = 20

/** The settings of a project and their revision. */
export interface Project {
  settings: ProjectSettings
  /** counts the changes; 0 before the first */
  revision: number
  /** epoch ms; 0 before the first change */
  updatedAt: number
}

const UNCHANGED: Project = { settings: DEFAULT_SETTINGS, revision: 0, updatedAt: 0 }

export interface ProjectsOptions {
  log: Pick<Log, 'info' | 'warn'>
  /** aborts every wait */
  closing: AbortSignal
  /** interval between reads, in ms; default 5000 */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * The settings of all projects, in memory, so that events and reads look them up without waiting. Another process's
 * change is known a few seconds later.
 *
 * Not promised: while ClickHouse cannot be read, changes are not noticed. A process that has never read it returns the
 * defaults, see `areKnown` and `requireKnown`.
 */
export class Projects {
  readonly #options: ProjectsOptions
  #byId: ReadonlyMap<string, Project> = new Map()
  #areKnown = false
  #isRepeating = false

  constructor(options: ProjectsOptions) {
    this.#options = options
  }

  get(projectId: string): Project {
    return this.#byId.get(projectId) ?? UNCHANGED
  }

  /** Whether the settings have been read. Until then, store nothing that a project's settings may forbid. */
  get areKnown(): boolean {
    return this.#areKnown
  }

  /**
   * Makes sure that the settings have been read. Until then, nobody can say which data has expired.
   * @throws ApiError `unavailable`
   */
  requireKnown(): void {
    if (this.#areKnown) return
    throw new ApiError('unavailable', 'The settings of the project cannot be read yet. Try again in a moment.')
  }

  /** All projects with settings. */
  list(): ReadonlyMap<string, Project> {
    return this.#byId
  }

  /**
   * The times since which a project's data is kept.
   * @param at when, epoch ms; a time in the future means now
   */
  kept(projectId: string, at = Number.POSITIVE_INFINITY): KeptTimes {
    const project = this.#byId.get(projectId)
    if (project === undefined) return {}
    return listKeptTimes(project.settings.keep, Math.min(this.#options.now?.() ?? Date.now(), at))
  }

  /** Reads the settings, and then again every few seconds. @throws StoreError, StoreUnreachableError at the first read */
  async start(shards: Shards): Promise<void> {
    await this.#read(shards)
    if (this.#isRepeating) return
    this.#isRepeating = true
    void this.#repeat(shards)
  }

  /** Like `changeProject`, which names its errors; this process uses the new settings immediately. */
  async change(
    shards: Shards,
    projectId: string,
    change: SettingsChange,
    { by, expected }: Pick<ChangeOptions, 'by' | 'expected'>,
  ): Promise<Project> {
    const project = await changeProject(shards, projectId, change, { by, expected, now: this.#options.now })
    // A later change of this process may have been completed before this one.
    if (project.revision >= this.get(projectId).revision) this.#byId = new Map([...this.#byId, [projectId, project]])
    return project
  }

  /** Gives a project that was erased the settings of a new one, except for locked quotas. @throws like `changeProject` */
  async reset(shards: Shards, projectId: string, by: Actor): Promise<void> {
    const { settings, revision } = await readProject(shards, projectId)
    if (revision > 0) await this.change(shards, projectId, changeToDefaults(settings), { by })
  }

  async #repeat(shards: Shards): Promise<void> {
    const { everyMs = REFRESH_MS, closing, log } = this.#options
    const outage = new OutageLog(log, {
      failed: 'the settings of the projects could not be read; the last known ones apply until they are',
      recovered: 'the settings of the projects can be read again',
    })
    while (await pause(everyMs, closing)) {
      try {
        await this.#read(shards)
        outage.noteSuccess()
      } catch (error) {
        outage.noteFailure(error)
      }
    }
  }

  async #read(shards: Shards): Promise<void> {
    const read = await readProjects(shards)
    // A change of this process may have been stored after the rows were read.
    for (const [id, project] of this.#byId) {
      if (project.revision > (read.get(id)?.revision ?? 0)) read.set(id, project)
    }
    this.#byId = read
    this.#areKnown = true
  }
}

/** The settings of all projects that have any, read from the store now. */
export async function readProjects(shards: Shards): Promise<Map<string, Project>> {
  return new Map((await readAllSettings(shards)).map((one) => [one.projectId, toProject(one)]))
}

/**
 * The settings of a project, read from the store now.
 * @param expected their revision; absent: any
 * @throws ApiError `revision_conflict`
 */
export async function readProject(shards: Shards, projectId: string, expected?: number): Promise<Project> {
  const project = toProject(await readSettings(shards, projectId))
  if (expected !== undefined && expected !== project.revision) throw revisionConflict()
  return project
}

export interface ChangeOptions {
  by: Actor
  /** the revision that is changed; absent: any */
  expected?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Changes settings of a project. The entry in the audit log is stored first, so that none is missing. If the store fails
 * in between, or another change of the same settings comes first, the log has a change that was not made.
 * @throws ApiError `invalid_request`, `quota_locked`, `revision_conflict`; StoreError, StoreUnreachableError: it is
 * then unknown whether the settings were changed
 */
export async function changeProject(
  shards: Shards,
  projectId: string,
  change: SettingsChange,
  { by, expected, now = Date.now }: ChangeOptions,
): Promise<Project> {
  await checkSettings(shards, change)
  const updatedAt = now()
  let audited = ''
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await readSettings(shards, projectId)
    if (expected !== undefined && expected !== before.revision) break
    const { settings: earlier } = toProject(before)
    const settings = changeSettings(earlier, change)
    refuseLocked(earlier, settings, by)
    const text = JSON.stringify(listSet(settings))
    // An empty change would only cause a conflict for someone else's next change.
    if (text === before.text) return toProject(before)
    const changes = compareSettings(earlier, settings)
    // Another attempt makes the same change, unless the same settings were changed in the meantime.
    if (Object.keys(changes).length > 0 && JSON.stringify(changes) !== audited) {
      const entry = { projectId, actor: by, action: 'project_changed' as const, target: null, changes }
      await addAuditEntries(shards, [entry])
      audited = JSON.stringify(changes)
    }
    const revision = await replaceSettings(shards, { projectId, text, revision: before.revision, updatedAt })
    if (revision !== null) return { settings, revision, updatedAt }
  }
  throw revisionConflict()
}

/**
 * Refuses changes of locked quotas by a key: with these quotas, the operator limits the project and everyone who has
 * one of its keys.
 * @throws ApiError `quota_locked`
 */
export function refuseLocked(before: ProjectSettings, after: ProjectSettings, by: Actor): void {
  if (by.type === 'command_line') return
  const names = listLockedChanges(before, after)
  const [first] = names
  if (first === undefined) return
  const isSet = before.quotas[first]?.locked === true
  const message = isSet
    ? `The quota ${first} was set by the operator of the service, and only the operator can change it. Leave it out, or ask the operator.`
    : 'Only the operator of the service can lock a quota, with: tallyhouse projects set. Leave out locked.'
  const details = names.map((name) => ({ path: `/quotas/${name}`, message: 'can only be changed by the operator' }))
  throw new ApiError('quota_locked', message, { details })
}

function revisionConflict(): ApiError {
  return new ApiError(
    'revision_conflict',
    'The settings were changed in the meantime. Read them again, and repeat the change.',
  )
}

/** The settings that differ; grouped ones are listed one by one, such as `keep.events`. */
function compareSettings(before: ProjectSettings, after: ProjectSettings): AuditChanges {
  const earlier = new Map(listSettings(before))
  return Object.fromEntries(
    listSettings(after).flatMap(([name, to]) => {
      const from = earlier.get(name)
      return isSameJson(from, to) ? [] : [[name, { from, to }]]
    }),
  )
}

function toProject({ text, revision, updatedAt }: StoredSettings): Project {
  return { settings: changeSettings(DEFAULT_SETTINGS, JSON.parse(text) as SettingsChange), revision, updatedAt }
}
