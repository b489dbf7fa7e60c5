import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { replayDeadLetter } from '../../src/ingest/replay.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { completeFacts, countDifferences } from '../facts/copied-facts.js'
import { type Scope, until } from '../helper.js'
import { type Call, Findings, insist } from './calls.js'
import { Installation } from './installation.js'

/** Index of the process that only answers questions, from `events`, and is not killed. */
const REFERENCE = 2
const PROJECTS = 4
const USERS = 12
const DAY_MS = 86_400_000
const START = Date.UTC(2026, 9, 1)
const RANGE = { from: START, to: START + 40 * DAY_MS }
const PEACE_MS = { least: 500, most: 4_000 }
const MAX_PAUSE_MS = 15_000
/** Longer than an erasure or a deletion of batches keeps facts waiting after its process was killed: four minutes. */
const FOLLOW_LIMIT_MS = 6 * 60_000
/** Age after which events are certainly in the facts. */
const REPLAYED_AFTER_MS = 30_000

export interface FactsVerdict {
  /** answers that were compared */
  answers: number
  changes: number
  kills: number
  /** rows of facts that do not match the events at the end */
  differences: number
  wrong: string[]
}

/** The project of a client, its key, and the shards behind the services. */
interface ProjectAccess {
  id: string
  key: string
  shards: readonly Shards[]
}

const QUESTIONS: object[] = [
  { kind: 'series', series: [{ event: 'a' }], breakdown: ['properties.v'], interval: 'none', limit: 50 },
  { kind: 'series', series: [{ event: ['a', 'b'], metric: 'users' }], interval: 'day' },
  { kind: 'series', series: [{ event: 'a', metric: 'sum', property: 'properties.n' }], breakdown: ['event'] },
  { kind: 'series', series: [{ event: 'b' }], where: ['gt', 'properties.v', 1], interval: 'week' },
  { kind: 'funnel', steps: [{ event: 'a' }, { event: 'b' }], window: '7d' },
  { kind: 'retention', start: { event: 'a' }, return: { event: 'b' }, interval: 'day', periods: 5 },
]

/** Makes all calls of one project, one after the other, so that it always knows what is stored. */
class Client {
  readonly #installation: Installation
  readonly #project: ProjectAccess
  readonly #verdict: FactsVerdict
  readonly #findings = new Findings()
  /** the users of single events, by id */
  readonly #events = new Map<string, string>()
  /** the users of the events of each batch, by its id */
  readonly #batches = new Map<string, string[]>()
  /** the users of replayed events */
  #replayed: string[] = []

  constructor(installation: Installation, project: ProjectAccess, verdict: FactsVerdict) {
    this.#installation = installation
    this.#project = project
    this.#verdict = verdict
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#change(Math.random())
      this.#verdict.changes++
      const count = 1 + Math.floor(Math.random() * 3)
      for (let i = 0; i < count && !signal.aborted; i++) await this.#compare()
    }
  }

  async #insist(call: Call, service = Math.random() < 0.5 ? 0 : 1) {
    const url = () => this.#installation.url(service === REFERENCE ? service : Math.random() < 0.5 ? 0 : 1)
    const { reply } = await insist(url, { ...call, apiKey: this.#project.key }, this.#findings)
    if (reply.status !== 200 && reply.status !== 404) throw new Error(`${call.path}: ${reply.status} ${reply.text}`)
    return reply
  }

  async #change(what: number): Promise<void> {
    const ids = [...this.#events.keys()]
    const id = ids[Math.floor(Math.random() * ids.length)]
    if (what < 0.3 || id === undefined) return await this.#sendOne()
    if (what < 0.55) return await this.#sendMany()
    if (what < 0.75) {
      await this.#insist({ method: 'PUT', path: `/public/events/${id}`, body: { properties: someProperties() } })
    } else if (what < 0.86) {
      await this.#insist({ method: 'DELETE', path: `/public/events/${id}` })
      this.#events.delete(id)
    } else if (what < 0.91) {
      const [batches] = [...this.#batches.keys()]
      if (batches === undefined) return
      const body = { batches: batches.split(',') }
      await this.#insist({ method: 'POST', path: '/public/events/delete', body })
      this.#batches.delete(batches)
    } else if (what < 0.95) {
      await this.#replay()
    } else {
      const user = someUser()
      await this.#insist({ method: 'POST', path: '/public/users/erase', body: { distinct_ids: [user] } })
      for (const [id, other] of this.#events) if (other === user) this.#events.delete(id)
      const isOther = (one: string) => one !== user
      for (const [ids, users] of this.#batches) this.#batches.set(ids, users.filter(isOther))
      this.#replayed = this.#replayed.filter(isOther)
    }
  }

  /** Stores events from dead letters. */
  async #replay(): Promise<void> {
    const { id: projectId, shards: all } = this.#project
    const shards = all[Math.floor(Math.random() * all.length)]
    if (!shards) return
    const events = Array.from({ length: 1 + Math.floor(Math.random() * 10) }, someEvent)
    const receivedAt = Date.now() - REPLAYED_AFTER_MS
    const position = (BigInt(receivedAt) << 16n) + BigInt(Math.floor(Math.random() * 65_536))
    const entry = { projectId, position, kind: 'events' as const, count: events.length, receivedAt }
    const body = Buffer.from(JSON.stringify({ events }))
    const journalId = 1 + Math.floor(Math.random() * 2 ** 31)
    const token = randomUUID()
    await until('the replay', async () => {
      try {
        await insertDeadLetter(shards.first, journalId, { ...entry, body }, 'a test', token)
        for (const letter of await readDeadLetters(shards, { limit: 100, at: [position], projectId })) {
          if (!(await replayDeadLetter(shards, letter, Date.now())).isStored) throw new Error('a replay was refused')
        }
        return true
      } catch (error) {
        // ClickHouse was killed, and is started again.
        if (!(error instanceof StoreUnreachableError)) throw error
        return false
      }
    })
    this.#replayed.push(...events.map(({ distinct_id }) => distinct_id))
  }

  async #sendOne(): Promise<void> {
    const event = someEvent()
    const reply = await this.#insist({
      method: 'POST',
      path: '/public/track',
      body: event,
      idempotencyKey: randomUUID(),
    })
    const id = reply.headers.get('x-event-id')
    if (!id) throw new Error(`an event without an id: ${reply.text}`)
    this.#events.set(id, event.distinct_id)
  }

  async #sendMany(): Promise<void> {
    const events = Array.from({ length: 1 + Math.floor(Math.random() * 40) }, someEvent)
    const reply = await this.#insist({
      method: 'POST',
      path: '/public/track/batch',
      body: { events },
      idempotencyKey: randomUUID(),
    })
    const ids = reply.headers.get('x-batch-ids')
    if (!ids) throw new Error(`a batch without ids: ${reply.text}`)
    this.#batches.set(
      ids,
      events.map(({ distinct_id }) => distinct_id),
    )
  }

  get #count(): number {
    const inBatches = [...this.#batches.values()].reduce((sum, users) => sum + users.length, 0)
    return this.#events.size + inBatches + this.#replayed.length
  }

  async #ask(question: object, service?: number) {
    return await until('an answer about all events', async () => {
      const { body } = await this.#insist({ method: 'POST', path: '/public/query', body: question }, service)
      return body.pending === 0 && body
    })
  }

  async #compare(): Promise<void> {
    const question = { ...RANGE, ...QUESTIONS[Math.floor(Math.random() * QUESTIONS.length)] }
    const [facts, events] = await Promise.all([this.#ask(question), this.#ask(question, REFERENCE)])
    this.#verdict.answers++
    const parts = ({ results, averages }: { results: unknown; averages?: unknown }) => ({ results, averages })
    if (!isDeepStrictEqual(parts(facts), parts(events))) {
      this.#blame(`${JSON.stringify(question)}: ${JSON.stringify(parts(facts))}, not ${JSON.stringify(parts(events))}`)
    }
    const all = { ...RANGE, kind: 'series', series: [{ event: ['a', 'b'] }], interval: 'none' }
    const { results } = await this.#ask(all)
    this.#verdict.answers++
    if (results[0].total !== this.#count) this.#blame(`${results[0].total} events, not ${this.#count}`)
  }

  #blame(what: string): void {
    if (this.#verdict.wrong.length < 20) this.#verdict.wrong.push(`${new Date().toISOString()} ${what}`)
  }
}

function someUser(): string {
  return `u${Math.floor(Math.random() * USERS)}`
}

function someProperties() {
  return { v: Math.floor(Math.random() * 5), n: Math.floor(Math.random() * 1000) }
}

function someEvent() {
  return {
    event: Math.random() < 0.5 ? 'a' : 'b',
    distinct_id: someUser(),
    timestamp: START + Math.floor(Math.random() * 39 * DAY_MS),
    properties: someProperties(),
  }
}

/** Kills and suspends processes at random until it is aborted, and ends when all of them serve again. */
async function disturb(installation: Installation, verdict: FactsVerdict, signal: AbortSignal): Promise<void> {
  const victims = installation.victims.filter(({ name }) => name !== `service ${REFERENCE}`)
  while (!signal.aborted) {
    const peace = PEACE_MS.least + Math.random() * (PEACE_MS.most - PEACE_MS.least)
    await wait(peace, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    const services = victims.filter(({ kind }) => kind === 'service')
    const some = Math.random() < 0.8 ? services : victims
    const victim = some[Math.floor(Math.random() * some.length)]
    const pid = victim?.pid()
    if (!victim || pid === undefined) continue
    verdict.kills++
    if (Math.random() < 0.85) await victim.kill()
    else {
      process.kill(pid, 'SIGSTOP')
      await wait(Math.random() * MAX_PAUSE_MS)
      process.kill(pid, 'SIGCONT')
    }
  }
}

/**
 * Sends, edits, deletes, erases and replays events, and asks about them, while services and ClickHouse are killed at random. Each
 * answer is compared with that of a service without facts, and with what the clients know.
 */
export async function troubleFacts(
  scope: Scope,
  { seconds, shards }: { seconds: number; shards: number },
): Promise<FactsVerdict> {
  const verdict: FactsVerdict = { answers: 0, changes: 0, kills: 0, differences: 0, wrong: [] }
  const env = (service: number): Record<string, string> =>
    service === REFERENCE ? { ROLE: 'api', FACTS: 'off' } : { FACTS: 'all' }
  const installation = await Installation.start(scope, { lanes: shards, shards, services: 3, env })
  const stores = installation.clickhouse.map(({ server }) => new ClickHouse({ url: server.url }))
  for (const store of stores) scope.teardown(() => store.close())
  const [first] = stores
  if (!first) throw new Error('there is no ClickHouse')
  const ids = Array.from({ length: PROJECTS }, (_, i) => `project ${i}`)
  const keys = ids.map(() => makeKey('secret'))
  await insertKeys(
    first,
    keys.map((key, i) => storedKey(key, { projectId: ids[i] ?? '', kind: 'secret' })),
    Date.now(),
  )
  const stop = new AbortController()
  const shardsOf = stores.map((store) => Shards.of(store))
  const clients = keys.map((key, i) =>
    new Client(installation, { id: ids[i] ?? '', key, shards: shardsOf }, verdict).run(stop.signal),
  )
  const trouble = disturb(installation, verdict, stop.signal)
  await Promise.race([wait(seconds * 1000), Promise.all(clients), trouble])
  stop.abort()
  await Promise.all([trouble, ...clients])
  for (const store of stores) {
    await completeFacts(store, ids, FOLLOW_LIMIT_MS)
    verdict.differences += await countDifferences(store)
  }
  if (verdict.wrong.length > 0) verdict.wrong.push(installation.log.slice(-5_000))
  return verdict
}
