import { Redis } from 'ioredis'
import t from 'tap'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import { positionAt, START } from '../../../src/model/position.js'
import { silent, startRedis } from '../../helper.js'
import { ALL, append, commit } from '../writes.js'

t.test('a write that Redis refuses because it is out of memory leaves no body', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url, maxBytes: ALL, log: silent })
  t.teardown(() => journal.close())
  await journal.write([append('first')])
  const used = Number(/used_memory:(\d+)/.exec(await admin.info('memory'))?.[1])
  await admin.config('SET', 'maxmemory', String(used + 500_000))
  // The body still fits, but the arguments of the script do not.
  const writes = [append('x'.repeat(100_000)), commit('ada', START, 'x'.repeat(1_000_000))]
  await t.rejects(journal.write(writes), { code: 'overloaded' })
  const bodies = await admin.keys('*:body:*')
  t.equal(bodies.length, 1)
  for (const body of bodies) t.ok((await admin.pttl(body)) > 0, 'a body of no entry expires')
})

t.test('advancePast works while Redis is out of memory', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url, maxBytes: ALL, log: silent })
  t.teardown(() => journal.close())
  await journal.write([append('first')])
  await admin.config('SET', 'maxmemory', '1mb')
  const later = positionAt(Date.now() + 1_000)
  await journal.advancePast(later)
  t.equal((await journal.progress()).appended, later)
})

t.test('noteDeletion works while Redis is out of memory', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url, maxBytes: ALL, log: silent })
  t.teardown(() => journal.close())
  await admin.config('SET', 'maxmemory', '1mb')
  await journal.noteDeletion('p')
  t.equal((await journal.progress('p')).deletions, 1)
})
