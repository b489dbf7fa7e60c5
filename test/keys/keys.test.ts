import Fastify from 'fastify'
import t from 'tap'
import { KeyRefresh } from '../../src/keys/key-refresh.js'
import { KeyRing } from '../../src/keys/key-ring.js'
import { environmentKeys, makeKey, type StoredKey, storedKey } from '../../src/keys/keys.js'
import { until } from '../helper.js'

t.test('makeKey returns 256 random bits with a prefix for the kind', async (t) => {
  const keys = new Set(Array.from({ length: 1000 }, () => makeKey('secret')))
  t.equal(keys.size, 1000)
  for (const key of keys) t.equal(Buffer.from(key.slice(3), 'base64url').length, 32)
  t.match(makeKey('secret'), /^sk_[\w-]{43}$/)
  t.match(makeKey('public'), /^pk_[\w-]{43}$/)
})

t.test('storedKey does not reveal the key', async (t) => {
  const key = makeKey('secret')
  const { id, hash } = storedKey(key, { projectId: 'p', kind: 'secret' })
  t.equal(id, key.slice(0, 11))
  t.match(hash, /^[\da-f]{64}$/)
})

t.test('environmentKeys refuses a key of another kind', async (t) => {
  t.throws(() => environmentKeys({ SECRET_KEY: makeKey('read') }), /^SECRET_KEY is a read key, but .* a secret one/)
  t.throws(() => environmentKeys({ PUBLIC_API_KEY: makeKey('secret') }), /^PUBLIC_API_KEY is a secret key, but/)
  const keys = environmentKeys({ SECRET_KEY: 'a secret without a prefix', PUBLIC_API_KEY: makeKey('public') })
  t.strictSame(
    keys.map(({ id, kind }) => [id, kind]),
    [
      ['PUBLIC_API_KEY', 'public'],
      ['SECRET_KEY', 'secret'],
    ],
  )
})

t.test('several keys of a kind are valid at the same time, and a revoked one is refused', async (t) => {
  const grant = { projectId: 'p', kind: 'secret' } as const
  const [fixed, old, fresh] = [makeKey('secret'), makeKey('secret'), makeKey('secret')]
  const ring = new KeyRing([storedKey(fixed, grant)])
  ring.replaceStored([storedKey(old, grant), storedKey(fresh, grant)])
  for (const key of [fixed, old, fresh, old]) t.match(ring.find(key), grant)
  ring.replaceStored([storedKey(fresh, grant)])
  t.equal(ring.find(old), null, 'although it was cached')
  for (const key of [fixed, fresh]) t.match(ring.find(key), grant)
})

t.test('unknown keys are not kept in memory', async (t) => {
  const grant = { projectId: 'p', kind: 'secret' } as const
  const good = makeKey('secret')
  const ring = new KeyRing([storedKey(good, grant)])
  const before = process.memoryUsage()
  for (let i = 0; i < 20_000; i++) ring.find(`sk_${String(i).padEnd(20_000, 'x')}`)
  const after = process.memoryUsage()
  const grown = after.heapUsed - before.heapUsed + after.external - before.external
  t.ok(grown < 200_000_000, `400 MB of keys, ${grown} bytes`)
  t.match(ring.find(good), grant)
})

t.test(
  'wrong keys trigger one read of the stored keys a second after the first ones, which find new keys',
  async (t) => {
    const closing = new AbortController()
    t.teardown(() => closing.abort())
    const stored: StoredKey[] = []
    let reads = 0
    const table = {
      read: async () => {
        reads++
        return [...stored]
      },
      isEmpty: async () => stored.length === 0,
      claimFirst: async () => true,
      insert: async (keys: StoredKey[]) => void stored.push(...keys),
      audit: async () => undefined,
    }
    const ring = new KeyRing([])
    await new KeyRefresh({ ring, table, log: Fastify().log, closing: closing.signal }).start('p')
    t.equal(reads, 1)
    for (const which of ['first', 'second']) {
      const fresh = makeKey('secret')
      stored.push(storedKey(fresh, { projectId: 'p', kind: 'secret' }))
      t.equal(ring.find(fresh), null)
      t.match(
        await ring.findNew(fresh),
        { projectId: 'p' },
        `the ${which} immediately, although the keys have just been read`,
      )
    }
    const startedAt = performance.now()
    for (let i = 0; i < 100; i++) t.equal(await ring.findNew(makeKey('secret')), null)
    const wrong = Array.from({ length: 10_000 }, () => ring.findNew(makeKey('secret')))
    for (const grant of await Promise.all(wrong)) if (grant) t.fail('a wrong key was accepted')
    t.ok(reads <= 11 + (performance.now() - startedAt) / 1000, `${reads} reads`)
  },
)

t.test('a key that is created during a read works immediately, too', async (t) => {
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const stored: StoredKey[] = []
  let reads = 0
  let answer: (() => void) | undefined
  const answered = new Promise<void>((resolve) => {
    answer = resolve
  })
  const table = {
    read: async () => {
      const found = [...stored]
      reads++
      if (reads === 2) await answered
      return found
    },
    isEmpty: async () => false,
    claimFirst: async () => true,
    insert: async () => undefined,
    audit: async () => undefined,
  }
  const ring = new KeyRing([])
  await new KeyRefresh({ ring, table, log: Fastify().log, closing: closing.signal }).start('p')
  const running = ring.findNew(makeKey('secret'))
  await until('a read', () => reads === 2)
  const fresh = makeKey('secret')
  stored.push(storedKey(fresh, { projectId: 'p', kind: 'secret' }))
  const finding = Array.from({ length: 100 }, () => ring.findNew(fresh))
  answer?.()
  const found = await Promise.all(finding)
  t.ok(found.every((grant) => grant?.projectId === 'p'))
  t.equal(await running, null)
  t.equal(reads, 3, 'all of them share the next read')
})
