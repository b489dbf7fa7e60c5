import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t from 'tap'
import { KEY_CLASSES } from '../../src/contract/key-class.js'
import { bucketAt, OLD_BUCKETS } from '../../src/journal/idempotency-memory.js'
import { idBucketAt, OLD_ID_BUCKETS } from '../../src/journal/insert-id-memory.js'
import {
  type Append,
  type Block,
  CACHE_PART,
  type Commit,
  type Entry,
  type Journal,
  MAX_LIFT_MS,
  type Outcome,
  type Progress,
  READING_MEMORY_MS,
  type Refused,
  type Share,
  type State,
  type StoredState,
  type WaitingEntry,
  type Write,
} from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { INSERT_ID_BYTES, NO_INSERT_ID } from '../../src/model/insert-id.js'
import { formatPosition, maxPosition, type Position, START } from '../../src/model/position.js'
import { findDigests, findKey, type IdempotencyKey, makeRequestIds } from '../../src/model/request-ids.js'
import { parseSender, senderName } from '../../src/model/sender.js'
import type { StateKind } from '../../src/model/state-key.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'
import { ofKey, ofKeys } from './writes.js'

// Runs random commands in random order on a journal, which must behave like a model of a few maps and lists. A failure
// prints its seed and the shortest list of commands that shows it; { seed, path } in fc.assert repeats it.

const RUNS = 4
const COMMANDS = 60
const MIB = 1024 * 1024
/** Size of a journal that a few writes fill, bytes. */
const FEW = 400
const HOUR = 3_600_000
/** How long stored states are remembered, ms. */
const STATE_MEMORY = 10 * 60_000

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** The behaviour of a journal, without durability, batches and speed. */
class Model {
  /** with the latest possible times, until they are claimed */
  entries: WaitingEntry[] = []
  /** the earliest possible times */
  acceptedSince = new Map<Position, number>()
  stored: Position
  /** nothing at or before it is assigned again */
  last: Position
  frozen: Block | null = null
  /** the block that the current process holds */
  held: Block | null = null
  /** the block that an earlier process held when it was cut off */
  stale: Block | null = null
  states = new Map<string, State & { state: string }>()
  /** stored states, which may have lost their text */
  cached = new Set<string>()
  /** whether states were kept although their block is finished, like those of a dead letter */
  hasKept = false
  /** the latest one last; a key may have several if the clock was changed */
  requests: { key: string; fingerprint: string; position: Position; bucket: number; index: number }[] = []
  /** by id: the buckets in which it arrived; there may be several if the clock was changed */
  insertIds = new Map<string, number[]>()
  /** the latest bucket so far: ids that had expired by then may be gone */
  latestIdBucket = 0
  expiries = new Map<string, { at: number; forget(): void }>()
  /** by process: the floor set by positions of other journals */
  floors = new Map<Journal, Position>()

  constructor(
    position: Position,
    private readonly maxBytes: number,
  ) {
    this.stored = position
    this.last = position
  }

  /** Applies the outcomes of the journal, and throws if there should have been others. */
  write(writes: Write[], outcomes: Outcome[], journalId: number, now: number, since: number, floor = START): void {
    const groups = new Map<StateKind, { entry: WaitingEntry & { shares: Share[] }; rows: string[] }>()
    const held = this.holdings()
    const fullness = (write: Append | Commit) => this.fullness(write, held)
    const next = (outcome: Outcome | undefined): Position => {
      if (outcome?.status !== 'done') throw new Error(`it should be done, but is ${outcome?.status}`)
      assert(outcome.position > this.last, 'positions rise')
      assert(outcome.position > limitPosition(floor, since), 'and follow those of other journals')
      this.last = outcome.position
      return outcome.position
    }
    assert.equal(outcomes.length, writes.length)
    for (const [i, write] of writes.entries()) {
      const outcome = outcomes[i]
      const request = findKey(write.ids)
      const refusal = request && this.refusal(request, journalId, now)
      if (refusal) {
        assert.deepEqual(outcome, refusal)
        continue
      }
      const full = write.type === 'append' && fullness(write)
      if (full) {
        assert.deepEqual(outcome, { status: 'full', fullness: full })
        continue
      }
      if (write.type === 'append' && write.ids.kind === 'shared') {
        if (outcome?.status === 'done') hold(held, write)
        this.writeShared(write, write.ids.keys, outcome, { journalId, now, next: () => next(outcome) })
        continue
      }
      const knownIds = this.knownIds(write, outcome, now)
      let position: Position
      if (write.type === 'append' && knownIds.length === write.count) {
        assert.deepEqual(outcome, { status: 'known', known: knownIds })
        position = START
      } else if (write.type === 'commit' && knownIds.length > 0) {
        assert.deepEqual(outcome, { status: 'known', known: knownIds })
        continue
      } else if (write.type === 'reserve') {
        assert(outcome?.status === 'done')
        position = START
      } else if (write.type === 'append') {
        position = next(outcome)
        const { projectId, count, body, kind = 'events' } = write
        hold(held, write)
        const shares = [{ holder: holderOf(write), bytes: body.length }]
        const entry = { position, kind, projectId, count: count - knownIds.length, receivedAt: now, body, shares }
        this.entries.push(knownIds.length > 0 ? { ...entry, skip: knownIds } : entry)
        assert.deepEqual(outcome, { status: 'done', position, ...(knownIds.length > 0 && { known: knownIds }) })
      } else {
        const current = this.states.get(write.stateKey)
        const age = now - write.readAt
        const isRecent = age >= 0 && age <= READING_MEMORY_MS
        if (current ? current.version !== write.expected : !isRecent) {
          assert.deepEqual(outcome, { status: 'conflict' })
          continue
        }
        const full = fullness(write)
        if (full) {
          assert.deepEqual(outcome, { status: 'full', fullness: full })
          continue
        }
        hold(held, write)
        let group = groups.get(write.kind)
        if (!group) {
          const of = { kind: write.kind, projectId: '', count: 0, receivedAt: now, body: EMPTY, shares: [] }
          group = { entry: { position: next(outcome), ...of }, rows: [] }
          groups.set(write.kind, group)
          this.entries.push(group.entry)
        }
        position = group.entry.position
        assert.deepEqual(outcome, { status: 'done', position })
        group.rows.push(write.row)
        const { shares } = group.entry
        const own = shares.find(({ holder }) => holder === holderOf(write))
        if (own) own.bytes += sizeOf(write)
        else shares.push({ holder: holderOf(write), bytes: sizeOf(write) })
        this.cached.delete(write.stateKey)
        this.states.set(write.stateKey, { version: position, state: write.state })
      }
      this.remember(write, knownIds, now)
      if (request) {
        const { key, fingerprint } = request
        this.requests.push({ key, fingerprint, position, bucket: bucketAt(now), index: 0 })
      }
    }
    for (const { entry, rows } of groups.values()) {
      entry.count = rows.length
      entry.body = Buffer.from(rows.join(','))
    }
    for (const { position } of this.entries) {
      if (!this.acceptedSince.has(position)) this.acceptedSince.set(position, since)
    }
  }

  /** An append whose events each have a key. */
  writeShared(
    append: Append,
    keys: IdempotencyKey[],
    outcome: Outcome | undefined,
    { journalId, now, next }: { journalId: number; now: number; next(): Position },
  ): void {
    const { projectId, count, body, kind = 'events' } = append
    const skip: number[] = []
    const refused: Refused[] = []
    let position: Position | null = null
    for (const [index, request] of keys.entries()) {
      const refusal = this.refusal(request, journalId, now)
      if (refusal) {
        skip.push(index)
        refused.push(refusal)
        continue
      }
      position ??= next()
      const { key, fingerprint } = request
      this.requests.push({ key, fingerprint, position, bucket: bucketAt(now), index })
    }
    if (position === null) {
      assert.deepEqual(outcome, { status: 'known', known: skip, refused })
      return
    }
    const shares = [{ holder: holderOf(append), bytes: body.length }]
    const entry = { position, kind, projectId, count: count - skip.length, receivedAt: now, body, shares }
    this.entries.push(skip.length > 0 ? { ...entry, skip } : entry)
    assert.deepEqual(outcome, { status: 'done', position, ...(skip.length > 0 && { known: skip, refused }) })
  }

  /** The bytes of each sender, and of all together. */
  holdings(): Map<string, number> {
    const held = new Map<string, number>()
    for (const { holder, bytes } of this.entries.flatMap(({ shares }) => shares)) {
      held.set(holder, (held.get(holder) ?? 0) + bytes)
    }
    return held
  }

  get isFull(): boolean {
    return sumOf(this.holdings()) > this.maxBytes
  }

  /** Whether a write fits in addition to what is held. */
  fullness(write: Append | Commit, held: Map<string, number>): 'all' | 'own' | null {
    const used = sumOf(held)
    if (used > this.maxBytes) return 'all'
    const before = held.get(holderOf(write)) ?? 0
    const after = before + sizeOf(write)
    const free = this.maxBytes - used - sizeOf(write)
    const isAllowed = before === 0 || after * 64 <= this.maxBytes || after <= free * (write.keyClass === 'page' ? 1 : 8)
    return isAllowed ? null : 'own'
  }

  /** Why a request is not executed. */
  refusal(
    { key, fingerprint }: Pick<IdempotencyKey, 'key' | 'fingerprint'>,
    journalId: number,
    now: number,
  ): Refused | null {
    const known = this.known(key, now, fingerprint)
    if (known && known.fingerprint !== fingerprint) return { status: 'mismatch' }
    if (!known || known.position === START) return null
    const { position, index } = known
    return { status: 'repeated', position, ...(index > 0 && { index, journalId }) }
  }

  /** The indexes of the known ids of a write, including those that it contains twice. */
  knownIds(write: Write, outcome: Outcome | undefined, now: number): number[] {
    const own = new Set<string>()
    const claimed = (outcome && 'known' in outcome && outcome.known) || []
    this.latestIdBucket = Math.max(this.latestIdBucket, idBucketAt(now))
    return idsOf(write).flatMap((id, i) => {
      if (id === null) return []
      const buckets = this.insertIds.get(id) ?? []
      const isKnown = own.has(id) || buckets.some((bucket) => bucket >= this.latestIdBucket - OLD_ID_BUCKETS)
      const mayBeKnown = buckets.some((bucket) => bucket >= idBucketAt(now) - OLD_ID_BUCKETS)
      own.add(id)
      return isKnown || (mayBeKnown && claimed.includes(i)) ? [i] : []
    })
  }

  /** Remembers the unknown ids; the others stay in the bucket in which they arrived. */
  remember(write: Write, known: number[], now: number): void {
    for (const [i, id] of idsOf(write).entries()) {
      if (id === null || known.includes(i)) continue
      this.insertIds.set(id, [...(this.insertIds.get(id) ?? []), idBucketAt(now)])
    }
  }

  /** Finds a request in a bucket that must still be known, or in the next one, as from a clock that was fast. */
  known(key: string, now: number, fingerprint?: string) {
    const may = this.requests.filter(
      ({ bucket }) => bucket >= bucketAt(now) - OLD_BUCKETS && bucket <= bucketAt(now) + 1,
    )
    const found = may.filter((request) => request.key === key).sort((a, b) => b.bucket - a.bucket)
    const wanted = fingerprint ?? found[0]?.fingerprint
    // A reserved request does not prevent a repetition, but one with another body does.
    return found.find((request) => request.position !== START || request.fingerprint !== wanted) ?? found[0]
  }

  claim(block: Block | null, maxBytes: number): void {
    this.held = block
    if (this.frozen) {
      assert.deepEqual(sorted(block), sorted({ ...this.frozen, isRepeated: true }))
      return
    }
    if (this.entries.length === 0) {
      assert.equal(block, null)
      return
    }
    assert(block, 'there is something to claim')
    assert(block.entries.length > 0)
    block.entries.forEach(({ position, receivedAt }, i) => {
      const entry = this.entries[i]
      if (!entry) return
      const since = this.acceptedSince.get(position) ?? 0
      assert(receivedAt >= since && receivedAt <= entry.receivedAt, 'the time is that of the acceptance')
      entry.receivedAt = receivedAt
    })
    const expected = { ...block, entries: this.entries.slice(0, block.entries.length) }
    assert.deepEqual(sorted(block), sorted(expected), 'the oldest entries, as they were')
    assert.deepEqual([block.first, block.last], [block.entries[0]?.position, block.entries.at(-1)?.position])
    assert.equal(block.isRepeated, false)
    assert(bytesOf(block.entries.slice(0, -1)) < maxBytes, 'no larger than it has to be')
    this.frozen = block
  }

  narrow(last: Position): Block {
    if (!this.frozen) throw new Error('nothing is frozen')
    this.frozen = { ...this.frozen, last, entries: this.frozen.entries.filter(({ position }) => position <= last) }
    this.held = this.frozen
    return this.frozen
  }

  settle(states: StoredState[], now: number): void {
    if (!this.frozen) throw new Error('nothing is frozen')
    const { last, entries } = this.frozen
    this.entries.splice(0, entries.length)
    this.stored = last
    this.frozen = null
    this.held = null
    if (states.length === 0 && entries.some(({ kind }) => kind !== 'events')) this.hasKept = true
    for (const { stateKey, version } of states) {
      this.cached.add(stateKey)
      this.#expire(`state ${stateKey}`, now + STATE_MEMORY, () => {
        if (this.states.get(stateKey)?.version !== version) return
        this.states.delete(stateKey)
        this.cached.delete(stateKey)
      })
    }
    this.requests = this.requests.filter(({ bucket }) => bucket >= bucketAt(now) - OLD_BUCKETS)
    for (const [name, { at, forget }] of this.expiries) {
      if (at >= now) continue
      forget()
      this.expiries.delete(name)
    }
  }

  level(position: Position, progress: Progress, now: number, since: number): void {
    const { appended, stored } = progress
    assert(
      appended >= maxPosition(this.entries.at(-1)?.position ?? START, limitPosition(position, since)),
      'it is lifted',
    )
    const most = maxPosition(this.last + LIFT_STEP, limitPosition(position, now))
    assert(appended <= most, 'and no further than its clock allows')
    assert.equal(stored, this.entries[0] ? this.entries[0].position - 1n : appended, 'it is done up to what waits')
    this.last = maxPosition(this.last, appended)
  }

  outrank(position: Position): void {
    this.last = maxPosition(this.last, position)
    if (this.entries.length > 0) return
    this.stored = this.last
    this.states.clear()
    this.cached.clear()
  }

  #expire(name: string, at: number, forget: () => void): void {
    this.expiries.set(`${name} ${at}`, { at, forget })
  }
}

/** The journal under test. */
interface Real {
  journal: Journal
  /** a second process that also writes to it, if it can have one */
  other: Journal
  now(): number
  /** sets the journal's clock forward, if possible */
  turnClock(ms: number): void
  /** ends the process without closing, and opens the journal in another one */
  crash(): Promise<void>
  close(): Promise<void>
  readonly maxBytes: number
  /** bytes that the journal stores for the version of a state */
  versionBytes(version: Position): number
  /** bytes that it stores for a state that has lost its text */
  cutBytes(version: Position): number
  /** names of the bodies that are kept next to the entries */
  bodies(): Promise<string[]>
}

type Command = fc.AsyncCommand<Model, Real>

/** A command that can always run. */
function command(
  name: string,
  run: (model: Model, real: Real) => Promise<void>,
  check = (_: Readonly<Model>) => true,
): Command {
  return { check, run, toString: () => name }
}

const keyClass = fc.constantFrom(...KEY_CLASSES)
const request = fc.record({
  key: fc.constantFrom('a', 'b', 'c').map(digest),
  fingerprint: fc.constantFrom('x', 'y').map(digest),
})
const idempotencyKey = fc.option(request)
const insertId = fc
  .constantFrom('i', 'j', 'k', 'l')
  .map((id) => Buffer.from(digest(id), 'hex').subarray(0, INSERT_ID_BYTES))
const append = fc
  .record({
    type: fc.constant('append' as const),
    projectId: fc.constantFrom('p', 'é'),
    keyClass,
    ids: fc.array(fc.option(insertId), { minLength: 1, maxLength: 3 }),
    kind: fc.constantFrom<'events' | 'rejected'>('events', 'events', 'rejected'),
    body: fc.uint8Array({ minLength: 1, maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    idempotencyKey,
  })
  .map(({ ids, idempotencyKey, ...rest }) => {
    const hasIds = ids.some((id) => id !== null)
    const digests = hasIds ? Buffer.concat(ids.map((id) => id ?? NO_INSERT_ID)) : null
    return { ...rest, count: ids.length, ids: makeRequestIds(idempotencyKey, digests) }
  })
const appendShared = fc
  .record({
    type: fc.constant('append' as const),
    projectId: fc.constant('p'),
    keyClass,
    keys: fc.array(request, { minLength: 1, maxLength: 4 }),
    body: fc.uint8Array({ minLength: 1, maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
  })
  .map(({ keys, ...rest }) => ({ ...rest, count: keys.length, ids: ofKeys(...keys) }))
const commit = fc
  .record({
    type: fc.constant('commit' as const),
    projectId: fc.constantFrom('p', 'é'),
    keyClass,
    kind: fc.constantFrom<StateKind>('profiles', 'sessions'),
    stateKey: fc.constantFrom('ada', 'bob', 'eve').map(digest),
    isCurrent: fc.boolean(),
    /** ms between the read and the write */
    readAgo: fc.constantFrom(0, READING_MEMORY_MS + 1, -60_000),
    state: fc.constantFrom('', 'one', '{"two":"é\\n"}'),
    row: fc.constantFrom('{"r":1}', '{"row":"two"}'),
    idempotencyKey,
    changes: fc.uniqueArray(insertId, { maxLength: 2, selector: String }),
  })
  .map(({ idempotencyKey, changes, ...rest }) => {
    const digests = changes.length > 0 ? Buffer.concat(changes) : null
    return { ...rest, ids: makeRequestIds(idempotencyKey, digests) }
  })

const reserve = fc.record({
  type: fc.constant('reserve' as const),
  projectId: fc.constant('p'),
  keyClass,
  ids: request.map(ofKey),
})

const write = fc
  .tuple(fc.array(fc.oneof(append, appendShared, commit, reserve), { minLength: 1, maxLength: 5 }), fc.boolean())
  .map(([wanted, isOther]) =>
    command(`write${isOther ? ' elsewhere' : ''} ${fc.stringify(wanted)}`, async (model, real) => {
      const writes = wanted.map((write): Write => {
        if (write.type !== 'commit') return write
        const { isCurrent, readAgo, ...commit } = write
        const expected = isCurrent ? (model.states.get(commit.stateKey)?.version ?? START) : START + 1n
        return { ...commit, expected, readAt: real.now() - readAgo }
      })
      const given = writes.map((write) => ('body' in write ? { ...write, body: Buffer.from(write.body) } : write))
      const since = real.now()
      const journal = isOther ? real.other : real.journal
      if (model.isFull) {
        await assert.rejects(journal.write(given), { code: 'overloaded', limit: 'journal' })
        return
      }
      const outcomes = await journal.write(given)
      model.write(writes, outcomes, journal.id, real.now(), since, model.floors.get(journal))
    }),
  )

const claim = fc
  .integer({ min: 1, max: 200 })
  .map((maxBytes) =>
    command(`claim ${maxBytes}`, async (model, real) => model.claim(await real.journal.claim(maxBytes), maxBytes)),
  )

const narrow = fc.nat().map((n) =>
  command(
    `narrow ${n}`,
    async (model, real) => {
      const { held } = model
      if (!held) throw new Error('nothing is held')
      const last = held.entries[n % held.entries.length]?.position ?? START
      await real.journal.shrink(held, last)
      model.narrow(last)
    },
    ({ held }) => held !== null,
  ),
)

const settle = fc.boolean().map((withStates) =>
  command(
    `settle${withStates ? '' : ' without states'}`,
    async (model, real) => {
      const { held } = model
      if (!held) throw new Error('nothing is held')
      const states = withStates ? statesIn(model, held) : []
      await real.journal.acknowledge(held, states)
      model.settle(states, real.now())
      await compareCache(model, real)
    },
    ({ held }) => held !== null,
  ),
)

/** A process that was cut off or paused believes that it still holds its block. */
const settleStale = fc.constant(
  command(
    'settle by a process that was cut off',
    async (model, real) => {
      const { stale, frozen } = model
      if (!stale) throw new Error('nothing is held')
      const isCurrent = frozen?.first === stale.first && frozen.last === stale.last
      if (isCurrent) {
        await real.other.acknowledge(stale, [])
        model.settle([], real.now())
      } else {
        await assert.rejects(real.other.acknowledge(stale, []), { code: 'unavailable' })
        await assert.rejects(real.other.shrink(stale, stale.first), { code: 'unavailable' })
      }
      model.stale = null
    },
    ({ stale }) => stale !== null,
  ),
)

const crash = fc.constant(
  command('crash', async (model, real) => {
    const isAlone = real.other === real.journal
    await real.crash()
    model.stale = isAlone ? null : model.held
    model.held = null
  }),
)

const outrank = fc.integer({ min: -5, max: 100_000 }).map((ahead) =>
  command(`outrank ${ahead}`, async (model, real) => {
    const position = model.last + BigInt(ahead)
    await real.journal.advancePast(position)
    model.outrank(position)
  }),
)

/** Before the last position, at it, and further ahead than a wrong clock may lift a journal. */
const ahead = fc.constantFrom(-5n, 0n, 100_000n, BigInt(2 * MAX_LIFT_MS) << 16n)

const level = fc.tuple(ahead, fc.boolean()).map(([ahead, isOther]) =>
  command(`level ${ahead}`, async (model, real) => {
    const position = model.last + ahead
    const since = real.now()
    const progress = await (isOther ? real.other : real.journal).level(position, 'p')
    model.level(position, progress, real.now(), since)
    const events = model.entries.filter(({ kind, projectId }) => kind === 'events' && projectId === 'p')
    const pending = events.reduce((sum, { count }) => sum + count, 0)
    assert.equal(progress.pending, pending)
  }),
)

const raiseFloor = fc.tuple(ahead, fc.boolean()).map(([ahead, isOther]) =>
  command(`raise the floor ${ahead}`, async (model, real) => {
    const position = model.last + ahead
    const journal = isOther ? real.other : real.journal
    journal.raiseFloor(position)
    model.floors.set(journal, maxPosition(position, model.floors.get(journal) ?? START))
  }),
)

const turnClock = fc.constantFrom(-HOUR, STATE_MEMORY + 1, 6 * HOUR, 24 * HOUR + 1, 84 * HOUR, -84 * HOUR).map((ms) =>
  command(`turn the clock by ${ms} ms`, async (model, real) => {
    real.turnClock(ms)
    model.latestIdBucket = Math.max(model.latestIdBucket, idBucketAt(real.now()))
  }),
)

const look = fc.constant(command('look', async (model, real) => compare(model, real)))

async function compare(model: Model, real: Real): Promise<void> {
  const { journal, other, now, maxBytes } = real
  await compareCache(model, real)
  for (const one of new Set([journal, other])) {
    assert.equal(one.id, journal.id)
    for (const projectId of ['p', 'é', 'nobody']) {
      const progress = await one.progress(projectId)
      const events = model.entries.filter((entry) => entry.kind === 'events' && entry.projectId === projectId)
      const beforeNext = model.entries[0] ? model.entries[0].position - 1n : model.last + LIFT_STEP
      assert(progress.stored >= model.stored && progress.stored <= beforeNext, 'stored states are known')
      assert.equal(
        progress.pending,
        events.reduce((sum, { count }) => sum + count, 0),
      )
      const isHolding = [...model.holdings().keys()].some((holder) => parseSender(holder).projectId === projectId)
      assert.equal(progress.isStored, !isHolding)
      assert(progress.appended >= (model.entries.at(-1)?.position ?? START), 'a reader waits for all there is')
      assert(progress.appended <= (model.entries.length > 0 ? model.last : progress.stored), 'and for no more')
    }
    const { entries, bytes, stateBytes, large } = await one.depth()
    assert.deepEqual({ entries, bytes }, { entries: model.entries.length, bytes: bytesOf(model.entries) })
    const held = model.holdings()
    const commas = model.entries.reduce((sum, { projectId, count }) => sum + (projectId === '' ? count - 1 : 0), 0)
    assert.equal(stateBytes, sumOf(held) - bytes + commas)
    const named = [...held].filter(([, bytes]) => bytes > maxBytes / 16)
    assert.deepEqual(new Map(large.map(({ holder, bytes }) => [holder, bytes])), new Map(named))
    for (const [id, buckets] of model.insertIds) {
      const isKnown = buckets.some((bucket) => bucket >= model.latestIdBucket - OLD_ID_BUCKETS)
      const [digits = '', name = ''] = id.split(' ')
      const ids = { sender: parseSender(name), digests: Buffer.from(digits, 'hex') }
      if (isKnown) assert.deepEqual(await one.ids.find(ids), [0])
    }
    const unknown = Buffer.alloc(INSERT_ID_BYTES, 1)
    assert.deepEqual(await one.ids.find({ sender: { projectId: 'p', keyClass: 'page' }, digests: unknown }), [])
    const names = ['ada', 'bob', 'eve', 'nobody'].map(digest)
    const { states } = await one.readStates(names, 1000)
    for (const [i, name] of names.entries()) {
      const state = model.states.get(name) ?? null
      const isCut = states[i]?.state === null && model.cached.has(name)
      assert.deepEqual(states[i], state && isCut ? { ...state, state: null } : state)
    }
    for (const key of ['a', 'b', 'c', 'd'].map(digest)) {
      for (const fingerprint of ['x', 'y'].map(digest)) {
        const outcome = model.refusal({ key, fingerprint }, one.id, now())
        assert.deepEqual(await one.findRequest({ key, fingerprint }), outcome)
      }
    }
  }
}

/** Checks that the cache has the stored states that fit. */
async function compareCache(model: Model, { journal, maxBytes, versionBytes, cutBytes }: Real): Promise<void> {
  // The embedded journal treats a replaced state of a dead letter like one of the cache.
  if (model.hasKept) return
  const names = [...model.cached]
  const { states } = await journal.readStates(names, MIB)
  let [size, least] = [0, 0]
  for (const [i, name] of names.entries()) {
    const { version, state } = model.states.get(name) ?? { version: START, state: '' }
    const whole = versionBytes(version) + Buffer.byteLength(state)
    const cut = Math.min(whole, cutBytes(version))
    size += states[i]?.state === null ? cut : whole
    least += cut
  }
  assert.equal((await journal.depth()).cachedBytes, size)
  assert(size <= Math.max(least, maxBytes * CACHE_PART), `the cache has ${size} bytes`)
}

/** Checks that the remaining entries come out once and in order, and that nothing is left then. */
async function drain(model: Model, real: Real): Promise<void> {
  while (model.entries.length > 0) {
    model.claim(await real.journal.claim(100), 100)
    if (!model.held) throw new Error('there is something to claim')
    const states = statesIn(model, model.held)
    await real.journal.acknowledge(model.held, states)
    model.settle(states, real.now())
  }
  model.claim(await real.journal.claim(100), 100)
  await compare(model, real)
}

/** After a restart, the embedded journal may continue this far ahead of a lift. */
const LIFT_STEP = 1000n << 16n

function limitPosition(position: Position, nowMs: number): Position {
  const most = BigInt(nowMs + MAX_LIFT_MS) << 16n
  return position < most ? position : most
}

const EMPTY = Buffer.alloc(0)

/** The ids of the events or changes of a write, in hexadecimal digits, with their sender; null for one without. */
function idsOf(write: Write): (string | null)[] {
  if (write.type === 'reserve') return []
  const ids = findDigests(write.ids) ?? EMPTY
  return Array.from({ length: ids.length / INSERT_ID_BYTES }, (_, i) => {
    const id = ids.subarray(i * INSERT_ID_BYTES, (i + 1) * INSERT_ID_BYTES)
    return id.equals(NO_INSERT_ID) ? null : `${id.toString('hex')} ${senderName(write)}`
  })
}

function holderOf(write: Append | Commit): string {
  return senderName(write)
}

function sizeOf(write: Append | Commit): number {
  return write.type === 'append' ? write.body.length : Buffer.byteLength(write.row) + Buffer.byteLength(write.state)
}

function hold(held: Map<string, number>, write: Append | Commit): void {
  held.set(holderOf(write), (held.get(holderOf(write)) ?? 0) + sizeOf(write))
}

function sumOf(held: Map<string, number>): number {
  return [...held.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** A block with sorted shares. */
function sorted(block: Block | null): Block | null {
  const byHolder = (a: Share, b: Share) => (a.holder < b.holder ? -1 : 1)
  return (
    block && { ...block, entries: block.entries.map((one) => ({ ...one, shares: [...one.shares].sort(byHolder) })) }
  )
}

function bytesOf(entries: Entry[]): number {
  return entries.reduce((sum, { body }) => sum + body.length, 0)
}

/** The states whose current version is in the block. */
function statesIn({ states }: Model, { first, last }: Block): StoredState[] {
  return [...states]
    .filter(([, { version }]) => version >= first && version <= last)
    .map(([stateKey, { version }]) => ({ stateKey, version }))
}

type Start = () => Promise<Real>

/** The lender of a body reuses its memory as soon as the journal releases it. */
function reuseBodies(journal: Journal): Journal {
  const unused = new WeakSet<Buffer>()
  journal.listen({
    onReleased: (body) => {
      if (unused.has(body)) usedTwice.push(body)
      unused.add(body)
      body.fill('#')
    },
  })
  return journal
}

const usedTwice: Buffer[] = []

const folder = await temporaryFolder(t)
/** Sizes in bytes: of the journal, of the files of the log, and of the entries in memory. */
interface LmdbSizes {
  maxBytes?: number
  segmentBytes?: number
  memoryBytes?: number
}
const startLmdb = async ({ maxBytes = MIB, ...sizes }: LmdbSizes = {}): Promise<Real> => {
  const path = `${folder}/${randomName('journal')}`
  let now = Date.now()
  const open = async () => reuseBodies(await openLmdbJournal({ path, maxBytes, now: () => now, ...sizes }))
  let journal = await open()
  return {
    get journal() {
      return journal
    },
    get other() {
      return journal
    },
    now: () => now,
    turnClock: (ms) => {
      now += ms
    },
    crash: async () => {
      await journal.close()
      journal = await open()
    },
    close: () => journal.close(),
    maxBytes,
    versionBytes: () => 8,
    cutBytes: () => 9,
    bodies: async () => [],
  }
}

const redis = await startRedis(t)
const admin = new Redis(redis.url)
t.teardown(() => admin.disconnect())
const startRedisJournal = async (maxBodyInEntry: number, maxBytes = MIB): Promise<Real> => {
  const prefix = `{${randomName('journal')}}`
  const options = { url: redis.url, maxBytes, maxBodyInEntry, prefix, log: silent }
  const open = async () => reuseBodies(await openRedisJournal(options))
  let journal = await open()
  let other = await open()
  return {
    get journal() {
      return journal
    },
    get other() {
      return other
    },
    now: Date.now,
    turnClock: () => undefined,
    crash: async () => {
      await other.close()
      // It continues like one that was only paused, and does not know of the next one. Its lease would expire by then.
      other = journal
      journal = await open()
      await admin.del(`${prefix}:writer`)
    },
    close: async () => {
      await Promise.all([journal.close(), other.close()])
    },
    maxBytes,
    versionBytes: (version) => `${formatPosition(version)} `.length,
    cutBytes: (version) => formatPosition(version).length,
    bodies: () => admin.keys(`${prefix}:body:*`),
  }
}

const STARTS: Record<string, Start> = {
  lmdb: () => startLmdb(),
  'lmdb with small files': () => startLmdb({ segmentBytes: 300, memoryBytes: 60 }),
  'lmdb that fills': () => startLmdb({ maxBytes: FEW }),
  redis: () => startRedisJournal(30),
  'redis that fills': () => startRedisJournal(30, FEW),
}

for (const [name, start] of Object.entries(STARTS)) {
  t.test(`${name}: behaves as its model does`, async (t) => {
    const commands = [
      write,
      write,
      write,
      claim,
      claim,
      narrow,
      settle,
      settle,
      settleStale,
      crash,
      outrank,
      look,
      level,
      raiseFloor,
    ]
    const arbitraries: fc.Arbitrary<Command>[] = name.startsWith('redis') ? commands : [...commands, turnClock]
    const property = fc.asyncProperty(
      fc.commands(arbitraries, { maxCommands: COMMANDS, size: 'max' }),
      async (commands) => {
        const real = await start()
        try {
          const model = new Model((await real.journal.progress()).stored, real.maxBytes)
          await fc.asyncModelRun(() => ({ model, real }), commands)
          await drain(model, real)
          assert.deepEqual(await real.bodies(), [], 'no body is left')
          assert.deepEqual(usedTwice.splice(0), [], 'a body is let go of once')
        } finally {
          await real.close()
        }
      },
    )
    await fc.assert(property, { numRuns: RUNS, endOnFailure: false })
    t.pass(`${RUNS} runs`)
  })
}
