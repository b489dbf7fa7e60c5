import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import type { PerClass } from '../../src/journal/sender-limits.js'
import type { Sender } from '../../src/model/sender.js'
import { silent, startRedis, temporaryFolder } from '../helper.js'
import { ALL, append, idOf, ofEvents, ofKey, request, SENDER, sent } from './writes.js'

interface Options {
  maxIds?: PerClass
  maxRequestKeys?: PerClass
}

const PAGE: Sender = { projectId: 'p', keyClass: 'page' }
const OTHER: Sender = { projectId: 'other', keyClass: 'page' }
const MAX: PerClass = { secret: 4000, page: 1000 }

const idsOf = (from: number, count: number) => Array.from({ length: count }, (_, i) => idOf(`${from + i}`))

function take(journal: Journal, sender: Sender, from: number, count: number) {
  return journal.write([append('x', { ...sender, count, ids: ofEvents(idsOf(from, count)) })])
}

async function known(journal: Journal, sender: Sender, from: number, count: number): Promise<number> {
  return (await journal.ids.find(sent(idsOf(from, count), sender))).length
}

const warnings: object[] = []
const log = { ...silent, warn: (fields: object) => warnings.push(fields) }

const OPEN = {
  lmdb: async (t: Test, options: Options) => {
    const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: ALL, log, ...options })
    t.teardown(() => journal.close())
    return journal
  },
  redis: async (t: Test, options: Options) => {
    const { url } = await startRedis(t)
    const journal = await openRedisJournal({ url, maxBytes: ALL, prefix: '{j}', log, ...options })
    t.teardown(() => journal.close())
    return journal
  },
}

for (const [name, open] of Object.entries(OPEN)) {
  t.test(`${name}: ids of one sender are not known for another, and refuse nothing of another`, async (t) => {
    const journal = await open(t, { maxRequestKeys: { secret: 2, page: 2 } })
    t.match(await take(journal, PAGE, 0, 10), [{ status: 'done', known: undefined }])
    t.match(await take(journal, SENDER, 0, 10), [{ status: 'done', known: undefined }])
    t.match(await take(journal, OTHER, 0, 10), [{ status: 'done', known: undefined }])
    t.match(await take(journal, PAGE, 0, 10), [{ status: 'known' }])
    const keyed = (key: string, sender: Sender) =>
      append('x', { ...sender, ids: ofKey(request(`${sender.keyClass} ${key}`, 'x')) })
    t.match(await journal.write([keyed('1', PAGE), keyed('2', PAGE), keyed('3', PAGE), keyed('1', SENDER)]), [
      { status: 'done' },
      { status: 'done' },
      { status: 'limited' },
      { status: 'done' },
    ])
  })

  t.test(`${name}: a sender of too many ids only shortens the time for which its own are known`, async (t) => {
    const journal = await open(t, { maxIds: MAX })
    warnings.length = 0
    await take(journal, OTHER, 0, 100)
    await take(journal, SENDER, 0, 1000)
    await take(journal, PAGE, 0, 100)
    const begun = Date.now()
    for (let from = 0; from < 5000; from += 100) {
      t.match(await take(journal, PAGE, from, 100), [{ status: from === 0 ? 'known' : 'done' }])
      const last = Math.min(from + 100, MAX.page / 2)
      t.equal(await known(journal, PAGE, from + 100 - last, last), last, 'half of the limit is always known')
    }
    t.equal(await known(journal, PAGE, 0, 1000), 0)
    t.equal(await known(journal, SENDER, 0, 1000), 1000, 'nor of another kind of key')
    t.equal(await known(journal, OTHER, 0, 100), 100, 'nor of another project')
    const uses = new Map(
      (await journal.ids.use()).map((use) => [`${use.sender.keyClass} ${use.sender.projectId}`, use]),
    )
    t.match(uses.get('secret p'), { ids: 1000, since: null })
    t.match(uses.get('page other'), { ids: 100, since: null })
    const { ids = 0, since, isRequested } = uses.get('page p') ?? {}
    t.ok(ids >= MAX.page / 2 && ids <= MAX.page, `${ids}`)
    t.ok(since && since >= begun - 1000 && since <= Date.now() + 1000, 'and the journal says since when they are known')
    t.equal(isRequested, false)
    t.strictSame(warnings, [{ project: 'p', kind: 'page' }], 'one warning')
    t.match(await journal.ids.use('other'), [{ sender: OTHER, ids: 100 }])
  })

  t.test(`${name}: ids are not forgotten below the limit`, async (t) => {
    const journal = await open(t, { maxIds: { secret: 2000, page: 1000 } })
    for (let from = 0; from < 2000; from += 250) await take(journal, SENDER, from, 250)
    t.equal(await known(journal, SENDER, 0, 2000), 2000)
    t.match(await journal.ids.use(), [{ ids: 2000, since: null }])
  })

  t.test(`${name}: the ids of one sender can be forgotten`, async (t) => {
    const journal = await open(t, {})
    await take(journal, PAGE, 0, 1000)
    for (let from = 0; from < 4000; from += 1000) await take(journal, SENDER, from, 1000)
    await Promise.all([journal.ids.forget(SENDER), take(journal, PAGE, 1000, 1000)])
    t.equal(await known(journal, SENDER, 0, 4000), 0)
    t.equal(await known(journal, PAGE, 0, 2000), 2000)
    t.match(await take(journal, SENDER, 0, 1000), [{ status: 'done', known: undefined }])
    t.equal(await known(journal, SENDER, 0, 1000), 1000)
    t.equal(await known(journal, SENDER, 1000, 1000), 0)
    const use = (await journal.ids.use()).find(({ sender }) => sender.keyClass === SENDER.keyClass)
    t.ok(use?.since && use.isRequested, 'the journal says that this was requested')
    await journal.ids.forget({ projectId: 'nobody', keyClass: 'page' })
  })
}

t.test('lmdb: ids of many projects are known, although few are open at a time, and after a restart', async (t) => {
  const path = await temporaryFolder(t)
  let journal = await openLmdbJournal({ path, maxBytes: ALL })
  t.teardown(() => journal.close())
  const sender = (i: number): Sender => ({ projectId: `project-${i}`, keyClass: 'page' })
  const all = Array.from({ length: 1000 }, (_, i) => i)
  const write = () => journal.write(all.map((i) => append('x', { ...sender(i), count: 5, ids: ofEvents(idsOf(0, 5)) })))
  t.ok((await write()).every(({ status }) => status === 'done'))
  t.ok((await write()).every(({ status }) => status === 'known'))
  await journal.close()
  journal = await openLmdbJournal({ path, maxBytes: ALL })
  t.equal(
    (await journal.ids.use()).reduce((sum, { ids }) => sum + ids, 0),
    5000,
  )
  t.ok((await write()).every(({ status }) => status === 'known'))
})

t.test('redis: ids of many projects take little memory, which is free again once they are forgotten', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  const names = Array.from({ length: 1000 }, (_, i) => `project-${i}`)
  await journal.write(
    names.map((projectId) => {
      return append('x', { projectId, keyClass: 'page', count: 5, ids: ofEvents(idsOf(0, 5)) })
    }),
  )
  const keys = await admin.keys('{j}:ids*')
  t.equal(keys.length, 1001)
  let bytes = 0
  for (const key of keys) bytes += (await admin.memory('USAGE', key, 'SAMPLES', 0)) ?? 0
  t.ok(bytes < 1000 * 600, `${bytes} bytes`)
  await journal.ids.forget({ projectId: 'project-7', keyClass: 'page' })
  t.strictSame(await admin.keys('{j}:ids:page:project-7:*'), [])
})

t.test('redis: ids that fill it can be forgotten while it refuses writes, and the refusal says so', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const journal = await openRedisJournal({ url, maxBytes: ALL, prefix: '{j}', log: silent })
  t.teardown(() => journal.close())
  for (let from = 0; from < 60_000; from += 2000) await take(journal, PAGE, from, 2000)
  const block = await journal.claim(ALL)
  if (block) await journal.acknowledge(block, [])
  const [, used] = /used_memory:(\d+)/.exec(await admin.info('memory')) ?? []
  await admin.config('SET', 'maxmemory', String(Math.floor(Number(used) * 0.9)))
  let refusal: Error | undefined
  // The memory of Redis is read every second.
  while (!refusal?.message.includes('tallyhouse ids')) {
    refusal = await take(journal, SENDER, 0, 1).then(
      () => undefined,
      (error) => error,
    )
  }
  t.match(refusal, { code: 'overloaded', message: /^Redis has no memory left[.].*insert_ids about \d+ %/ })
  await journal.ids.forget(PAGE)
  t.strictSame(await admin.keys('{j}:ids:page:*'), [])
})

t.test('redis: no ids are forgotten because the clock was set', async (t) => {
  const { url } = await startRedis(t)
  const admin = new Redis(url)
  t.teardown(() => admin.disconnect())
  const open = () => openRedisJournal({ url, maxBytes: ALL, prefix: '{j}', log: silent })
  let journal = await open()
  t.teardown(() => journal.close())
  const day = 86_400_000
  await take(journal, SENDER, 0, 10)
  // The state as if the clock of Redis, which cannot be changed here, had been 400 days ahead since.
  const text = (await admin.hget('{j}:ids', 'secret:p')) ?? ''
  const bucket = Number(/ 1[.]1:(\d+):/.exec(text)?.[1])
  const ago = Math.round((400 * day) / (3.5 * day))
  await journal.close()
  await admin.hset('{j}:ids', 'secret:p', text.replace(`:${bucket}:`, `:${bucket - ago}:`))
  await admin.hset('{j}:meta', 'remembered', String(Date.now() - 400 * day))
  journal = await open()
  t.match(await take(journal, SENDER, 0, 10), [{ status: 'known' }])
  t.equal((await journal.ids.use())[0]?.ids, 10)
  t.equal(await known(journal, SENDER, 0, 10), 10, 'nor does a sweep remove them')
  const told = Number(await admin.hget('{j}:meta', 'remembered'))
  t.ok(told < Date.now() - 399 * day, 'its own clock advances slowly')
  await admin.hset('{j}:meta', 'remembered', String(Date.now()))
  t.match(await take(journal, SENDER, 0, 10), [{ status: 'done', known: undefined }])
})
