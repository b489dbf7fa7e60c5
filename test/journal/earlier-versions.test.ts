import { Redis } from 'ioredis'
import t from 'tap'
import { type Journal, STATE_MEMORY_MS } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { silent, startRedis, temporaryFolder } from '../helper.js'
import { ALL, append, commit, key, request } from './writes.js'

t.test('redis: a state that an earlier version stored, and did not count, is replaced', async (t) => {
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  await admin.set(`{j}:state:${key('ada')}`, '12-3 {"n":"of 2026"}', 'PX', STATE_MEMORY_MS)
  const [outcome] = await journal.write([commit('ada', (12n << 16n) + 3n, 'newer')])
  t.equal(outcome?.status, 'done')
  const { states } = await journal.readStates([key('ada')], ALL)
  t.equal(states[0]?.state, 'newer')
  t.match(await journal.depth(), { stateBytes: 5, cachedBytes: 0 })
})

t.test('requests that an earlier version remembered are known', async (t) => {
  const old = request('old', 'body')
  const other = request('old', 'another body')
  const check = async (journal: Journal) => {
    t.strictSame(await journal.findRequest(old), { status: 'repeated', position: (12n << 16n) + 3n })
    t.strictSame(await journal.write([append('a', { idempotencyKey: old }), append('a', { idempotencyKey: other })]), [
      { status: 'repeated', position: (12n << 16n) + 3n },
      { status: 'mismatch' },
    ])
    await journal.close()
  }
  const server = await startRedis(t)
  const admin = new Redis(server.url)
  t.teardown(() => admin.disconnect())
  await admin.set(`{j}:request:${old.key}`, `12-3 ${old.fingerprint}`, 'PX', 60_000)
  await check(await openRedisJournal({ url: server.url, maxBytes: ALL, prefix: '{j}', log: silent }))

  const path = await temporaryFolder(t)
  const { open } = await import('lmdb')
  const root = open({ path, maxDbs: 8 })
  const requests = root.openDB({ name: 'requests', encoding: 'binary', keyEncoding: 'binary' })
  const position = Buffer.alloc(8)
  position.writeBigUInt64BE((12n << 16n) + 3n)
  await requests.put(Buffer.from(old.key, 'hex'), Buffer.concat([position, Buffer.from(old.fingerprint)]))
  await root.close()
  await check(await openLmdbJournal({ path, maxBytes: ALL }))
})
