import type { Test } from 'tap'
import { type Scope, type StoredEvent, until } from '../helper.js'
import { call, FAULTLESS, Findings } from './calls.js'
import {
  type Client,
  EditingClient,
  ErasingClient,
  EventClient,
  ProfileClient,
  RepeatingClient,
  SessionClient,
  type SharedProfile,
  type Urls,
} from './clients.js'
import type { Installation } from './installation.js'
import { FLAWLESS, Ledger, type Verdict } from './ledger.js'
import { LiveWalk } from './live-walk.js'
import { readExport, walk } from './producer.js'

/** More events are not compared with a walk in reverse, which needs all their ids in memory. */
const MAX_REVERSED = 300_000
const PAGE = 10_000

export interface LoadOptions {
  /** events of a batch; default 50 */
  batch?: number
  /** clients of each kind at each service; default 1 */
  clients?: number
}

/**
 * Simulates everything that users do, at the same time and on every service: events, batches, profiles, sessions,
 * edits, deletions, erasures, questions, and a walk through all events. Each client writes to one service and reads from
 * any.
 */
export class Load {
  readonly ledger = new Ledger()
  readonly findings = new Findings()
  readonly #installation: Installation
  readonly #clients: Client[] = []
  readonly #walk: LiveWalk
  readonly #url: () => string
  #running: Promise<unknown> = Promise.resolve()
  #isOver = false
  #isAbandoned = false
  /** of each client */
  readonly #steps = new Map<Client, number>()

  constructor(installation: Installation, { batch = 50, clients = 1 }: LoadOptions = {}) {
    const { ledger, findings } = this
    this.#installation = installation
    let reads = 0
    const urlOf = (service: number) => {
      if (this.#isAbandoned) throw new Error('the load was abandoned')
      return installation.url(service % installation.services)
    }
    this.#url = () => urlOf(reads++)
    this.#walk = new LiveWalk(this.#url, ledger, findings)
    // A profile belongs to clients of all services.
    const profiles: SharedProfile[] = []
    for (let service = 0; service < installation.services; service++) {
      const urls: Urls = { write: () => urlOf(service), read: this.#url }
      for (let i = 0; i < clients; i++) {
        this.#clients.push(
          new EventClient(urls, ledger, findings, batch),
          new RepeatingClient(urls, ledger, findings),
          new EditingClient(urls, ledger, findings),
          new ErasingClient(urls, ledger, findings),
          new ProfileClient(urls, findings, profiles),
          new SessionClient(urls, findings),
        )
      }
    }
  }

  /** @param scope at its end, clients stop retrying */
  start(scope: Scope): void {
    scope.teardown(() => {
      this.#isOver = true
      this.#isAbandoned = true
    })
    const repeat = async (client: Client) => {
      while (!this.#isOver) {
        await client.step()
        this.#steps.set(client, (this.#steps.get(client) ?? 0) + 1)
      }
    }
    this.#running = Promise.all([...this.#clients, this.#walk].map(repeat))
    // It is thrown by `stop`.
    this.#running.catch(() => undefined)
  }

  /** The logs of the services about responses with a 500. */
  get failures(): string {
    const lines = this.#installation.log.split('\n').filter((line) => /"status":500/.test(line))
    return lines.slice(0, 20).join('\n')
  }

  /** Waits until each client, and the walk, has done this many more steps. */
  async more(steps: number): Promise<void> {
    const before = new Map(this.#steps)
    const all = [...this.#clients, this.#walk]
    const isDone = (client: Client) => (this.#steps.get(client) ?? 0) >= (before.get(client) ?? 0) + steps
    let failure: unknown
    this.#running.catch((error) => {
      failure = error
    })
    await until(`${steps} more steps`, () => {
      if (failure) throw failure
      return all.every(isDone)
    })
  }

  /** Rejects when a client gives up; never resolves. */
  get failed(): Promise<never> {
    return new Promise((_resolve, reject) => {
      this.#running.catch(reject)
    })
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#running
  }

  /** Reads everything back after `stop`. @param limitMs how long to wait until everything is stored */
  async verdict(
    limitMs?: number,
  ): Promise<{ stored: Verdict; live: Verdict; faults: Findings['faults']; examples: string[] }> {
    const ids: string[] = []
    const noting = async function* (url: string) {
      ids.length = 0
      for await (const found of walk(url)) {
        if (ids.length <= MAX_REVERSED) ids.push(found.eventId)
        yield found
      }
    }
    let stored: Verdict | undefined
    await until(
      'a complete walk',
      async () => {
        stored = await this.ledger.verdict(noting(this.#url())).catch(() => undefined)
        return stored !== undefined
      },
      limitMs,
    )
    await this.#compareExport()
    const live = await this.#walk.verdict()
    if (ids.length <= MAX_REVERSED) await this.#compareReversed(ids)
    for (const client of this.#clients) await client.finish?.()
    const { faults, examples } = this.findings
    return { stored: stored ?? FLAWLESS, live, faults, examples }
  }

  async #compareExport(): Promise<void> {
    const { examples, ...faults } = await this.ledger.verdict(readExport(this.#url()))
    if (examples.length > 0) {
      this.findings.blame('skipped', `in an export: ${JSON.stringify(faults)}, ${examples.join(', ')}`)
    }
  }

  async #compareReversed(ids: string[]): Promise<void> {
    let left = ids.length
    for (let cursor = ''; ; ) {
      const reply = await until('a page backwards', async () => {
        const reply = await call(this.#url(), { path: `/public/events?order=desc&limit=${PAGE}${cursor}` })
        return reply?.status === 200 ? reply : undefined
      })
      for (const { eventId } of reply.body.events as StoredEvent[]) {
        if (ids[--left] !== eventId) {
          this.findings.blame('skipped', `the walk backwards has ${eventId} in the place of ${ids[left]}`)
          return
        }
      }
      if (reply.body.next === null) break
      cursor = `&cursor=${reply.body.next}`
    }
    if (left !== 0) this.findings.blame('skipped', `the walk backwards ends ${left} events early`)
  }
}

/**
 * Stops the load and reads everything back: nothing is lost, duplicated, out of order, skipped, unread or miscounted.
 */
export async function assertFaultless(t: Test, load: Load): Promise<void> {
  await load.stop()
  const { stored, live, faults, examples } = await load.verdict()
  t.strictSame(
    stored,
    FLAWLESS,
    `${load.ledger.answered} acknowledged events are stored once, in order, with their edits`,
  )
  t.strictSame(live, FLAWLESS, 'a walk during the writes has seen each of them once')
  t.strictSame({ ...faults, examples }, { ...FAULTLESS, examples: [] }, 'every client finds what it wrote')
  if (examples.length > 0) t.comment(load.failures)
  t.strictSame(load.ledger.sharedIds, [], 'no two events were given the same id')
  for (const [what, count] of Object.entries(load.findings.counts)) t.ok(count > 0, `${count} ${what}`)
}
