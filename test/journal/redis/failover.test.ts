import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Append, Block, Journal } from '../../../src/journal/journal.js'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import type { RedisJournalOptions } from '../../../src/journal/redis/options.js'
import { WRITE } from '../../../src/journal/redis/scripts.js'
import { formatPosition, type Position, START, toMilliseconds } from '../../../src/model/position.js'
import { NO_IDS } from '../../../src/model/request-ids.js'
import { ReadBarrier } from '../../../src/reads/read-barrier.js'
import { silent, startRedis, until } from '../../helper.js'
import { RedisPair } from '../../redis-pair.js'
import { ofKey, SENDER } from '../writes.js'

const ALL = 1e9

function append(text: string): Append {
  return { type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.from(text), ids: NO_IDS }
}

async function write(journal: Journal, text: string): Promise<Position> {
  const [outcome] = await journal.write([append(text)])
  if (outcome?.status !== 'done') throw new Error(`it is ${outcome?.status}`)
  return outcome.position
}

/** Two processes on the master of a pair. */
async function start(t: Test, options: Partial<RedisJournalOptions> = {}) {
  const pair = await RedisPair.start(t)
  const open = async () => {
    const journal = await openRedisJournal({ url: pair.url, maxBytes: ALL, log: silent, ...options })
    t.teardown(() => journal.close())
    return journal
  }
  return { pair, journal: await open(), other: await open() }
}

function textsOf(block: Block | null): string[] | undefined {
  return block?.entries.map(({ body }) => body.toString())
}

/** What the journal holds, in its order. */
async function drain(journal: Journal): Promise<string[]> {
  const texts: string[] = []
  for (;;) {
    const block = await journal.claim(ALL)
    if (!block) return texts
    texts.push(...(textsOf(block) ?? []))
    await journal.acknowledge(block, [])
  }
}

t.test('results from before a deletion are outdated, even if a failover has lost its count', async (t) => {
  const { pair, journal } = await start(t)
  const barrier = new ReadBarrier(journal, new AbortController().signal)
  const { deletions } = await barrier.waitForProject('p')
  await pair.detach()
  await journal.noteDeletion('p')
  await pair.failOver()
  t.equal((await journal.progress('p')).deletions, 0)
  t.not((await barrier.waitForProject('p')).deletions, deletions)
})

t.test('positions assigned by a master whose clock was ahead are not assigned again', async (t) => {
  const { pair, journal } = await start(t)
  await write(journal, 'known to both')
  await pair.detach()
  await pair.setClock(Date.now() + 3_600_000)
  const lost = await write(journal, 'lost')
  await pair.failOver()
  const next = await write(journal, 'next')
  t.ok(next > lost, `${formatPosition(next)} is behind ${formatPosition(lost)}`)
  t.strictSame(await drain(journal), ['known to both', 'next'])
})

t.test('a process that has not seen the last positions continues after those in the store', async (t) => {
  const asked: Position[] = []
  let stored = START
  const lastStored = async (from: Position) => {
    asked.push(from)
    return stored
  }
  const { pair, journal, other } = await start(t, { lastStored })
  const { stored: before } = await journal.progress()
  await pair.detach()
  await pair.setClock(Date.now() + 3_600_000)
  stored = await write(journal, 'stored and forgotten')
  t.strictSame(asked, [], 'a Redis that does not change need not ask the store')
  await pair.failOver()
  t.ok((await write(other, 'next')) > stored)
  t.ok(asked.length > 0 && asked.every((from) => from === before), 'only after the entries known to be stored')
})

t.test('positions that nobody has seen are not assigned again if the clocks differ by at most 10 s', async (t) => {
  const lastStored = async () => {
    throw new Error('the store is unavailable')
  }
  const { pair, journal, other } = await start(t, { lastStored })
  await pair.detach()
  await pair.setClock(Date.now() + 9_000)
  const lost = await write(journal, 'lost')
  await pair.failOver()
  const next = await write(other, 'next')
  t.ok(next > lost)
  t.ok(toMilliseconds(next) <= Date.now() + 10_000)
})

t.test('RedisHistory does not take a position of another lane for a lost one', async (t) => {
  const errors: unknown[] = []
  const log = { ...silent, error: (...line: unknown[]) => errors.push(line) }
  const redis = await startRedis(t)
  let isAsked = false
  let own = START
  const lastStored = async () => {
    // Redis is killed once more, before the journal can be adopted.
    if (!isAsked) await redis.kill()
    isAsked = true
    return own + 1n
  }
  const journal = await openRedisJournal({ url: redis.url, maxBytes: ALL, log, lastStored })
  t.teardown(() => journal.close())
  own = await write(journal, 'own')
  await redis.kill()
  await redis.restart()
  await until('the store to be asked', () => isAsked)
  await redis.restart()
  await until('the journal', async () => await journal.progress().catch(() => null))
  t.strictSame(errors, [])
  t.strictSame(await drain(journal), ['own'])
})

t.test('RedisHistory logs the positions that a Redis has lost', async (t) => {
  const errors: [data: object, message: string][] = []
  const log = { ...silent, error: (data: object, message: string) => errors.push([data, message]) }
  const { pair, journal, other } = await start(t, { log })
  const kept = await write(journal, 'kept')
  await pair.synchronise()
  await pair.failOver()
  await write(journal, 'kept, too')
  t.strictSame(errors, [], 'a replica that has everything')

  await pair.addReplica()
  await pair.detach()
  const lost = await write(journal, 'lost')
  await pair.failOver()
  await write(journal, 'next')
  const [after, until] = [kept, lost].map((position) => new Date(toMilliseconds(position)).toISOString())
  t.match(errors, [[{ after: String, until }, /the end of the journal/]])
  t.ok(String(Reflect.get(errors[0]?.[0] ?? {}, 'after')) >= String(after))

  // If it connected to the empty Redis first, it would not notice, because it has seen none of the positions.
  await other.progress()
  const redis = new Redis(pair.url)
  await redis.flushall()
  redis.disconnect()
  await write(journal, 'first')
  t.match(errors.slice(1), [[{ until: String }, /lost the journal/]])
})

t.test('RedisHistory reports no loss after a lift to a position of another lane', async (t) => {
  const errors: object[] = []
  const log = { ...silent, error: (data: object, message: string) => errors.push({ ...data, message }) }
  const { pair, journal } = await start(t, { log })
  const kept = await write(journal, 'kept')
  journal.raiseFloor(kept + (30_000n << 16n))
  const key = createHash('sha256').update('key').digest('hex')
  const reserved = await journal.write([{ type: 'reserve', ...SENDER, ids: ofKey({ key, fingerprint: key }) }])
  t.strictSame(reserved, [{ status: 'done', position: kept }], 'the last one assigned')
  await pair.synchronise()
  await pair.failOver()
  await write(journal, 'kept, too')
  t.strictSame(errors, [])
})

t.test('a reader need not wait for positions that were only skipped', async (t) => {
  const { pair, journal } = await start(t)
  await pair.failOver()
  const { appended, stored } = await journal.progress()
  t.equal(appended, stored)
})

t.test(
  'the writer does not mistake unstored entries in memory for those at the same positions of the replica',
  async (t) => {
    const { pair, journal, other } = await start(t)
    t.equal(await journal.claim(ALL), null, 'a writer runs here')
    await write(journal, 'known to both')
    await pair.detach()
    await write(journal, 'lost')
    await pair.failOver()
    // The same number of entries as before, with the same first one.
    await write(other, 'in its place')
    t.strictSame(textsOf(await journal.claim(ALL)), ['known to both', 'in its place'])
  },
)

for (const isKnown of [true, false]) {
  t.test(`a call whose reply was lost is written once, if the replica ${isKnown ? 'has' : 'lacks'} it`, async (t) => {
    const { pair, journal } = await start(t)
    await write(journal, 'before')
    if (!isKnown) await pair.detach()
    const lost = pair.proxy.loseReply(WRITE.single.digest, 'silence')
    const writing = write(journal, 'in flight')
    await lost
    if (isKnown) await pair.synchronise()
    await pair.failOver()
    await writing
    t.strictSame(await drain(journal), ['before', 'in flight'])
  })
}

t.test('an era ends with each connection', async (t) => {
  const { pair, journal } = await start(t)
  const { era } = journal
  await write(journal, 'a')
  t.equal(journal.era, era)
  pair.proxy.cut()
  pair.proxy.restore()
  await write(journal, 'b')
  t.not(journal.era, era)
})

t.test('the connection to a master that became a replica is abandoned', async (t) => {
  const { pair, journal } = await start(t)
  const { hostname, port } = new URL(pair.replica.url)
  await pair.detach()
  const master = new Redis(pair.master.url)
  await master.replicaof(hostname, Number(port))
  master.disconnect()
  await t.rejects(journal.write([append('refused')]), { code: 'unavailable' })
  // Like a host name that now leads to another address.
  await pair.failOver()
  await write(journal, 'taken')
  t.strictSame(await drain(journal), ['taken'])
})

t.test('without REDIS_REPLICAS, no WAIT is sent', async (t) => {
  const { pair, journal } = await start(t)
  const waits = pair.proxy.watch('$4\r\nWAIT')
  await write(journal, 'a')
  await drain(journal)
  t.equal(waits.seen, 0)
})

t.test('with REDIS_REPLICAS, a write resolves once the replica has it, and is written once', async (t) => {
  const { pair, journal } = await start(t, { replicas: 1 })
  await write(journal, 'a')
  await pair.detach()
  let isAnswered = false
  const writing = write(journal, 'b').then((position) => {
    isAnswered = true
    return position
  })
  await t.rejects(journal.claim(ALL), { code: 'unavailable' }, 'nor is a block given to the store')
  t.notOk(isAnswered)
  await pair.attach()
  await writing
  await pair.failOver()
  const next = await openRedisJournal({ url: pair.url, maxBytes: ALL, log: silent })
  t.teardown(() => next.close())
  t.match(await next.depth(), { entries: 2 }, 'acknowledged writes outlive their master')
})
