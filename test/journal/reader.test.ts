import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Append, Journal } from '../../src/journal/journal.js'
import { MAX_LIFT_MS } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { maxPosition, type Position, START, toMilliseconds } from '../../src/model/position.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'

// A reader of several journals takes the greatest position that any has assigned, lifts all journals to it, and reads
// up to it once all of them are stored that far. So it skips nothing, whatever the clocks say and however idle a
// journal is.

const WRITES = 60
/** Offsets of the clocks of the journals, ms. */
const CLOCKS = [0, 20_000, -5_000]

const redis = await startRedis(t)

/** Journals whose clocks differ. */
const KINDS: Record<string, (t: Test) => Promise<Journal[]>> = {
  lmdb: async (t) => {
    const folder = await temporaryFolder(t)
    return await Promise.all(
      CLOCKS.map((ms, i) => openLmdbJournal({ path: `${folder}/${i}`, maxBytes: 1e9, now: () => Date.now() + ms })),
    )
  },
  redis: async () =>
    await Promise.all(
      CLOCKS.map(async (ms) => {
        const journal = await openRedisJournal({
          url: redis.url,
          maxBytes: 1e9,
          prefix: `{${randomName('j')}}`,
          log: silent,
        })
        // A lifted journal assigns the next positions like one whose clock is that far ahead.
        await journal.level(at(Date.now() + ms))
        return journal
      }),
    ),
}

function at(ms: number): Position {
  return BigInt(ms) << 16n
}

function append(text: string): Append {
  return { type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.from(text), ids: NO_IDS }
}

/** Several journals and their store. */
class Lanes {
  readonly journals: Journal[]
  /** position → text */
  readonly stored = new Map<Position, string>()
  isOver = false

  constructor(journals: Journal[]) {
    this.journals = journals
  }

  async write(lane: number, text: string): Promise<Position> {
    const [outcome] = (await this.journals[lane]?.write([append(text)])) ?? []
    if (outcome?.status !== 'done') throw new Error(`it is ${outcome?.status}`)
    for (const journal of this.journals) journal.raiseFloor(outcome.position)
    return outcome.position
  }

  /** Stores the entries of a lane, one at a time, with random pauses. */
  async drain(lane: number): Promise<void> {
    const journal = this.journals[lane]
    while (journal && !this.isOver) {
      for (let turns = Math.random() * 30; turns > 0; turns--) await turn()
      const block = await journal.claim(1)
      if (!block) continue
      for (const { position, body } of block.entries) this.stored.set(position, body.toString())
      await journal.acknowledge(block, [])
    }
  }

  /** How far a reader that begins now may go. */
  async readable(): Promise<Position> {
    const found = await Promise.all(this.journals.map((journal) => journal.progress()))
    const target = found.reduce((last, { appended }) => maxPosition(last, appended), START)
    for (;;) {
      const lifted = await Promise.all(this.journals.map((journal) => journal.level(target)))
      if (lifted.every(({ stored }) => stored >= target)) return target
      await turn()
    }
  }

  async read(after: Position): Promise<{ texts: string[]; end: Position }> {
    const end = await this.readable()
    const found = [...this.stored].filter(([position]) => position > after && position <= end)
    found.sort(([a], [b]) => (a < b ? -1 : 1))
    return { texts: found.map(([, text]) => text), end }
  }
}

for (const [name, start] of Object.entries(KINDS)) {
  t.test(`${name}: a walk skips nothing, repeats nothing, and includes the writes of its own process`, async (t) => {
    const journals = await start(t)
    t.teardown(() => Promise.all(journals.map((journal) => journal.close())))
    const lanes = new Lanes(journals)
    const written: string[] = []
    const missed: string[] = []
    const late: Position[] = []
    const drains = journals.map((_, lane) => lanes.drain(lane))

    const producer = async (client: string) => {
      let last = START
      for (let i = 0; i < WRITES; i++) {
        // The last lane is nearly idle.
        const lane = Math.random() < 0.05 ? 2 : Math.floor(Math.random() * 2)
        const text = `${client} ${i}`
        const position = await lanes.write(lane, text)
        if (position <= last) late.push(position)
        last = position
        written.push(text)
        if (i % 10 > 0) continue
        const { texts } = await lanes.read(position - 1n)
        if (!texts.includes(text)) missed.push(text)
      }
    }
    let isWritten = false
    const walk = async () => {
      const got: string[] = []
      for (let after = START; ; ) {
        const isLast = isWritten
        const { texts, end } = await lanes.read(after)
        got.push(...texts)
        after = end
        if (isLast) return got
        await turn()
      }
    }
    const walks = [walk(), walk()]
    await producer('a')
    isWritten = true
    for (const got of await Promise.all(walks)) {
      t.same(new Set(got).size, got.length, 'nothing twice')
      t.same(got, written, 'everything, in the order in which one client wrote it')
    }
    t.same(missed, [], 'own writes are read')
    t.same(late, [], 'the writes of one client to several journals keep their order')
    lanes.isOver = true
    await Promise.all(drains)
  })

  t.test(`${name}: one wrong clock lifts the others by a minute at most`, async (t) => {
    const journals = await start(t)
    t.teardown(() => Promise.all(journals.map((journal) => journal.close())))
    const [journal] = journals
    if (!journal) throw new Error('there are several')
    const anHourAhead = at(Date.now() + 3_600_000)
    journal.raiseFloor(anHourAhead)
    for (const text of ['by a floor', 'by a level']) {
      const [outcome] = await journal.write([append(text)])
      if (outcome?.status !== 'done') throw new Error('it is done')
      const aheadMs = toMilliseconds(outcome.position) - Date.now()
      t.ok(aheadMs <= MAX_LIFT_MS && aheadMs > MAX_LIFT_MS / 2, `${text}: ${aheadMs} ms`)
      t.ok((await journal.level(anHourAhead)).appended < anHourAhead)
    }
  })
}
