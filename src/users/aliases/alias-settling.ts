import { setTimeout as wait } from 'node:timers/promises'
import { StoreUnreachableError } from '../../clickhouse/errors.js'
import type { Shards } from '../../clickhouse/shards.js'
import { ApiError } from '../../contract/errors.js'
import { forEachInBatches } from '../../lib/for-each-in-batches.js'
import type { Log } from '../../lib/log.js'
import { type Alias, isLink } from '../../model/alias.js'
import type { Barrier } from '../../reads/read-barrier.js'
import type { States } from '../../states/state-store.js'
import { findProjectsWithSteps, type Step } from '../../store/aliases.js'
import type { Aliases } from './aliases.js'

/** How long to wait for more users of the project to become aliases, ms, because one pass handles all of them. */
const GATHER_MS = 1_000
/** Interval at which the store is queried for steps left by a process that ended, ms. */
const SWEEP_MS = 60_000
/** Names of a project that are read and settled before the next project's turn. */
const TURN_NAMES = 2_000
/** Names that are settled concurrently. */
const AT_ONCE = 500
/**
 * Length of the pause after each AT_ONCE names, as a multiple of the time that they took, so that requests go first.
 */
const PAUSE_SHARE = 1

export interface AliasSettlingOptions {
  aliases: Pick<Aliases, 'listSteps' | 'findAliases' | 'findTargets' | 'settle'>
  states: States<Alias>
  barrier: Pick<Barrier, 'requireProject'>
  shards: Shards
  log: Pick<Log, 'warn'>
  /** default: `GATHER_MS` */
  gatherMs?: number
}

/**
 * Makes names lead to their users in one step after users have become aliases. Nobody waits for it: until it is done,
 * names are followed step by step. The call that makes a user an alias costs the same no matter how many names the user
 * has, and even if it happens often, each name is rewritten once per pass.
 *
 * Every change is a compare-and-set and may be repeated, so any number of processes may work concurrently and end at
 * any point: a step stays marked in the store until nothing leads to it any more.
 */
export class AliasSettling {
  readonly #options: AliasSettlingOptions
  readonly #stop = new AbortController()
  readonly #due = new Set<string>()
  #running: Promise<void> | null = null
  #sweeping: Promise<void> | null = null

  constructor(options: AliasSettlingOptions) {
    this.#options = options
  }

  /** From now on, also finishes what other processes left unfinished. Call it in processes that write. */
  start(): void {
    this.#sweeping ??= this.#sweep()
  }

  /** Call it when names lead through an alias: they are settled within seconds, if the store is available. */
  note(projectId: string): void {
    this.#due.add(projectId)
    this.#running ??= this.#run().finally(() => {
      this.#running = null
    })
  }

  /**
   * Settles the names of a project until none of them takes a second step.
   * @throws ApiError `unavailable`, StoreUnreachableError if the store is late or down; the rest is found by the next
   * sweep
   */
  async settle(projectId: string): Promise<void> {
    while (!(await this.#settleSome(projectId)));
  }

  /** Settles some names of a project. @returns whether none is left */
  async #settleSome(projectId: string): Promise<boolean> {
    const { aliases, barrier } = this.#options
    const { signal } = this.#stop
    await barrier.requireProject(projectId)
    const steps = await aliases.listSteps(projectId)
    if (steps.length === 0) return true
    // Wait, so that every name which led to a step before the step was read is found.
    await barrier.requireProject(projectId)
    const targets = steps.map(({ alias }) => alias)
    const names = await aliases.findAliases(projectId, targets, TURN_NAMES)
    const led = new Set(await aliases.findTargets(projectId, targets))
    for (let start = 0; start < names.length && !signal.aborted; start += AT_ONCE) {
      const began = performance.now()
      const some = names.slice(start, start + AT_ONCE).map(({ alias }) => alias)
      await aliases.settle(projectId, some, barrier)
      await this.#pause(PAUSE_SHARE * (performance.now() - began))
    }
    const ended = await this.#end(
      projectId,
      steps.filter(({ alias }) => !led.has(alias)),
    )
    return signal.aborted || (names.length === 0 && ended < steps.length)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.all([this.#running, this.#sweeping])
  }

  /** Marks steps that nothing leads to, unless something does again. @returns how many it marked */
  async #end(projectId: string, steps: readonly Step[]): Promise<number> {
    let ended = 0
    await forEachInBatches(steps, async ({ alias, stepAt }) => {
      await this.#options.states.change(projectId, alias, (current) => {
        // A pending alias may be about to be taken back, which makes its names lead to it again.
        if (!isLink(current) || current.isPending || current.stepAt !== stepAt) return current
        ended++
        return { ...current, stepAt: 0 }
      })
    })
    return ended
  }

  async #run(): Promise<void> {
    while (this.#due.size > 0 && !this.#stop.signal.aborted) {
      await this.#pause(this.#options.gatherMs ?? GATHER_MS)
      const projects = [...this.#due]
      this.#due.clear()
      // A project that needs another attempt gets it after the other projects.
      for (const project of projects) if (!(await this.#attempt(project))) this.#due.add(project)
    }
  }

  async #sweep(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        for (const project of await findProjectsWithSteps(this.#options.shards)) this.note(project)
      } catch (err) {
        this.#warn(err, {})
      }
      await this.#pause(SWEEP_MS, { ref: false })
    }
  }

  /** @returns whether the project has no more names to settle now */
  async #attempt(project: string): Promise<boolean> {
    try {
      return await this.#settleSome(project)
    } catch (err) {
      this.#warn(err, { project })
      return true
    }
  }

  #warn(err: unknown, fields: object): void {
    // The writer logs that the store is unavailable, and the next sweep finds what is left.
    if (this.#stop.signal.aborted || err instanceof StoreUnreachableError || err instanceof ApiError) return
    this.#options.log.warn({ ...fields, err }, 'could not point aliases directly at their users; retrying')
  }

  async #pause(ms: number, options: { ref?: false } = {}): Promise<void> {
    await wait(ms, undefined, { signal: this.#stop.signal, ...options }).catch(() => undefined)
  }
}
