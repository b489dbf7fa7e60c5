import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import { START } from '../../../src/model/position.js'
import { randomName, silent, startRedis } from '../../helper.js'
import { ALL, append, commit, ofKey, ofKeys, SENDER } from '../writes.js'

const redis = await startRedis(t)
const direct = new Redis(redis.url)
t.teardown(() => direct.disconnect())

/** A journal whose bodies all have keys. */
async function fresh(t: Test, more: Partial<Parameters<typeof openRedisJournal>[0]> = {}) {
  const prefix = `{${randomName('bodies')}}`
  const open = async () => {
    const all = {
      url: redis.url,
      maxBytes: ALL,
      maxRequestKeys: { secret: 1, page: 1 },
      maxBodyInEntry: 0,
      prefix,
      log: silent,
    }
    const journal = await openRedisJournal({ ...all, ...more })
    t.teardown(() => journal.close())
    return journal
  }
  return { journal: await open(), open, prefix, bodies: async () => (await direct.keys(`${prefix}:body:*`)).sort() }
}

t.test('a body is kept until its entry is acknowledged, and no longer', async (t) => {
  const { journal, bodies } = await fresh(t)
  await journal.write([append('one'), append('two')])
  const kept = await bodies()
  t.equal(kept.length, 2)
  for (const key of kept) t.equal(await direct.pttl(key), -1, 'it does not expire')
  const block = await journal.claim(ALL)
  if (!block) return t.fail('there is a block')
  await journal.acknowledge(block, [])
  t.same(await bodies(), [])
  t.match(await journal.depth(), { entries: 0, bytes: 0 })
})

t.test('a small body is a part of its entry, and another process can read it', async (t) => {
  const { journal, open, bodies } = await fresh(t, { maxBodyInEntry: 5 })
  await journal.write([append('small'), append('larger')])
  t.equal((await bodies()).length, 1)
  await journal.close()
  const next = await open()
  const block = await next.claim(ALL)
  t.same(
    block?.entries.map(({ body }) => body.toString()),
    ['small', 'larger'],
  )
  if (block) await next.acknowledge(block, [])
  t.same(await bodies(), [])
  t.match(await next.depth(), { entries: 0, bytes: 0 })
})

t.test('a refused or repeated write leaves no body behind', async (t) => {
  const { journal, bodies } = await fresh(t, { maxBytes: 10 })
  const idempotencyKey = { key: '00'.repeat(32), fingerprint: 'ff'.repeat(32) }
  await journal.write([append('first', { ids: ofKey(idempotencyKey) })])
  await journal.write([append('first', { ids: ofKey(idempotencyKey) })])
  await journal.write([append('other', { ids: ofKey({ ...idempotencyKey, fingerprint: 'ee'.repeat(32) }) })])
  const [limited] = await journal.write([
    append('one key more', { ids: ofKey({ ...idempotencyKey, key: '11'.repeat(32) }) }),
  ])
  t.equal(limited?.status, 'limited')
  await journal.write([append('first, among others', { ids: ofKeys(idempotencyKey) })])
  t.equal((await bodies()).length, 1)
  await journal.write([append('beyond the limit', { projectId: 'q' })])
  const two = append('two events', { count: 2, ids: ofKeys(idempotencyKey, idempotencyKey) })
  const reserve = { type: 'reserve', ...SENDER, ids: ofKey(idempotencyKey) } as const
  await t.rejects(journal.write([two, reserve, commit('ada', START, ''), append('last')]), { code: 'overloaded' })
  t.equal((await bodies()).length, 2)
})

t.test('a body that no entry refers to expires', async (t) => {
  const { journal, prefix, bodies } = await fresh(t)
  await direct.hset(`${prefix}:meta`, 'id', 1)
  await t.rejects(journal.write([append('for another journal')]), { code: 'unavailable' })
  const [left = ''] = await bodies()
  const ttl = await direct.pttl(left)
  t.ok(ttl > 0 && ttl <= 60_000, `in ${ttl} ms`)
})

t.test(
  'an entry whose body somebody deleted is claimed without it, so that it does not hold up the others',
  async (t) => {
    const warnings: string[] = []
    const log = { ...silent, warn: (_data: object, message: string) => warnings.push(message) }
    const { journal, open, bodies } = await fresh(t, { log })
    await journal.write([append('gone')])
    await direct.unlink(await bodies())
    await journal.write([append('here')])
    const next = await open()
    const block = await next.claim(ALL)
    t.same(
      block?.entries.map(({ body }) => body.toString()),
      ['', 'here'],
    )
    t.equal(warnings.length, 1)
    if (block) await next.acknowledge(block, [])
    t.match(await next.depth(), { entries: 0, bytes: 0 }, 'nor does it count forever')
  },
)

t.test('a block is acknowledged even if somebody deleted all its bodies', async (t) => {
  const { journal, open, bodies } = await fresh(t)
  await journal.write([append('gone')])
  await direct.unlink(await bodies())
  await journal.close()
  const next = await open()
  const block = await next.claim(ALL)
  if (block) await next.acknowledge(block, [])
  t.match(await next.depth(), { entries: 0, bytes: 0 })
  t.match(await next.progress('p'), { stored: block?.last, pending: 0 })
})

t.test('BlockReader reads a block of another process in pieces, up to its limits of bytes and entries', async (t) => {
  const { journal, open, bodies } = await fresh(t, { maxBodyInEntry: 100 })
  const sent = Array.from({ length: 21_000 }, (_, i) => (i % 1000 === 7 ? `${i} `.padEnd(101, '.') : String(i)))
  for (let i = 0; i < sent.length; i += 3000) await journal.write(sent.slice(i, i + 3000).map((text) => append(text)))
  await journal.close()
  const next = await open()
  const stored: string[] = []
  const blocks: number[] = []
  for (const maxBytes of [1, 1000, ALL, ALL, ALL]) {
    const block = await next.claim(maxBytes)
    if (!block) continue
    const again = await next.claim(ALL)
    t.strictSame(again, { ...block, isRepeated: true }, 'a frozen block does not change')
    stored.push(...block.entries.map(({ body }) => body.toString()))
    blocks.push(block.entries.length)
    await next.acknowledge(again ?? block, [])
  }
  t.strictSame(stored, sent)
  t.equal(blocks[0], 1)
  t.equal(blocks[2], 20_000)
  t.strictSame(await bodies(), [])
  t.match(await next.depth(), { entries: 0, bytes: 0 })
})

t.test('a block that another writer stores while it is read is not returned', async (t) => {
  const { journal, open, prefix } = await fresh(t, { maxBodyInEntry: 5 })
  const other = await open()
  for (let i = 0; i < 8; i++) {
    await journal.write([append('small'), append('larger')])
    const block = await journal.claim(ALL)
    await direct.del(`${prefix}:writer`)
    const [found] = await Promise.all([
      other.claim(ALL).catch(({ code }) => code),
      block && journal.acknowledge(block, []),
    ])
    t.ok(found === null || found === 'unavailable', String(found))
    await direct.del(`${prefix}:writer`)
  }
})

t.test('entries written while another writer holds the lease are also released from memory', async (t) => {
  const { journal, open } = await fresh(t)
  const other = await open()
  await other.write([append('first')])
  t.ok(await other.claim(ALL))
  const unused: string[] = []
  journal.listen({ onReleased: (body) => unused.push(body.toString()) })
  // Its reply comes after the claim has begun, and before the reply to the claim.
  const [, block] = await Promise.all([journal.write([append('second')]), journal.claim(ALL)])
  t.equal(block, null)
  t.strictSame(unused, ['second'])
})
