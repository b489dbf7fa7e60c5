import { createHash, hash } from 'node:crypto'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Append, Commit, Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openLmdbRelocation } from '../../src/journal/lmdb/relocation.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { openRedisRelocation } from '../../src/journal/redis/relocation.js'
import type { KeptState, Relocation, RememberedRequest } from '../../src/journal/relocation.js'
import { INSERT_ID_BYTES, selectInsertIds } from '../../src/model/insert-id.js'
import { maxPosition, type Position, START } from '../../src/model/position.js'
import { type IdempotencyKey, makeRequestIds, NO_IDS } from '../../src/model/request-ids.js'
import { senderName } from '../../src/model/sender.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'
import { ofEvents, ofKey, ofKeys, SENDER, sent } from './writes.js'

// A change of the layout takes a journal from the processes of one version, moves what it remembers, and gives it to
// those of the next version; a command that was killed starts again with the first step.

const redis = await startRedis(t)
const admin = new Redis(redis.url)
t.teardown(() => admin.disconnect())

/** Where journals are. */
interface Place {
  open(name: string, layout?: number): Promise<Journal>
  relocation(name: string): Promise<Relocation>
}

const KINDS: Record<string, (t: Test) => Promise<Place>> = {
  lmdb: async (t) => {
    const folder = await temporaryFolder(t)
    return {
      open: (name, layout = 1) => openLmdbJournal({ path: `${folder}/${name}`, maxBytes: 1e9, layout }),
      relocation: async (name) => openLmdbRelocation({ path: `${folder}/${name}` }),
    }
  },
  redis: async () => {
    const store = randomName('store')
    const of = (name: string) => ({ url: redis.url, prefix: `{${store}:${name}}`, log: silent })
    return {
      open: (name, layout = 1) => openRedisJournal({ ...of(name), maxBytes: 1e9, layout }),
      relocation: (name) => openRedisRelocation(of(name)),
    }
  },
}

const insertIds = Buffer.concat(Array.from({ length: 200 }, (_, i) => hash('sha256', `${i}`, 'buffer').subarray(0, 16)))
const digest = (text: string) => createHash('sha256').update(text).digest('hex')
const keyOf = (key: string, body = 'body'): IdempotencyKey => {
  return { key: digest(key), fingerprint: digest(body) }
}

function append(text: string, key: IdempotencyKey | null = null): Append {
  const body = Buffer.from(text)
  return {
    type: 'append',
    keyClass: 'secret',
    projectId: 'p',
    count: 1,
    body,
    ids: makeRequestIds(key, null),
  }
}

function commit(name: string, state: string, expected = START): Commit {
  const stateKey = digest(name)
  return {
    type: 'commit',
    keyClass: 'secret',
    projectId: 'p',
    kind: 'profiles',
    stateKey,
    expected,
    readAt: Date.now(),
    state,
    row: '{}',
    ids: NO_IDS,
  }
}

async function write(journal: Journal, ...writes: Parameters<Journal['write']>[0]): Promise<Position[]> {
  return (await journal.write(writes)).map((outcome) => {
    if (outcome.status !== 'done') throw new Error(`it is ${outcome.status}`)
    return outcome.position
  })
}

async function all<T>(pieces: AsyncIterable<T[]>): Promise<T[]> {
  const found: T[] = []
  for await (const piece of pieces) found.push(...piece)
  return found
}

/** Stores everything, but only the states of these names. */
async function drain(journal: Journal, names: string[]): Promise<void> {
  for (let block = await journal.claim(1e6); block; block = await journal.claim(1e6)) {
    const stateKeys = names.map(digest)
    const { states } = await journal.readStates(stateKeys, 1e6)
    const stored = stateKeys.map((stateKey, i) => ({ stateKey, version: states[i]?.version ?? START }))
    await journal.acknowledge(block, stored)
  }
}

/** Each with its bucket. */
async function idsIn(lane: Relocation): Promise<string[]> {
  const found: string[] = []
  for await (const { sender, bucket, ids } of lane.insertIds()) {
    const from = `${senderName(sender)} ${bucket}`
    for (let at = 0; at < ids.length; at += INSERT_ID_BYTES) found.push(`${from} ${ids.toString('hex', at, at + 16)}`)
  }
  return found
}

/** Everything that a change of the layout moves or sets, sorted. */
async function dump(lane: Relocation) {
  const byText = (a: unknown, b: unknown) => (format(a) < format(b) ? -1 : 1)
  const look = await lane.readStatus()
  return {
    look: look && { ...look, depth: { ...look.depth, oldestMs: 0 } },
    requests: (await all<RememberedRequest>(lane.requests())).sort(byText),
    ids: (await idsIn(lane)).sort(),
    states: (await all<KeptState>(lane.states())).sort(byText),
  }
}

const format = (value: unknown) => JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part))

/** Splits the one lane `0` into two; `1` gets the states of these names. @param end the step before which it is killed */
async function split(place: Place, moved: string[], end = Number.POSITIVE_INFINITY): Promise<void> {
  const [zero, one] = [await place.relocation('0'), await place.relocation('1')]
  const lanes = [zero, one]
  const isMoved = (stateKey: string) => moved.some((name) => digest(name) === stateKey)
  const steps = [
    () => one.create(),
    () => Promise.all(lanes.map((lane) => lane.closeIntake(2))),
    async () => {
      const looks = await Promise.all(lanes.map((lane) => lane.readStatus()))
      const last = looks.reduce((last, look) => maxPosition(last, look?.appended ?? START), START)
      await Promise.all(lanes.map((lane) => lane.raise(last)))
    },
    async () => {
      for await (const requests of zero.requests()) await one.addRequests(requests)
    },
    async () => {
      for await (const requests of one.requests()) await zero.addRequests(requests)
    },
    async () => {
      for await (const { ids, ...from } of zero.insertIds()) {
        await one.addInsertIds({ ...from, ids: selectInsertIds(ids, 1, 2) })
      }
    },
    async () => {
      for await (const states of zero.states()) {
        await one.addStates(states.filter(({ stateKey }) => isMoved(stateKey)))
      }
    },
    () => zero.keepStates((stateKey) => !isMoved(stateKey)),
    () => one.keepStates(isMoved),
    () => zero.open(2),
    () => one.open(2),
  ]
  for (const step of steps.slice(0, end)) await step()
  await Promise.all(lanes.map((lane) => lane.close()))
}

for (const [kind, start] of Object.entries(KINDS)) {
  t.test(
    `${kind}: only processes of its version use a journal, and none writes while it is being changed`,
    async (t) => {
      const place = await start(t)
      let journal = await place.open('0')
      await write(journal, append('before'))
      const refused = { code: 'unavailable', message: /layout of the store/ }
      const step = async (act: (lane: Relocation) => Promise<void>) => {
        await journal.close()
        const lane = await place.relocation('0')
        await act(lane)
        await lane.close()
        journal = await place.open('0')
      }
      await step((lane) => lane.closeIntake(2))
      await t.rejects(journal.write([append('while')]), { ...refused, message: /is being changed/ })
      t.ok((await journal.level(START)).appended > START, 'it can be read')
      t.equal((await journal.progress('p')).pending, 1)
      await drain(journal, [])
      t.equal((await journal.progress('p')).pending, 0, 'and drained')
      await step((lane) => lane.open(2))
      const calls: Promise<unknown>[] = [
        journal.write([append('after')]),
        journal.claim(1),
        journal.progress(),
        journal.level(START),
      ]
      for (const call of calls) await t.rejects(call, { ...refused, message: /was changed/ })
      await journal.close()
      const next = await place.open('0', 2)
      await write(next, append('after'))
      t.equal((await next.claim(1))?.entries.length, 1)
      await next.close()
    },
  )

  t.test(`${kind}: a lane is split in two, at whichever step the command was killed`, async (t) => {
    const dumps: unknown[] = []
    for (let end = 0; end <= 11; end++) {
      const place = await start(t)
      const journal = await place.open('0')
      const { id } = journal
      const [keyed] = await write(journal, append('{}', keyOf('events')))
      const [shared] = await write(journal, {
        ...append('{}'),
        count: 3,
        ids: ofKeys(keyOf('0'), keyOf('1'), keyOf('2')),
      })
      await write(journal, { type: 'reserve', ...SENDER, ids: ofKey(keyOf('reserved')) })
      await write(journal, { ...append('{}'), count: 200, ids: ofEvents(insertIds) })
      const [dead, moved, stays] = await write(
        journal,
        commit('stored', 's'),
        commit('moved', 'm'),
        commit('stays', 's'),
      )
      await drain(journal, ['stored'])
      await journal.close()
      await split(place, ['moved'], end)
      await split(place, ['moved'])

      const [zero, one] = [await place.open('0', 2), await place.open('1', 2)]
      const names = ['stored', 'moved', 'stays'].map(digest)
      t.same((await zero.readStates(names, 1e6)).states, [null, null, { version: stays, state: 's' }])
      t.same((await one.readStates(names, 1e6)).states, [null, { version: moved, state: 'm' }, null])
      t.same(await zero.findRequest(keyOf('events')), { status: 'repeated', position: keyed })
      t.same(await one.findRequest(keyOf('events')), { status: 'repeated', position: keyed, journalId: id })
      t.same(await one.findRequest(keyOf('events', 'other')), { status: 'mismatch' })
      for (const lane of [zero, one]) {
        t.same(await lane.findRequest(keyOf('2')), { status: 'repeated', position: shared, index: 2, journalId: id })
      }
      for (const [number, lane] of [zero, one].entries()) {
        const own = selectInsertIds(insertIds, number, 2)
        t.equal((await lane.ids.find(sent(own))).length, own.length / INSERT_ID_BYTES)
        t.equal(await lane.findRequest(keyOf('reserved')), null, 'a reserved one is executed')
        t.same(await lane.findRequest(keyOf('reserved', 'other')), { status: 'mismatch' }, 'as the same one')
      }
      const [first] = await write(one, append('{}'))
      t.ok((first ?? START) > (dead ?? START), 'positions lie behind those of the old lane')
      await drain(one, [])
      await Promise.all([zero.close(), one.close()])
      const lanes = [await place.relocation('0'), await place.relocation('1')]
      const [a, b] = await Promise.all(lanes.map(dump))
      dumps.push([a?.requests.length, a?.states.length, a?.look?.depth, b?.requests.length, b?.states.length])
      await Promise.all(lanes.map((lane) => lane.close()))
    }
    for (const found of dumps) t.same(found, dumps[0], 'it ends the same')
  })

  t.test(`${kind}: everything that moves is taken once`, async (t) => {
    const place = await start(t)
    const lane = await place.relocation('0')
    t.equal(await lane.readStatus(), null)
    await t.rejects(lane.open(2), /create it first/)
    await lane.create()
    await lane.create()
    const bucket = Math.floor(Date.now() / 21_600_000)
    const request = {
      bucket,
      key: Buffer.alloc(16, 1),
      fingerprint: Buffer.alloc(8, 2),
      position: 7n << 16n,
      index: 0,
      journalId: 9,
    }
    const state = { stateKey: digest('a'), version: 5n << 16n, state: 'five' }
    await lane.addRequests([{ ...request, position: START }])
    for (const _ of [1, 2]) {
      await lane.addRequests([request, { ...request, position: START }, { ...request, position: 8n << 16n }])
      await lane.addStates([state, { ...state, version: 4n << 16n, state: 'four' }])
    }
    const found = await dump(lane)
    t.same(found.requests, [request], 'the first one that is more than reserved')
    const third = { ...request, key: Buffer.alloc(16, 3), index: 2 }
    await lane.addRequests([third])
    t.same((await dump(lane)).requests, [request, third])
    t.same(found.states, [state], 'the last version')
    t.equal(found.look?.layout, 0)
    t.match(found.look?.depth, { entries: 0, bytes: 0, stateBytes: 0 }, 'no entry waits that has set a state')
    await lane.keepStates(() => false)
    t.same((await dump(lane)).states, [])
    t.equal((await lane.readStatus())?.depth.stateBytes, 0)
    await lane.close()
  })
}

t.test('redis: URLs in another order are refused', async (t) => {
  const [own, other] = [`{${randomName('lane')}}`, `{${randomName('lane')}}`]
  const options = { url: redis.url, maxBytes: 1e9, log: silent }
  const first = await openRedisJournal({ ...options, prefix: other })
  t.teardown(() => first.close())
  const open = async () => (await openRedisJournal({ ...options, prefix: own, otherPrefixes: [other] })).close()
  await write(first, append('{}'))
  await t.rejects(open(), /the order of REDIS_URL was changed/)
  t.equal(await admin.exists(`${own}:meta`), 0, 'nothing was created')
})

t.test(
  'lmdb: Relocation reads ids and requests by the clock of the journal, though that of the machine is ahead',
  async (t) => {
    const path = await temporaryFolder(t)
    const now = Date.now()
    const journal = await openLmdbJournal({ path, maxBytes: 1e9, now: () => now, elapsed: () => 0 })
    await journal.write([{ ...append('one'), ids: ofEvents(insertIds.subarray(0, INSERT_ID_BYTES), keyOf('key')) }])
    const block = await journal.claim(1e9)
    if (block) await journal.acknowledge(block, [])
    await journal.close()
    const relocation = openLmdbRelocation({ path, now: () => now + 400 * 86_400_000, elapsed: () => 0 })
    t.teardown(() => relocation.close())
    const found = { requests: 0, ids: 0 }
    for await (const requests of relocation.requests()) found.requests += requests.length
    for await (const { ids } of relocation.insertIds()) found.ids += ids.length / INSERT_ID_BYTES
    t.strictSame(found, { requests: 1, ids: 1 })
  },
)
