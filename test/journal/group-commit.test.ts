import t, { type Test } from 'tap'
import { GroupCommit } from '../../src/journal/group-commit.js'
import type { Journal, Outcome } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb.js'
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
  const commits = new GroupCommit({ write } as Journal)
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
  t.equal(commits.figures.accepted, 1)
})
