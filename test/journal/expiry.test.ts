import { Redis } from 'ioredis'
import t from 'tap'
import { idBucketAt } from '../../src/journal/insert-id-memory.js'
import { STATE_MEMORY_MS, type StoredState } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { START } from '../../src/model/position.js'
import { silent, startRedis, temporaryFolder, until } from '../helper.js'
import { ALL, append, commit, idOf, key, ofEvents, ofKey, positions, request, sent } from './writes.js'

t.test('lmdb: the journal copes with a wrong clock', async (t) => {
  const path = await temporaryFolder(t)
  let now = 1_700_000_000_000
  const journal = await openLmdbJournal({ path, maxBytes: ALL, now: () => now })
  t.teardown(() => journal.close())

  t.test('positions rise although the clock jumps back', async (t) => {
    const [before = START] = positions(await journal.write([append('a')]))
    now -= 3_600_000
    const [after = START] = positions(await journal.write([append('b')]))
    t.equal(after, before + 1n)
  })

  t.test('a request is known after the clock was hours ahead for a moment', async (t) => {
    const idempotencyKey = request('of a fast clock', 'body')
    now += 5 * 3_600_000
    await journal.write([append('a', { ids: ofKey(idempotencyKey) })])
    now -= 5 * 3_600_000
    t.equal((await journal.findRequest(idempotencyKey))?.status, 'repeated')
  })

  t.test(
    'a request is forgotten after 24 to 30 hours, a stored state after ten minutes if it did not change',
    async (t) => {
      const idempotencyKey = request('r', 'body')
      await journal.write([append('a', { ids: ofKey(idempotencyKey) })])
      const [version = START] = positions(
        await journal.write([commit('ada', START, 'x', { readAt: now }), commit('bob', START, 'x', { readAt: now })]),
      )
      const settleAll = async (states: string[]) => {
        const block = await journal.claim(ALL)
        if (block)
          await journal.acknowledge(
            block,
            states.map((name) => ({ stateKey: key(name), version })),
          )
      }
      await settleAll(['ada', 'bob'])
      await journal.write([commit('bob', version, 'y')])
      now += 11 * 60 * 1000
      await settleAll([])
      t.equal((await journal.readStates([key('ada')], ALL)).states[0], null, 'the store has it')
      t.equal(
        (await journal.readStates([key('bob')], ALL)).states[0]?.state,
        'y',
        'its newer version is not stored yet',
      )
      t.not(await journal.findRequest(idempotencyKey), null)
      t.match(await journal.depth(), { stateBytes: 0, cachedBytes: 0 })
      now += 23 * 3_600_000
      t.not(await journal.findRequest(idempotencyKey), null)
      now += 7 * 3_600_000
      await journal.write([append('b')])
      await settleAll([])
      t.equal(await journal.findRequest(idempotencyKey), null)
    },
  )
})

t.test('lmdb: nothing is forgotten because the clock was 400 days ahead for an hour', async (t) => {
  const path = await temporaryFolder(t)
  const day = 86_400_000
  let [now, elapsed] = [1_700_000_000_000, 0]
  const open = () => openLmdbJournal({ path, maxBytes: ALL, now: () => now, elapsed: () => elapsed })
  let journal = await open()
  t.teardown(() => journal.close())
  const pass = (ms: number) => {
    now += ms
    elapsed += ms
  }
  const restart = async () => {
    await journal.close()
    elapsed = 0
    journal = await open()
  }
  const settle = async () => {
    await journal.write([append('x')])
    const block = await journal.claim(ALL)
    if (block) await journal.acknowledge(block, [])
  }
  const repeated = async (name: string) => {
    const ids = await journal.ids.find(sent(idOf(name)))
    return [ids.length, (await journal.findRequest(request(name, 'body')))?.status]
  }
  const send = (name: string) => {
    return journal.write([append(name, { ids: ofEvents(idOf(name), request(name, 'body')) })])
  }
  await send('before')
  await settle()
  now += 400 * day
  await settle()
  t.strictSame(await repeated('before'), [1, 'repeated'], 'while it is ahead')
  await send('ahead')
  await restart()
  pass(3_600_000)
  await settle()
  t.strictSame(await repeated('before'), [1, 'repeated'], 'after a start')
  now -= 400 * day
  await settle()
  await restart()
  for (const name of ['before', 'ahead']) t.strictSame(await repeated(name), [1, 'repeated'], 'once it is right again')
  await send('after')
  pass(11 * day)
  await settle()
  t.strictSame(await repeated('before'), [0, undefined], 'old requests are forgotten as usual')
  await send('late')
  // The journal does not know how long it was off.
  await restart()
  now += 30 * day
  await restart()
  await settle()
  t.strictSame(await repeated('late'), [1, 'repeated'])
  pass(40 * day)
  await settle()
  t.strictSame(await repeated('late'), [0, undefined])
})

t.test('lmdb: cached states lose their text although the clock was set back', async (t) => {
  let now = 1_700_000_000_000
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 80_000, now: () => now })
  t.teardown(() => journal.close())
  const store = async (name: string) => {
    const [version = START] = positions(await journal.write([commit(name, START, 'x'.repeat(1_000), { readAt: now })]))
    const block = await journal.claim(ALL)
    if (block) await journal.acknowledge(block, [{ stateKey: key(name), version }])
  }
  for (let i = 0; i < 20; i++) await store(`before ${i}`)
  now -= 3_600_000
  for (let i = 0; i < 20; i++) await store(`after ${i}`)
  const { cachedBytes } = await journal.depth()
  t.ok(cachedBytes > 8_000 && cachedBytes <= 10_000, `an eighth of the limit is kept: ${cachedBytes}`)
})

t.test('lmdb: a cached state counts until it expires', async (t) => {
  let now = 1_700_000_000_000
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: ALL, now: () => now })
  t.teardown(() => journal.close())
  const settle = async (states: StoredState[]) => {
    const block = await journal.claim(ALL)
    if (block) await journal.acknowledge(block, states)
  }
  const [version = START] = positions(await journal.write([commit('ada', START, 'x'.repeat(200), { readAt: now })]))
  await settle([{ stateKey: key('ada'), version }])
  t.equal((await journal.depth()).cachedBytes, 208)
  now += STATE_MEMORY_MS + 1
  await journal.write([append('x')])
  await settle([])
  t.equal((await journal.depth()).cachedBytes, 0)
})

t.test('redis: a cached state counts until it expires', async (t) => {
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  const [version = START] = positions(await journal.write([commit('ada', START, 'x'.repeat(200))]))
  const block = await journal.claim(ALL)
  if (block) await journal.acknowledge(block, [{ stateKey: key('ada'), version }])
  // The clock of Redis cannot be changed here. So the state expires now, and the minute of its expiry is moved to the
  // past.
  const [[minute = '', bytes = ''] = []] = Object.entries(await admin.hgetall('{j}:state-expiries'))
  t.equal(Number(minute), Math.floor((Date.now() + STATE_MEMORY_MS) / 60_000))
  t.equal((await journal.depth()).cachedBytes, Number(bytes))
  await admin.multi().hdel('{j}:state-expiries', minute).hset('{j}:state-expiries', 5, bytes).exec()
  await admin.del(`{j}:state:${key('ada')}`)
  t.equal((await journal.depth()).cachedBytes, 0)
  await journal.write([append('x')])
  const next = await journal.claim(ALL)
  if (next) await journal.acknowledge(next, [])
  t.same(await admin.hgetall('{j}:state-expiries'), {})
  t.equal(await admin.hget('{j}:meta', 'states'), '0')
})

t.test('lmdb: ids are remembered for a week, and then removed as fast as they arrive', async (t) => {
  const path = await temporaryFolder(t)
  let now = 20 * 7 * 24 * 3_600_000
  const journal = await openLmdbJournal({ path, maxBytes: ALL, now: () => now })
  t.teardown(() => journal.close())
  /** those that arrive within some time and are known to the store */
  const send = async (from: number) => {
    const ids = Array.from({ length: 2000 }, (_, i) => idOf(`${from + i}`))
    await journal.write([append('x', { count: ids.length, ids: ofEvents(ids) })])
    const block = await journal.claim(ALL)
    if (block) await journal.acknowledge(block, [])
  }
  await send(0)
  now += 7 * 24 * 3_600_000
  t.strictSame(await journal.ids.find(sent(idOf('0'))), [0])
  await send(2000)
  now += 84 * 3_600_000
  t.strictSame(await journal.ids.find(sent(idOf('0'))), [])
  await send(4000)
  await journal.close()
  const { open } = await import('lmdb')
  const root = open({ path, maxDbs: 16 })
  t.equal(root.openDB({ name: 'insert-ids', encoding: 'binary', keyEncoding: 'binary' }).getCount(), 2, 'records')
  await root.close()
})

t.test('redis: more ids are spread over more hashes, and removed a week later', async (t) => {
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  const send = (from: number, count: number) => {
    const ids = Array.from({ length: count }, (_, i) => idOf(`${from + i}`))
    return journal.write([append('x', { count: ids.length, ids: ofEvents(ids) })])
  }
  for (let from = 0; from < 8000; from += 1000) {
    await send(from, 1000)
    t.match(await send(0, from + 1000), [{ status: 'known' }], 'also while they are moved')
  }
  const bucket = idBucketAt(Date.now())
  const tiers = async () => (await admin.hget('{j}:ids', 'secret:p'))?.split(' ').slice(1) ?? []
  t.match(await tiers(), [new RegExp(`^1.3:${bucket}:[0-9]+:8:8000:0:0$`)], 'the first are moved')
  t.equal((await admin.keys('{j}:ids:secret:p:*')).length, 256)
  t.equal(await admin.object('ENCODING', '{j}:ids:secret:p:1.3:7'), 'listpack')
  t.match(await send(0, 8000), [{ status: 'known' }])

  // The clock of Redis cannot be changed here, so the ids are made older: the next bucket begins with the hashes of
  // this one.
  const age = (by: number) => admin.hset('{j}:ids', 'secret:p', `0:1:0 1.3:${bucket - by}:0:8:8000:0:0`)
  await age(2)
  t.match(await send(0, 8000), [{ status: 'known' }])
  await send(8000, 1)
  t.match(await tiers(), [/^1[.]3:/, new RegExp(`^2.1:${bucket}:[0-9]+:6:1:0:0$`)])

  await age(3)
  t.match(await send(0, 8000), [{ status: 'done', known: undefined }])
  t.match(await tiers(), [new RegExp(`^2.1:${bucket}:`)], 'as fast as new ones arrive')
  t.strictSame(await admin.keys('{j}:ids:secret:p:1.*'), [])
})

t.test('redis: a request is known for 24 hours, even if it arrived when the clock was hours ahead', async (t) => {
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  const idempotencyKey = request('r', 'body')
  await journal.write([append('a', { ids: ofKey(idempotencyKey) })])
  // The clock of Redis cannot be changed here, so the request is moved to other buckets of 6 hours.
  let [at = ''] = await admin.keys('{j}:requests:*')
  const bucket = Number(at.split(':').at(-2))
  const hoursAgo = async (hours: number) => {
    const moved = at.replace(/:\d+:/, `:${bucket - hours / 6}:`)
    if (moved !== at) await admin.rename(at, moved)
    at = moved
    await admin.hset('{j}:meta', 'request-buckets', String(bucket - hours / 6))
    return (await journal.findRequest(idempotencyKey))?.status
  }
  for (const hours of [-6, 0, 6, 12, 18, 24]) t.equal(await hoursAgo(hours), 'repeated', `${hours} hours ago`)
  t.equal(await hoursAgo(30), undefined)
})

t.test('redis: requests are forgotten by a clock that advances slowly, and then removed', async (t) => {
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  const open = () => openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent })
  const first = await open()
  const idempotencyKey = request('r', 'body')
  await first.write([append('a', { ids: ofKey(idempotencyKey) })])
  // As if the clock of Redis, which cannot be changed here, had been 400 days ahead since.
  const [hash = ''] = await admin.keys('{j}:requests:*')
  const bucket = Number(hash.split(':').at(-2))
  const [old, oldDay] = [bucket - 1600, Date.now() - 400 * 86_400_000]
  await first.close()
  await admin.rename(hash, hash.replace(`:${bucket}:`, `:${old}:`))
  await admin.rename(`{j}:request-counts:${bucket}`, `{j}:request-counts:${old}`)
  await admin.hset('{j}:meta', 'remembered', String(oldDay), 'request-buckets', `${old}`)
  const journal = await open()
  t.teardown(() => journal.close())
  t.equal((await journal.findRequest(idempotencyKey))?.status, 'repeated')
  t.match(await journal.write([append('a', { ids: ofKey(idempotencyKey) })]), [{ status: 'repeated' }])
  t.equal(await admin.ttl((await admin.keys('{j}:requests:*'))[0] ?? ''), -1)
  await admin.hset('{j}:meta', 'remembered', String(Date.now()))
  t.match(await journal.write([append('a', { ids: ofKey(idempotencyKey) })]), [{ status: 'done' }])
  const isRemoved = async () => (await admin.hget('{j}:meta', 'request-buckets'))?.trim() === String(bucket)
  await until('old requests are removed', isRemoved)
  t.strictSame((await admin.keys('{j}:request*')).sort(), [hash, `{j}:request-counts:${bucket}`].sort())
  t.equal((await journal.findRequest(idempotencyKey))?.status, 'repeated')
})

t.test('lmdb: requests are removed as fast as they arrive, and only expired ones', async (t) => {
  const path = await temporaryFolder(t)
  let now = 1_700_000_000_000
  const journal = await openLmdbJournal({ path, maxBytes: ALL, now: () => now })
  t.teardown(() => journal.close())
  /** those that arrive within some time and are known to the store */
  const send = async (from: number) => {
    const requests = Array.from({ length: 5000 }, (_, i) => request(`${from + i}`, ''))
    await journal.write(requests.map((idempotencyKey) => append('x', { ids: ofKey(idempotencyKey) })))
    const block = await journal.claim(ALL)
    if (block) await journal.acknowledge(block, [])
  }
  await send(0)
  await send(5000)
  now += 31 * 3_600_000
  await send(10_000)
  await journal.close()
  const { open } = await import('lmdb')
  const root = open({ path, maxDbs: 16 })
  t.equal(root.openDB({ name: 'requests', encoding: 'binary', keyEncoding: 'binary' }).getCount(), 5000)
  t.equal(root.openDB({ name: 'request-counts', encoding: 'binary', keyEncoding: 'binary' }).getCount(), 1)
  await root.close()
})
