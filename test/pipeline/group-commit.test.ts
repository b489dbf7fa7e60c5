import t, { type Test } from 'tap'
import type { Journal, Outcome } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { GroupCommit } from '../../src/pipeline/group-commit.js'
import { temporaryFolder, until } from '../helper.js'

/** A journal whose writes begin when they are let, and what happened to it and to its callers, in order. */
async function open(t: Test) {
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 1024 ** 3 })
  t.teardown(() => journal.close())
  const happened: string[] = []
  const gates: ((error?: Error) => void)[] = []
  const write: Journal['write'] = async (writes): Promise<Outcome[]> => {
    const count = writes.reduce((sum, one) => sum + (one.type === 'append' ? one.count : 0), 0)
    happened.push(`write of ${count}`)
    await new Promise<void>((resolve, reject) => gates.push((error) => (error ? reject(error) : resolve())))
    return await journal.write(writes)
  }
  const commits = new GroupCommit({ write } as Journal, new BufferPool())
  const track = (name: string) =>
    commits.appendEvent('p', Buffer.from('{}')).then(
      () => happened.push(`${name} answered`),
      () => happened.push(`${name} refused`),
    )
  const sent = (count: number) => until(`write ${count}`, () => gates.length === count)
  return { commits, happened, gates, track, sent }
}

t.test('what waits is written before the requests of the write before are answered', async (t) => {
  const { commits, happened, gates, track, sent } = await open(t)
  track('a')
  track('b')
  await sent(1)
  track('c')
  gates[0]?.()
  await sent(2)
  await until('the answers', () => happened.includes('b answered'))
  t.strictSame(happened, ['write of 2', 'write of 1', 'a answered', 'b answered'])
  track('d')
  const closed = commits.close()
  gates[1]?.()
  await sent(3)
  gates[2]?.()
  await closed
  t.strictSame(happened.slice(4), ['write of 1', 'c answered', 'd answered'])
})

t.test('a write that fails is refused to those who share it, and to nobody else', async (t) => {
  const { commits, happened, gates, track, sent } = await open(t)
  track('a')
  await sent(1)
  track('b')
  gates[0]?.(new Error('the disk is full'))
  await sent(2)
  gates[1]?.()
  await until('the answer', () => happened.includes('b answered'))
  t.strictSame(happened, ['write of 1', 'write of 1', 'a refused', 'b answered'])
  t.equal(commits.metrics.accepted, 1)
})

t.test('the memory of events and of the entries made of them is used again', async (t) => {
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 1024 ** 3 })
  t.teardown(() => journal.close())
  const memory = new BufferPool()
  journal.listen({ onReleased: (body) => memory.release(body) })
  const commits = new GroupCommit(journal, memory)
  const textOf = (n: number) =>
    JSON.stringify({ event: `e${n}`, distinct_id: 'd', properties: { text: 'x'.repeat(8192) } })
  const pieces = new Set<ArrayBufferLike>()
  for (let i = 0; i < 100; i++) {
    const bodies = Array.from({ length: 10 }, (_, n) => {
      const text = Buffer.from(textOf(10 * i + n))
      return memory.concat([text], text.length)
    })
    for (const { buffer } of bodies) pieces.add(buffer)
    const [keyed, ...shared] = bodies as [Buffer, ...Buffer[]]
    const idempotencyKey = { projectId: 'p', key: String(i).padStart(32, '0'), fingerprint: '00'.repeat(32) }
    await Promise.all([
      commits.appendKeyedEvent('p', keyed, idempotencyKey),
      ...shared.map((body) => commits.appendEvent('p', body)),
    ])
  }
  t.ok(pieces.size <= 2, `8 MB of events went through so few pieces of memory: ${pieces.size}`)
  const block = await journal.claim(1024 ** 3)
  const events = block?.entries.flatMap(({ body }) =>
    JSON.parse(body.toString()).events.map((event: object) => JSON.stringify(event)),
  )
  t.strictSame(events?.sort(), Array.from({ length: 1000 }, (_, n) => textOf(n)).sort())
})
