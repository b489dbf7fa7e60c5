import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { ReadBarrier, withAging } from '../../src/reads/read-barrier.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'
import { ALL, append, positions } from '../journal/writes.js'

const never = new AbortController().signal

const openers: Record<string, (t: Test) => Promise<Journal>> = {
  lmdb: async (t) => openLmdbJournal({ path: join(await temporaryFolder(t), 'journal'), maxBytes: ALL }),
  redis: async (t) => {
    const { url } = await startRedis(t)
    return openRedisJournal({ url, maxBytes: ALL, prefix: `{${randomName('journal')}}`, log: silent })
  },
}

for (const [name, open] of Object.entries(openers)) {
  t.test(`${name}: a reader waits for its own project, and for no other`, async (t) => {
    const journal = await open(t)
    t.teardown(() => journal.close())
    const [other] = positions(await journal.write([append('other', { projectId: 'q' })]))
    const barrier = new ReadBarrier(journal, never)
    const { stored, pending } = await barrier.waitForProject('p')
    t.equal(pending, 0)
    t.ok(stored < (other ?? 0n))
    t.equal(await barrier.requireProject('p'), stored)

    const [own] = positions(await journal.write([append('own')]))
    let isDone = false
    const reading = barrier.requireProject('p').then((position) => {
      isDone = true
      return position
    })
    await journal.write([append('another', { projectId: 'q' })])
    const first = await journal.claim(1)
    if (first) await journal.acknowledge(first, [])
    // Long enough for several polls: without waiting, it would be done.
    await wait(250)
    t.equal(isDone, false)
    const second = await journal.claim(1)
    t.equal(second?.last, own)
    if (second) await journal.acknowledge(second, [])
    t.equal(await reading, own)
    t.equal((await journal.depth()).entries, 1, 'the last one of the other project still waits')
  })

  t.test(`${name}: a reader whose project is not stored in time learns how much is missing`, async (t) => {
    const journal = await open(t)
    t.teardown(() => journal.close())
    await journal.write([append('own', { count: 3 }), append('other', { projectId: 'q' })])
    const barrier = new ReadBarrier(journal, never, 50)
    t.match(await barrier.waitForProject('p'), { pending: 3 })
    await t.rejects(barrier.requireProject('p'), { code: 'unavailable', message: /not caught up yet/ })
  })
}

t.test('a deletion is not taken for time that passed, even if the clock is set back', async (t) => {
  let [deletions, since] = ['1', 20_000]
  const barrier = withAging(
    {
      waitForProject: async () => ({ stored: 0n, pending: 0, deletions }),
      requireProject: async () => 0n,
      waitForAll: async () => 0n,
      reach: async () => ({ accepted: 0n, stored: 0n }),
    },
    () => since,
  )
  const before = await barrier.waitForProject('p')
  deletions = '2'
  since -= 10_000
  t.not((await barrier.waitForProject('p')).deletions, before.deletions)
})
