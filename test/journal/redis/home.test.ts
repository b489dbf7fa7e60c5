import t, { type Test } from 'tap'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import { NO_IDS } from '../../../src/model/request-ids.js'
import { randomName, silent, startRedis, until } from '../../helper.js'

const ALL = 1024 * 1024

/** A home and a guest writer of the same lane. */
async function start(t: Test) {
  const { url } = await startRedis(t)
  const prefix = `{${randomName('home')}}`
  const open = async (isHome: boolean) => {
    const journal = await openRedisJournal({ url, maxBytes: ALL, prefix, isHome, log: silent })
    t.teardown(() => journal.close())
    return journal
  }
  const guest = await open(false)
  const home = await open(true)
  const write = (event: string) =>
    guest.write([
      {
        type: 'append',
        keyClass: 'secret',
        projectId: 'p',
        count: 1,
        body: Buffer.from(`{"events":[${event}]}`),
        ids: NO_IDS,
      },
    ])
  return { guest, home, write }
}

t.test('a guest writer yields to a home writer, and takes over when that one is gone', async (t) => {
  const { guest, home, write } = await start(t)
  await write('1')
  const first = await guest.claim(ALL)
  t.ok(first, 'a lane that nobody wants is taken immediately')
  t.equal(await home.claim(ALL), null, 'its block is finished first')
  if (first) await guest.acknowledge(first, [])
  await write('2')
  t.equal(await guest.claim(ALL), null, 'then it makes room')
  const second = await home.claim(ALL)
  t.ok(second)
  t.equal(await guest.claim(ALL), null)
  if (second) await home.acknowledge(second, [])
  await write('3')
  await home.close()
  t.ok(await until('the guest to take over', () => guest.claim(ALL).then((block) => block ?? undefined)))
})

t.test('a writer that cannot store its block yields to one that is waiting', async (t) => {
  const { guest, home, write } = await start(t)
  await write('1')
  const block = await home.claim(ALL)
  t.equal(await home.yieldLease(), false, 'nobody is waiting')
  t.same(await home.claim(ALL), { ...block, isRepeated: true })
  // A request to take over is forgotten after 3 s.
  await until('home to yield', async () => {
    await home.claim(ALL)
    return (await guest.claim(ALL)) === null && (await home.yieldLease())
  })
  const repeated = await guest.claim(ALL)
  t.same(repeated, { ...block, isRepeated: true }, 'the same block, which may have been sent')
  t.equal(await home.claim(ALL), null)
  if (repeated) await guest.acknowledge(repeated, [])
  await write('2')
  t.ok(await guest.claim(ALL), 'a home writer that has yielded does not take the lease back at once')
  t.equal(await home.yieldLease(), true, 'it does not have it')
  await until('the guest to yield', async () => {
    await guest.claim(ALL)
    return (await home.claim(ALL)) === null && (await guest.yieldLease())
  })
  t.ok(await home.claim(ALL), 'but when it is free')
})
