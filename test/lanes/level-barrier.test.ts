import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { LevelBarrier } from '../../src/lanes/level-barrier.js'
import { maxPosition, type Position, START, toMilliseconds } from '../../src/model/position.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { randomName, silent, startRedis, temporaryFolder, until } from '../helper.js'

const ALL = 1024 * 1024 * 1024
const never = new AbortController().signal

interface TestLane {
  name: string
  fullName: string
  journal: Journal
}

/** A model of the store of these lanes. */
class Store {
  /** the positions of what was stored, by project; two lanes may use the same one */
  readonly #stored = new Map<string, Set<Position>>()
  #isOver = false

  /** Stores the waiting entries of a lane, block by block, with pauses. */
  async drain({ journal }: TestLane, pauseMs: number): Promise<void> {
    while (!this.#isOver) {
      const block = await journal.claim(1)
      await wait(pauseMs)
      if (!block) continue
      for (const { position, projectId } of block.entries) this.positions(projectId).add(position)
      await journal.acknowledge(block, [])
    }
  }

  positions(projectId: string): Set<Position> {
    const known = this.#stored.get(projectId) ?? new Set()
    this.#stored.set(projectId, known)
    return known
  }

  stop(): void {
    this.#isOver = true
  }
}

async function append({ journal }: TestLane, projectId = 'p'): Promise<Position> {
  const [outcome] = await journal.write([
    { type: 'append', keyClass: 'secret', projectId, count: 1, body: Buffer.from('{"events":[1]}'), ids: NO_IDS },
  ])
  if (outcome?.status !== 'done') throw new Error(`an append was ${outcome?.status}`)
  return outcome.position
}

/** Three lanes that write at these times while a reader walks through the events; the last one is slow. */
async function walk(t: Test, lanes: TestLane[], moments: number[][]): Promise<void> {
  const store = new Store()
  const draining = lanes.map((lane, i) => store.drain(lane, i === 2 ? 15 : 1))
  const written = new Set<Position>()
  let isOver = false
  const writing = Promise.all(
    moments.map(async (pauses, i) => {
      for (const pause of pauses) {
        await wait(pause)
        const lane = lanes[i]
        if (!lane) throw new Error('there are three lanes')
        // Another project's events wait in the same lanes.
        const projectId = pause % 2 === 0 ? 'p' : 'q'
        const position = await append(lane, projectId)
        if (projectId === 'p') written.add(position)
        for (const other of lanes) if (other !== lane) other.journal.raiseFloor(position)
      }
    }),
  ).then(() => {
    isOver = true
  })
  const barrier = new LevelBarrier(lanes, { log: silent, closing: never })
  let end = START
  const seen: Position[] = []
  for (let isLast = false; !isLast; ) {
    await wait(1)
    isLast = isOver
    const before = [...written]
    const { stored, pending } = await barrier.waitForProject('p')
    t.equal(pending, 0)
    const page = [...store.positions('p')].filter((position) => position > end && position <= stored)
    seen.push(...page)
    end = maxPosition(end, stored)
    for (const position of before) if (!seen.includes(position)) t.fail('own writes are read')
  }
  await writing
  store.stop()
  await Promise.all(draining)
  t.equal(seen.length, written.size, 'every entry once')
  t.strictSame(new Set(seen), written)
}

const pauses = (maxLength: number) => fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 1, maxLength })

t.test('LevelBarrier orders embedded journals whose clocks differ, one slow and one nearly idle', async (t) => {
  const clocks = fc.array(fc.integer({ min: -20_000, max: 20_000 }), { minLength: 3, maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(clocks, fc.tuple(pauses(25), pauses(2), pauses(15)), async (offsets, moments) => {
      const folder = await temporaryFolder(t)
      const lanes = await Promise.all(
        offsets.map(async (offset, i) => {
          const path = join(folder, String(i))
          const journal = await openLmdbJournal({ path, maxBytes: ALL, now: () => Date.now() + offset })
          return { name: `lane ${i}`, fullName: `lane ${i}`, journal }
        }),
      )
      await walk(t, lanes, moments)
      await Promise.all(lanes.map(({ journal }) => journal.close()))
    }),
    { numRuns: 8 },
  )
})

t.test('LevelBarrier orders journals in Redis, one slow and one nearly idle', async (t) => {
  const { url } = await startRedis(t)
  await fc.assert(
    fc.asyncProperty(fc.tuple(pauses(25), pauses(2), pauses(15)), async (moments) => {
      const prefix = randomName('lanes')
      const lanes = await Promise.all(
        moments.map(async (_, i) => {
          const journal = await openRedisJournal({ url, maxBytes: ALL, prefix: `{${prefix}:${i}}`, log: silent })
          return { name: `lane ${i}`, fullName: `lane ${i}`, journal }
        }),
      )
      await walk(t, lanes, moments)
      await Promise.all(lanes.map(({ journal }) => journal.close()))
    }),
    { numRuns: 4 },
  )
})

t.test('LevelBarrier ends pages at a lane that stores nothing, and names it', async (t) => {
  const folder = await temporaryFolder(t)
  const lanes = await Promise.all(
    [0, 1].map(async (i) => {
      const journal = await openLmdbJournal({ path: join(folder, String(i)), maxBytes: ALL })
      t.teardown(() => journal.close())
      return { name: `lane ${i}`, fullName: `lane ${i}`, journal }
    }),
  )
  const [first, second] = lanes
  if (!first || !second) return t.fail('there are two')
  const store = new Store()
  t.teardown(() => store.stop())
  const stuck = await append(second)
  const later = await append(first)
  first.journal.raiseFloor(stuck)
  const draining = store.drain(first, 1)
  await until('the first lane to be stored', () => store.positions('p').has(later))
  const barrier = new LevelBarrier(lanes, { log: silent, closing: never, limitMs: 100 })
  t.match(await barrier.waitForProject('p'), { stored: stuck - 1n, pending: 1 })
  await t.rejects(barrier.waitForAll(), { code: 'unavailable', message: /caught up with lane 1 yet/ })
  const third = await append(first, 'q')
  await until('it to be stored, too', () => store.positions('q').has(third))
  await t.rejects(barrier.requireProject('p'), { code: 'unavailable', message: /caught up with lane 1 yet/ })
  t.equal(await barrier.requireProject('q'), third, 'waiting events of another project delay nobody')
  t.match(await barrier.waitForProject('q'), { stored: third, pending: 0 })
  const pending = await append(second, 'q')
  const fourth = await append(first, 'q')
  await until('the next one to be stored, too', () => store.positions('q').has(fourth))
  const point = await barrier.waitForProject('q')
  t.ok(point.stored < pending, 'pages end before what waits')
  t.equal(point.pending, 1)
  const { deletions } = await barrier.waitForProject('p')
  await second.journal.noteDeletion('p')
  t.not((await barrier.waitForProject('p')).deletions, deletions, 'a deletion that any lane has noted is known')
  store.stop()
  await draining
})

t.test('LevelBarrier limits how far a wrong clock lifts the others, and reports it', async (t) => {
  const folder = await temporaryFolder(t)
  const lanes = await Promise.all(
    [0, 10 * 60_000].map(async (offset, i) => {
      const path = join(folder, String(i))
      const journal = await openLmdbJournal({ path, maxBytes: ALL, now: () => Date.now() + offset })
      t.teardown(() => journal.close())
      return { name: `lane ${i}`, fullName: `lane ${i}`, journal }
    }),
  )
  const store = new Store()
  const draining = lanes.map((lane) => store.drain(lane, 1))
  const [right, wrong] = lanes
  if (!right || !wrong) return t.fail('there are two')
  await append(wrong)
  const logged: object[] = []
  const log = { warn: (data: object) => logged.push(data) }
  const barrier = new LevelBarrier(lanes, { log, closing: never, limitMs: 200 })
  await barrier.waitForProject('p')
  t.ok(toMilliseconds((await right.journal.progress()).appended) < Date.now() + 70_000)
  t.match(logged, [{ lanes: ['lane 0'] }])
  await barrier.waitForProject('p')
  t.strictSame([logged.length, barrier.lateClockReads], [1, [2, 0]], 'every read is counted, and some are logged')
  t.ok(toMilliseconds(await append(right)) < Date.now() + 70_000, 'its own events keep a time near the right one')
  store.stop()
  await Promise.all(draining)
})
