import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Append, Journal } from '../../../src/journal/journal.js'
import { isRedisCluster } from '../../../src/journal/redis/cluster.js'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import type { RedisJournalOptions } from '../../../src/journal/redis/options.js'
import type { Position } from '../../../src/model/position.js'
import { NO_IDS } from '../../../src/model/request-ids.js'
import { silent, startRedis, until } from '../../helper.js'
import { RedisCluster } from '../../redis-cluster.js'

// Lanes on a real Redis Cluster: each is in one slot, which may move to another node, or whose master may die.

const cluster = await RedisCluster.start(t, 3)

function append(text: string): Append {
  return { type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.from(text), ids: NO_IDS }
}

async function open(t: Test, prefix: string, options: Partial<RedisJournalOptions> = {}): Promise<Journal> {
  const journal = await openRedisJournal({ url: cluster.urls, maxBytes: 1e9, prefix, log: silent, ...options })
  t.teardown(() => journal.close())
  return journal
}

/** Repeats a call until it is not refused; a refused one must have done nothing. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + 90_000; ; await wait(20)) {
    try {
      return await call()
    } catch (error) {
      if ((error as { code?: string }).code !== 'unavailable' || Date.now() > end) throw error
    }
  }
}

/** What the journal holds, in its order. */
async function drain(journal: Journal): Promise<string[]> {
  const texts: string[] = []
  for (;;) {
    const block = await insist(() => journal.claim(1e6))
    if (!block) return texts
    texts.push(...block.entries.map(({ body }) => body.toString()))
    await insist(() => journal.acknowledge(block, []))
  }
}

/** Writes one text after the other until it is told to stop. */
function keepWriting(journal: Journal, name: string) {
  const written: string[] = []
  const positions: Position[] = []
  let refused = 0
  let isOver = false
  const over = (async () => {
    for (let i = 0; !isOver; i++) {
      const text = `${name} ${i}`
      try {
        const [outcome] = await journal.write([append(text)])
        if (outcome?.status !== 'done') throw new Error(`it is ${outcome?.status}`)
        written.push(text)
        positions.push(outcome.position)
      } catch (error) {
        if ((error as { code?: string }).code !== 'unavailable') throw error
        refused++
        await wait(5)
      }
    }
  })()
  return {
    written,
    positions,
    refused: () => refused,
    stop: () => {
      isOver = true
      return over
    },
  }
}

t.test('isRedisCluster distinguishes a cluster from a single server', async (t) => {
  const alone = await startRedis(t)
  t.equal(await isRedisCluster(cluster.urls), true)
  t.equal(await isRedisCluster(['redis://127.0.0.1:1', cluster.urls[1] ?? '']), true, 'the first one that answers')
  t.equal(await isRedisCluster([alone.url]), false)
  await t.rejects(isRedisCluster(['redis://127.0.0.1:1']))
})

t.test('two lanes are on two masters, and a reader walks both', async (t) => {
  const prefixes = [await cluster.prefixOn(1), await cluster.prefixOn(2)]
  const lanes = await Promise.all(prefixes.map((prefix) => open(t, prefix)))
  for (const [i, prefix] of prefixes.entries()) {
    t.equal(await cluster.node(i + 1).admin.exists(`${prefix}:meta`), 1, `lane ${i} is on master ${i + 1}`)
  }
  const [first, second] = lanes
  if (!first || !second) throw new Error('there are two')
  await first.write([append('one')])
  const [two] = await second.write([append('two')])
  if (two?.status !== 'done') throw new Error('it is done')
  t.ok((await first.level(two.position)).stored < two.position, 'an entry waits')
  t.same(await drain(first), ['one'])
  t.ok((await first.level(two.position)).stored >= two.position, 'none does')
  t.same(await drain(second), ['two'])
})

t.test('a lane continues on the node that its slot has moved to', async (t) => {
  const prefix = await cluster.prefixOn(0)
  const [journal, other] = [await open(t, prefix), await open(t, prefix)]
  await journal.write([append('before')])
  t.same(await drain(journal), ['before'])
  const { id } = journal
  await cluster.moveSlot(prefix, 0, 2)
  const writing = keepWriting(journal, 'after')
  await until('a write', () => writing.written.length > 0)
  await writing.stop()
  t.equal(await cluster.node(2).admin.exists(`${prefix}:meta`), 1)
  t.equal(journal.id, id)
  t.equal((await insist(() => other.progress('p'))).pending, writing.written.length)
  t.same(await drain(journal), writing.written)
})

t.test('while its slot moves, a busy lane refuses and loses nothing', async (t) => {
  const prefix = await cluster.prefixOn(0)
  const [journal, other] = [await open(t, prefix), await open(t, prefix)]
  const writings = [keepWriting(journal, 'a'), keepWriting(other, 'b')]
  const count = () => writings.reduce((sum, { written }) => sum + written.length, 0)
  await until('50 writes', () => count() >= 50)
  await cluster.moveSlot(prefix, 0, 1, () => wait(2))
  const moved = count()
  await until('50 more', () => count() >= moved + 50)
  for (const { stop } of writings) await stop()
  for (const { refused } of writings) t.ok(refused() > 0, 'some were refused')
  t.equal((await insist(() => journal.progress('p'))).pending, count())
  const all = writings.flatMap(({ written, positions }) => written.map((text, i) => ({ text, position: positions[i] })))
  all.sort((a, b) => ((a.position ?? 0n) < (b.position ?? 0n) ? -1 : 1))
  t.same(
    await drain(journal),
    all.map(({ text }) => text),
    'each once, in its order',
  )
  t.equal((await journal.progress('p')).pending, 0)
})

t.test('a lane continues on a replica after its master dies', async (t) => {
  const prefix = await cluster.prefixOn(1)
  // One of them is then the replica of the other one, which confirms writes.
  await cluster.addReplicas(1, 2)
  const journal = await open(t, prefix, { replicas: 1 })
  const writing = keepWriting(journal, 'w')
  await until('20 writes', () => writing.written.length >= 20)
  await cluster.node(1).server.kill()
  const before = writing.written.length
  await until('20 more', () => writing.written.length >= before + 20)
  await writing.stop().catch(() => undefined)
  const drained = await drain(journal)
  t.same(drained.slice(0, before), writing.written.slice(0, before))
  t.same(new Set(drained).size, drained.length, 'nothing twice')
  t.same(
    writing.written.filter((text) => !drained.includes(text)),
    [],
    'nothing that was answered is lost',
  )
})
