import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ApiError } from '../../src/contract/errors.js'
import { GroupCommit } from '../../src/ingest/group-commit.js'
import { QueueBudget } from '../../src/ingest/queue-budget.js'
import type { Append, Fullness, Journal, Outcome } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { fromServer, temporaryFolder, until } from '../helper.js'
import { batchFrom, eventFrom } from '../submissions.js'

/** A journal whose writes wait for a gate, and the order of events in it and its callers. */
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
  const listen: Journal['listen'] = (listener) => journal.listen(listener)
  const commits = new GroupCommit({ id: journal.id, write, listen } as Journal, new BufferPool())
  const track = (name: string) =>
    commits.append(eventFrom(fromServer('p'), Buffer.from('{}')), NO_IDS).then(
      () => happened.push(`${name} resolved`),
      () => happened.push(`${name} refused`),
    )
  const sent = (count: number) => until(`write ${count}`, () => gates.length === count)
  return { commits, happened, gates, track, sent }
}

t.test('queued requests are written before those of the previous write are resolved', async (t) => {
  const { commits, happened, gates, track, sent } = await open(t)
  track('a')
  track('b')
  await sent(1)
  track('c')
  gates[0]?.()
  await sent(2)
  await until('both requests', () => happened.includes('b resolved'))
  t.strictSame(happened, ['write of 2', 'write of 1', 'a resolved', 'b resolved'])
  track('d')
  const closed = commits.close()
  gates[1]?.()
  await sent(3)
  gates[2]?.()
  await closed
  t.strictSame(happened.slice(4), ['write of 1', 'c resolved', 'd resolved'])
})

t.test('requests of consecutive turns share a write, up to a turn without one', async (t) => {
  const { happened, gates, track, sent } = await open(t)
  for (const name of ['a', 'b', 'c']) {
    track(name)
    await nextTurn()
  }
  await sent(1)
  t.strictSame(happened, ['write of 3'])
  gates[0]?.()
  await until('the last request', () => happened.includes('c resolved'))
})

t.test('enough requests are written before the end of their turn', async (t) => {
  const { commits, happened, gates, track } = await open(t)
  for (let i = 0; i < 32; i++) track(`${i}`)
  await new Promise<void>((resolve) => process.nextTick(resolve))
  t.strictSame(happened, ['write of 32'])
  gates[0]?.()
  await commits.close()
})

t.test('a failed write refuses the requests that share it, and no others', async (t) => {
  const { commits, happened, gates, track, sent } = await open(t)
  track('a')
  await sent(1)
  track('b')
  gates[0]?.(new Error('the disk is full'))
  await sent(2)
  gates[1]?.()
  await until('the request', () => happened.includes('b resolved'))
  t.strictSame(happened, ['write of 1', 'write of 1', 'a refused', 'b resolved'])
  t.equal(commits.metrics.accepted, 1)
})

t.test('events with keys share an entry, and a repeated one gets the place of the first', async (t) => {
  const { commits, happened, gates, sent } = await open(t)
  const key = (name: string, fingerprint = '00') => {
    return { key: name.repeat(64), fingerprint: fingerprint.repeat(32) }
  }
  const track = (...args: Parameters<typeof key>) =>
    commits.append(eventFrom(fromServer('p'), Buffer.from('{}')), { kind: 'request', key: key(...args) })
  const first = Promise.all([track('a'), track('b'), track('b')])
  await sent(1)
  gates[0]?.()
  const [a, b, again] = await first
  t.match([a, b], [{ index: 0 }, { position: a?.position, index: 1 }])
  t.strictSame(again, b)
  const second = Promise.all([
    t.rejects(track('a', 'ff'), { code: 'idempotency_conflict' }),
    track('b'),
    track('c'),
    commits.append(eventFrom(fromServer('p'), Buffer.from('{}')), NO_IDS),
  ])
  await sent(2)
  gates[1]?.()
  const [, repeated, c, plain] = await second
  t.strictSame(repeated, b)
  t.equal(c?.index, 2)
  t.not(c?.position, plain?.position, 'other lanes can take those without a key')
  t.strictSame(happened, ['write of 3', 'write of 4'])
  t.match(commits.metrics, { accepted: 4, repeated: 0 })
})

t.test('the buffers of events and of the entries built from them are reused', async (t) => {
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 1024 ** 3, memoryBytes: 0 })
  t.teardown(() => journal.close())
  const pool = new BufferPool()
  const commits = new GroupCommit(journal, pool)
  const textOf = (n: number) =>
    JSON.stringify({ event: `e${n}`, distinct_id: 'd', properties: { text: 'x'.repeat(8192) } })
  const pieces = new Set<ArrayBufferLike>()
  for (let i = 0; i < 100; i++) {
    const bodies = Array.from({ length: 10 }, (_, n) => {
      const text = Buffer.from(textOf(10 * i + n))
      return pool.concat([text], text.length)
    })
    for (const { buffer } of bodies) pieces.add(buffer)
    const [keyed, ...shared] = bodies as [Buffer, ...Buffer[]]
    const key = { key: String(i).padStart(32, '0'), fingerprint: '00'.repeat(32) }
    await Promise.all([
      commits.append(eventFrom(fromServer('p'), keyed), { kind: 'request', key }),
      ...shared.map((body) => commits.append(eventFrom(fromServer('p'), body), NO_IDS)),
    ])
  }
  t.ok(pieces.size <= 2, `8 MB of events needed ${pieces.size} slabs of the pool`)
  const block = await journal.claim(1024 ** 3)
  const events = block?.entries.flatMap(({ body }) =>
    JSON.parse(body.toString()).events.map((event: object) => JSON.stringify(event)),
  )
  t.strictSame(events?.sort(), Array.from({ length: 1000 }, (_, n) => textOf(n)).sort())
})

t.test('the buffers of requests that are not admitted are released once', async (t) => {
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 1024 ** 3 })
  t.teardown(() => journal.close())
  const pool = new BufferPool()
  const commits = new GroupCommit(journal, pool)
  await commits.close()
  const take = (length: number, fill: string) => pool.concat([Buffer.alloc(length, fill)], length)
  const key = { key: '0'.repeat(32), fingerprint: '00'.repeat(32) }
  const appends: ((body: Buffer) => Promise<unknown>)[] = [
    (body: Buffer) => commits.append(eventFrom(fromServer('p'), body), NO_IDS),
    (body: Buffer) => commits.append(batchFrom(fromServer('p'), body, 1), NO_IDS),
    (body: Buffer) => commits.append(eventFrom(fromServer('p'), body), { kind: 'request', key }),
  ]
  for (const append of appends) {
    const slabs = new Set<ArrayBufferLike>()
    for (let i = 0; i < 100; i++) {
      const body = take(100_000, 'b')
      slabs.add(body.buffer)
      await t.rejects(append(body), { code: 'unavailable' })
    }
    t.equal(slabs.size, 1, '10 MB of refused bodies needed one slab of the pool')
    // If a body were released twice, its neighbour would count as released and be overwritten.
    const kept = take(100_000, 'k')
    await t.rejects(append(take(100_000, 'b')), { code: 'unavailable' })
    const next = take(1_000_000, 'n')
    t.ok(kept.equals(Buffer.alloc(100_000, 'k')))
    for (const body of [kept, next]) pool.release(body)
  }
})

t.test('GroupCommit reports the last position of each write, also for repeated requests', async (t) => {
  const positions = [5n, 3n, 9n]
  const outcomes: Outcome[][] = [
    [{ status: 'done', position: 5n }],
    [{ status: 'repeated', position: 3n }],
    [{ status: 'repeated', position: 9n, journalId: 7 }],
    [{ status: 'mismatch' }],
    [{ status: 'done', position: 10n, known: [1], refused: [{ status: 'repeated', position: 11n }] }],
  ]
  const journal = { id: 1, write: async () => outcomes.shift(), listen: () => () => undefined }
  const floors: bigint[] = []
  const onWritten = (position: bigint) => void floors.push(position)
  const commits = new GroupCommit(journal as unknown as Journal, new BufferPool(), { onWritten })
  const key = { key: '00', fingerprint: '00' }
  for (const position of positions) {
    const appended = await commits.append(batchFrom(fromServer('p'), Buffer.from('{}'), 1), { kind: 'request', key })
    t.equal(appended?.position, position)
  }
  await t.rejects(commits.reserve(fromServer('p'), key), { code: 'idempotency_conflict' })
  t.strictSame(floors, [...positions, 0n])
  await Promise.all(
    [1, 2].map(() => commits.append(eventFrom(fromServer('p'), Buffer.from('{}')), { kind: 'request', key })),
  )
  t.equal(floors.at(-1), 11n)
})

t.test('GroupCommit keeps events with keys if its journal refuses them or does not respond', async (t) => {
  const isDone: Outcome[] = [{ status: 'done', position: 1n }]
  const gates: ((outcome: Outcome[] | Error) => void)[] = []
  const write = () =>
    new Promise((resolve, reject) => {
      gates.push((outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome)))
    })
  const journal = { id: 1, isUp: false, write, listen: () => () => undefined }
  const moved: string[] = []
  const append = async ({ body }: Append) => {
    moved.push(body.toString())
    return { position: 2n, index: 0, journalId: 2 }
  }
  const overflow = { isOpen: () => true, append }
  const commits = new GroupCommit(journal as unknown as Journal, new BufferPool(), { overflow })
  t.teardown(() => commits.close())
  const keyed = (n: number) => {
    const key = { key: `${n}`.repeat(64), fingerprint: '00' }
    return commits.append(eventFrom(fromServer('p'), Buffer.from(`${n}`)), { kind: 'request', key })
  }
  const refused = keyed(1)
  await until('the first write', () => gates.length === 1)
  const [waiting, plain] = [keyed(2), commits.append(eventFrom(fromServer('p'), Buffer.from('3')), NO_IDS)]
  await until('the overflow to have the event without a key', () => moved.length === 1)
  t.match(await plain, { journalId: 2 })
  t.strictSame(moved, ['{"events":[3]}'])
  gates[0]?.(new ApiError('unavailable', 'The journal is down.'))
  await t.rejects(refused, { code: 'unavailable' })
  await until('the second write', () => gates.length === 2)
  gates[1]?.(isDone)
  t.match(await waiting, { position: 1n, journalId: 1 })
  t.equal(moved.length, 1)
})

/** A journal that refuses writes, for these reasons one after the other. */
function fullJournal(...fullness: Fullness[]): Journal {
  const write: Journal['write'] = async () => [{ status: 'full', fullness: fullness.shift() ?? 'all' }]
  return { id: 1, isUp: true, write, listen: () => () => undefined } as unknown as Journal
}

t.test('GroupCommit distinguishes a sender’s full share from a full journal, which is nobody’s limit', async (t) => {
  const commits = new GroupCommit(fullJournal('own', 'all', 'own'), new BufferPool())
  const refuse = (count: number) =>
    commits.append(batchFrom(fromServer('p'), Buffer.from('{}'), count), NO_IDS).catch((error) => error)
  t.match(await refuse(5), { code: 'overloaded', limit: 'journal' })
  t.match(await refuse(3), { code: 'overloaded', limit: undefined })
  t.match(await refuse(2), { code: 'overloaded', limit: 'journal' })
  t.match(commits.metrics, { refused: { overloaded: 10 }, overShare: 7 })
})

t.test('GroupCommit does not count events that the overflow takes as refused', async (t) => {
  const overflow = { isOpen: () => true, append: async () => ({ position: 5n, index: 0, journalId: 2 }) }
  const commits = new GroupCommit(fullJournal('own'), new BufferPool(), { overflow })
  t.teardown(() => commits.close())
  t.match(await commits.append(batchFrom(fromServer('p'), Buffer.from('{}'), 5), NO_IDS), {
    position: 5n,
    journalId: 2,
  })
  t.match(commits.metrics, { refused: { overloaded: 0 }, overShare: 0 })
})

t.test('GroupCommit releases the body of a refused request once, unless the outcome is unknown', async (t) => {
  const pool = new BufferPool()
  const released: Buffer[] = []
  pool.release = (body) => void released.push(body)
  const refusals = (['overloaded', 'unavailable', 'internal'] as const).map((code) => new ApiError(code, 'It is down.'))
  let writes = 0
  const write: Journal['write'] = async () => Promise.reject(refusals[writes++])
  const commits = new GroupCommit({ ...fullJournal(), write }, pool)
  const bodies = ['1', '2', '3'].map((text) => Buffer.from(text))
  for (const body of bodies) await t.rejects(commits.append(batchFrom(fromServer('p'), body, 1), NO_IDS))
  t.strictSame(released.map(String), ['1', '2'])
})

/** A group commit whose journal does not respond before `respond`. */
function hanging(budget: QueueBudget, isOneOfSeveral: boolean) {
  let respond = () => {}
  const isReleased = new Promise<void>((resolve) => {
    respond = resolve
  })
  const write: Journal['write'] = async (writes) => {
    await isReleased
    return writes.map(() => ({ status: 'done', position: 1n }))
  }
  const journal = { id: 1, isUp: true, write, listen: () => () => undefined } as unknown as Journal
  const commits = new GroupCommit(journal, new BufferPool(), {
    budget: isOneOfSeveral ? budget.ofLane() : budget,
  })
  const sent: Promise<unknown>[] = []
  /** @returns whether it was accepted */
  const send = async (bytes: number, projectId = 'p') => {
    const appended = commits.append(batchFrom(fromServer(projectId), Buffer.alloc(bytes), 1), NO_IDS)
    const refusal = await Promise.race([appended.then(null, (error) => error), nextTurn(null)])
    if (refusal === null) sent.push(appended)
    else if (refusal.code !== 'overloaded') throw refusal
    return refusal === null
  }
  const fill = async () => {
    while (await send(100));
    return commits.queuedBytes
  }
  return { commits, send, fill, respond, settled: () => Promise.all(sent) }
}

t.test(
  'the lanes of a process share the bytes that may queue, and a hanging lane leaves some to the others',
  async (t) => {
    const budget = new QueueBudget(8_000)
    const [first, second, third] = [hanging(budget, true), hanging(budget, true), hanging(budget, true)]
    t.equal(await first.fill(), 3_500)
    t.ok(await first.send(300, 'q'), 'no sender fills a lane for the others')
    t.strictSame([await second.fill(), await third.fill()], [1_800, 1_000])
    t.notOk(await third.send(1_500, 'q'), 'there is no room for more')
    first.respond()
    await first.settled()
    t.equal(first.commits.queuedBytes, 0)
    t.equal(budget.left, 5_200)
    t.ok(await third.send(1_500, 'q'), 'bytes that one lane has written are room for the others')
    for (const lane of [second, third]) {
      lane.respond()
      await lane.settled()
    }
    t.equal(budget.left, 8_000)
  },
)

t.test('a sender alone may queue all but a ninth of the room, and anything if nothing waits', async (t) => {
  const budget = new QueueBudget(8_000)
  const { send, fill, respond, settled } = hanging(budget, false)
  t.equal(await fill(), 7_100)
  respond()
  await settled()
  t.ok(await send(9_000))
  await settled()
  t.equal(budget.left, 8_000)
})

t.test('while others send, bulk is written in portions, and completely even if nothing else arrives', async (t) => {
  const { commits, happened, gates, track, sent } = await open(t)
  const bulk = () => commits.append(batchFrom(fromServer('greedy'), Buffer.alloc(200 * 1024, 32), 100), NO_IDS)
  const all = [bulk(), bulk(), bulk()]
  track('small')
  await sent(1)
  t.strictSame(happened, ['write of 101'])
  gates[0]?.()
  await sent(2)
  gates[1]?.()
  const closed = commits.close()
  await until('the last write', () => {
    for (const gate of gates) gate()
    return commits.metrics.accepted === 301
  })
  t.equal((await Promise.all(all)).flat().length, 3)
  await closed
})
