import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Test } from 'tap'
import { ClickHouse } from '../src/clickhouse/client.js'
import { migrate } from '../src/clickhouse/migrate.js'
import { Shards } from '../src/clickhouse/shards.js'
import { type Config, loadConfig } from '../src/config.js'
import type { Commit, Journal, Write } from '../src/journal/journal.js'
import type { Relocation } from '../src/journal/relocation.js'
import { checkLayout } from '../src/lanes/layout.js'
import { openJournal, openRelocation } from '../src/lanes/open-journal.js'
import { type Relayout, relayout } from '../src/lanes/relayout.js'
import { chooseLane } from '../src/model/choose-lane.js'
import { formatEventId } from '../src/model/event-id.js'
import { layoutNumber } from '../src/model/layout.js'
import { maxPosition, nextPosition, type Position, START } from '../src/model/position.js'
import { type IdempotencyKey, makeRequestIds } from '../src/model/request-ids.js'
import { type StateKind, toStateKey } from '../src/model/state-key.js'
import { readJournals } from '../src/store/journals.js'
import { randomName, silent, startRedis, temporaryFolder } from './helper.js'

const log = { ...silent, debug() {}, fatal() {} }
const PROJECT = 'p'
const AHEAD_MS = 40_000
const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** Ends a change once before and once after each of its durable steps, as if the process were killed there. */
export class Kills {
  /** all places where it ended */
  readonly places = new Set<string>()

  here(place: string): void {
    if (this.places.has(place)) return
    this.places.add(place)
    throw new Killed(place)
  }

  /** @returns a relocation whose calls are executed, and end the change the first time */
  behindCalls(lane: number, relocation: Relocation): Relocation {
    const counts = new Map<string, number>()
    return new Proxy(relocation, {
      get: (target, name: keyof Relocation) => {
        const call = target[name] as ((...args: unknown[]) => unknown) | undefined
        if (typeof call !== 'function') return call
        if (['look', 'requests', 'states', 'insertIds', 'close'].includes(name)) return call.bind(target)
        return async (...args: unknown[]) => {
          const result = await call.apply(target, args)
          counts.set(name, (counts.get(name) ?? 0) + 1)
          this.here(`${name} ${counts.get(name)} of lane ${lane}`)
          return result
        }
      },
    })
  }
}

class Killed extends Error {}

/** A keyed request that the store has accepted. */
interface Accepted {
  request: IdempotencyKey
  position: Position
  journalId: number
  /** the state whose lane has it; null for events, which are in the lane of the key */
  stateKey: string | null
}

/** A store whose layout changes, and what was written to it. */
export class ChangingStore {
  readonly shards: ClickHouse[]
  readonly config: Config
  lanes: number
  shardCount: number
  version = 1
  readonly events = new Set<string>()
  readonly accepted: Accepted[] = []
  /** reserved, and never executed */
  readonly reserved: { request: IdempotencyKey; stateKey: string }[] = []
  /** dead-lettered states by their keys */
  readonly kept = new Map<string, string>()
  last: Position = START
  /** the last position of the previous layout */
  #floor: Position = START
  #count = 0

  constructor(config: Config, shards: ClickHouse[], lanes: number, shardCount: number) {
    this.config = config
    this.shards = shards
    this.lanes = lanes
    this.shardCount = shardCount
  }

  shardsOf(count: number): Shards {
    return new Shards(
      this.shards.slice(0, count).map((clickhouse, number) => ({ number, name: `shard-${number}`, clickhouse })),
    )
  }

  async open(lane: number): Promise<Journal> {
    const layout = layoutNumber({ version: this.version, lanes: this.lanes, shards: this.shardCount })
    return await openJournal(this.config, log, this.shardsOf(this.shardCount), { lane, layout })
  }

  async use<T>(lane: number, run: (journal: Journal) => Promise<T>): Promise<T> {
    const journal = await this.open(lane)
    try {
      return await run(journal)
    } finally {
      await journal.close()
    }
  }

  key(name: string): IdempotencyKey {
    return { key: digest(name), fingerprint: digest(`body of ${name}`) }
  }

  /** Leaves unstored entries of every kind in each lane. */
  async fill(t: Test): Promise<void> {
    // The clock of the first lane is fast, so that all others have to continue after it.
    const ahead = nextPosition(START, Date.now() + AHEAD_MS)
    if (this.#count === 0) await this.use(0, (journal) => journal.advancePast(ahead))
    for (let lane = 0; lane < this.lanes; lane++) {
      await this.use(lane, async (journal) => {
        for (let i = 0; i < 12; i++) await this.#writeIn(t, lane, journal)
      })
    }
  }

  async #writeIn(t: Test, lane: number, journal: Journal): Promise<void> {
    const name = `n${++this.#count}`
    this.events.add(name)
    const request = this.key(name)
    const stateKey = toStateKey('profiles', PROJECT, name)
    const isBad = this.#count % 3 === 0
    if (chooseLane(request.key, this.lanes) === lane) {
      const [done] = await journal.write([this.append(name, request)])
      this.#note(t, done, journal, request, null)
    } else {
      const [done] = await journal.write([this.append(name)])
      t.equal(done?.status, 'done')
    }
    if (chooseLane(stateKey, this.lanes) !== lane) return
    const change = this.key(`change of ${name}`)
    const { readAt } = await journal.readStates([stateKey], 1000)
    const [done] = await journal.write([this.commit(name, readAt, change, isBad)])
    this.#note(t, done, journal, change, stateKey)
    if (isBad) this.kept.set(stateKey, stateOf(name))
    // Its process died before it committed the change, in another lane or in this one.
    const dropped = this.key(`dropped change of ${name}`)
    await this.#reserve(lane, journal, dropped)
    this.reserved.push({ request: dropped, stateKey: toStateKey('profiles', PROJECT, `dropped ${name}`) })
  }

  async #reserve(lane: number, journal: Journal, key: IdempotencyKey): Promise<void> {
    const own = chooseLane(key.key, this.lanes)
    const write: Write = { type: 'reserve', projectId: PROJECT, keyClass: 'secret', ids: { kind: 'request', key } }
    if (own === lane) await journal.write([write])
    else await this.use(own, (other) => other.write([write]))
  }

  append(name: string, key: IdempotencyKey | null = null): Write {
    const body = Buffer.from(
      JSON.stringify({ events: [{ event: name, distinct_id: 'u', timestamp: 1, properties: {} }] }),
    )
    return {
      type: 'append',
      keyClass: 'secret',
      projectId: PROJECT,
      count: 1,
      body,
      ids: makeRequestIds(key, null),
    }
  }

  commit(name: string, readAt: number, key: IdempotencyKey, isBad = false): Commit {
    return {
      type: 'commit',
      keyClass: 'secret',
      projectId: 'p',
      kind: 'profiles' satisfies StateKind,
      stateKey: toStateKey('profiles', PROJECT, name),
      expected: START,
      readAt,
      state: stateOf(name),
      // ClickHouse cannot parse this time, so only the journal has the state.
      row: JSON.stringify({
        project_id: PROJECT,
        distinct_id: name,
        properties: '{}',
        created_at: isBad ? 'never' : 1,
        updated_at: 1,
        is_deleted: 0,
      }),
      ids: { kind: 'request', key },
    }
  }

  #note(
    t: Test,
    outcome: Awaited<ReturnType<Journal['write']>>[number] | undefined,
    journal: Journal,
    request: IdempotencyKey,
    stateKey: string | null,
  ): void {
    if (outcome?.status !== 'done') throw new Error(`a write is ${outcome?.status}`)
    if (outcome.position <= this.#floor) t.fail('a position lies before one of the layout before')
    this.last = maxPosition(this.last, outcome.position)
    this.accepted.push({ request, position: outcome.position, journalId: journal.id, stateKey })
  }

  parts(shardCount: number, kills: Kills): Relayout {
    const { config } = this
    const shards = this.shardsOf(shardCount)
    return {
      shards,
      openRelocation: async (lane) => kills.behindCalls(lane, await openRelocation(config, lane, log)),
      openJournal: (lane, layout) => openJournal(config, log, shards, { lane, layout }),
      nameLane: (lane) => `lane ${lane}`,
      report: (step) => kills.here(step.replace(/\d+ entries, \d+ bytes/, 'some')),
      log,
      signal: new AbortController().signal,
    }
  }

  /** Changes the layout, and is killed at every step. @returns where */
  async change(lanes: number, shardCount: number, kills = new Kills()): Promise<Set<string>> {
    const parts = this.parts(shardCount, kills)
    for (;;) {
      try {
        const { version } = await relayout(lanes, parts)
        Object.assign(this, { lanes, shardCount, version })
        this.#floor = this.last
        return kills.places
      } catch (error) {
        if (!(error instanceof Killed)) throw error
      }
    }
  }

  async check(t: Test): Promise<void> {
    const shards = this.shardsOf(this.shardCount)
    const rows = (
      await shards.each(({ clickhouse }) => clickhouse.rows<{ event: string }>('SELECT event FROM events'))
    ).flat()
    t.strictSame(rows.map(({ event }) => event).sort(), [...this.events].sort(), 'each event is stored once')
    const journals: Journal[] = []
    for (let lane = 0; lane < this.lanes; lane++) journals.push(await this.open(lane))
    const at = (key: string) => journals[chooseLane(key, this.lanes)] as Journal
    try {
      for (const { request, position, journalId, stateKey } of this.accepted) {
        const journal = at(stateKey ?? request.key)
        const found = await journal.findRequest(request)
        if (found?.status !== 'repeated') t.fail(`${request.key} is ${found?.status}`)
        else if (stateKey === null) {
          const id = { index: 0, position: found.position, journalId: found.journalId ?? journal.id }
          if (formatEventId(id) !== formatEventId({ index: 0, position, journalId })) t.fail('another event id')
        }
        const other = await journal.findRequest({ ...request, fingerprint: digest('another') })
        if (other?.status !== 'mismatch') t.fail(`another body is ${other?.status}`)
      }
      for (const [stateKey, state] of this.kept) {
        for (const [lane, journal] of journals.entries()) {
          const found = (await journal.readStates([stateKey], 1000)).states[0]
          const isHere = lane === chooseLane(stateKey, this.lanes)
          if (found?.state !== (isHere ? state : undefined)) t.fail(`lane ${lane} has ${found?.state} of ${state}`)
        }
      }
      const known = await readJournals(shards.first)
      t.strictSame(
        journals.map((_, number) => known.find(({ lane }) => lane === number)),
        journals.map(({ id }, lane) => ({ id, lane, shard: lane % this.shardCount })),
      )
    } finally {
      await Promise.all(journals.map((journal) => journal.close()))
    }
  }

  /** A change whose process died between reserving its key and committing it is executed when it is repeated, once. */
  async repeatReserved(t: Test): Promise<void> {
    for (const { request, stateKey } of this.reserved.splice(0)) {
      await this.use(chooseLane(stateKey, this.lanes), async (journal) => {
        const { readAt } = await journal.readStates([stateKey], 1000)
        const commit = { ...this.commit('again', readAt, request), stateKey }
        const outcomes = [...(await journal.write([commit])), ...(await journal.write([commit]))]
        t.match(outcomes, [{ status: 'done' }, { status: 'repeated' }])
        this.#note(t, outcomes[0], journal, request, stateKey)
      })
    }
  }
}

const stateOf = (name: string) => JSON.stringify({ properties: {}, createdAt: 1, updatedAt: 1, name })

/** A new store with this number of lanes on one shard. @param engine has a database for each of its two shards */
export async function startStore(
  t: Test,
  kind: 'redis' | 'lmdb',
  engine: { url: string },
  lanes = 1,
): Promise<ChangingStore> {
  const shards = [1, 2].map(() => new ClickHouse({ url: engine.url.replace(/analytics$/, randomName('store')) }))
  t.teardown(() => Promise.all(shards.map((shard) => shard.close())))
  await Promise.all(shards.map((shard) => migrate(shard)))
  const folder = await temporaryFolder(t)
  const redis = kind === 'redis' ? await Promise.all([1, 2, 3].map(() => startRedis(t))) : []
  const config = loadConfig({
    ...(redis.length > 0 && { REDIS_URL: redis.map(({ url }) => url).join(',') }),
    DATA_DIR: join(folder, 'data'),
    LANES: '3',
  })
  const store = new ChangingStore(config, shards, lanes, 1)
  await checkLayout(store.shardsOf(1), { version: 1, lanes, shards: 1 })
  return store
}
