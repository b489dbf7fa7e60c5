import { readdir, readlink } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { type Journal, READING_MEMORY_MS, type Write } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import type { PerClass } from '../../src/journal/sender-limits.js'
import { NO_INSERT_ID } from '../../src/model/insert-id.js'
import { nextPosition, type Position, START, toMilliseconds } from '../../src/model/position.js'
import type { IdempotencyKey } from '../../src/model/request-ids.js'
import { randomName, silent, startRedis, temporaryFolder, until } from '../helper.js'
import { ALL, append, commit, idOf, key, ofEvents, ofKey, ofKeys, positions, request, SENDER, sent } from './writes.js'

/** Opens a journal; the same name opens the same journal. */
type Open = (
  t: Test,
  name: string,
  options?: { maxBytes?: number; maxRequestKeys?: PerClass; maxIds?: PerClass },
) => Promise<Journal>

async function openers(t: Test): Promise<Record<string, Open>> {
  const redis = await startRedis(t)
  const folder = await temporaryFolder(t)
  return {
    lmdb: async (t, name, { maxBytes = ALL, ...limits } = {}) => {
      const journal = await openLmdbJournal({ path: `${folder}/${name}`, maxBytes, ...limits })
      t.teardown(() => journal.close())
      return journal
    },
    redis: async (t, name, { maxBytes = ALL, ...limits } = {}) => {
      const journal = await openRedisJournal({
        url: redis.url,
        maxBytes,
        ...limits,
        prefix: `{${name}}`,
        log: silent,
      })
      t.teardown(() => journal.close())
      return journal
    },
  }
}

const opened = await openers(t)
for (const [name, open] of Object.entries(opened)) {
  t.test(name, async (t) => {
    const fresh = (t: Test, options?: { maxBytes?: number; maxRequestKeys?: PerClass; maxIds?: PerClass }) =>
      open(t, randomName('journal'), options)

    t.test('only the first event with an id is stored', async (t) => {
      const journal = await fresh(t)
      const [a, b] = [idOf('a'), idOf('b')]
      const first = append('one', { count: 3, ids: ofEvents([a, NO_INSERT_ID, a]) })
      t.match(await journal.write([first, append('two', { ids: ofEvents(b) })]), [
        { status: 'done', known: [2] },
        { status: 'done', known: undefined },
      ])
      const again = append('three', { count: 4, ids: ofEvents([NO_INSERT_ID, b, idOf('c'), a]) })
      t.match(await journal.write([again, append('four', { count: 2, ids: ofEvents([b, a]) })]), [
        { status: 'done', known: [1, 3] },
        { status: 'known', known: [0, 1] },
      ])
      t.strictSame(await journal.ids.find(sent([idOf('d'), a, NO_INSERT_ID, idOf('c')])), [1, 3])
      t.equal((await journal.progress('p')).pending, 5)
      const block = await journal.claim(ALL)
      t.strictSame(
        block?.entries.map(({ body, count, skip }) => [body.toString(), count, skip]),
        [
          ['one', 2, [2]],
          ['two', 1, undefined],
          ['three', 2, [1, 3]],
        ],
      )
      if (block) await journal.acknowledge(block, [])
      t.equal((await journal.progress('p')).pending, 0)
    })

    t.test(
      'a request whose events are all known is recognised as a repetition or as a different request',
      async (t) => {
        const journal = await fresh(t)
        await journal.write([append('one', { ids: ofEvents(idOf('a')) })])
        const keyed = (body: string) => append('one', { ids: ofEvents(idOf('a'), request('key', body)) })
        t.match(await journal.write([keyed('one'), keyed('one'), keyed('another')]), [
          { status: 'known' },
          { status: 'known' },
          { status: 'mismatch' },
        ])
      },
    )

    t.test('a change whose id is known writes nothing, and one that conflicts leaves its id unknown', async (t) => {
      const journal = await fresh(t)
      const ids = ofEvents([idOf('a'), idOf('b')])
      t.match(await journal.write([commit('ada', 7n, 'no', { ids, readAt: 0 })]), [{ status: 'conflict' }])
      const [version = START] = positions(await journal.write([commit('ada', START, 'one', { ids })]))
      t.match(await journal.write([commit('ada', version, 'two', { ids: ofEvents(idOf('b')) })]), [
        { status: 'known', known: [0] },
      ])
      t.equal((await journal.readStates([key('ada')], ALL)).states[0]?.state, 'one')
    })

    t.test('rejected messages do not count as pending events', async (t) => {
      const journal = await fresh(t)
      await journal.write([append('{}', { kind: 'rejected' }), append('{"events":[]}')])
      t.equal((await journal.progress('p')).pending, 1)
      const block = await journal.claim(ALL)
      t.strictSame(
        block?.entries.map(({ kind }) => kind),
        ['rejected', 'events'],
      )
      if (block) await journal.acknowledge(block, [])
      t.equal((await journal.progress('p')).pending, 0)
    })

    t.test('a project is completely stored if none of its events, messages and states waits', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name)
      const projects = ['messages', 'states', 'p', 'late', 'nobody']
      const stored = async (one: Journal) => {
        const found = await Promise.all(projects.map((project) => one.progress(project)))
        return projects.filter((_, i) => found[i]?.isStored)
      }
      t.strictSame(await stored(journal), projects)
      await journal.write([
        append('{}', { kind: 'rejected', projectId: 'messages', keyClass: 'page' }),
        commit('ada', START, 'state', { projectId: 'states' }),
        append('one'),
        append('two', { keyClass: 'page' }),
      ])
      await journal.write([append('three'), append('four', { projectId: 'late' })])
      t.strictSame(await stored(journal), ['nobody'])
      const block = await journal.claim(ALL)
      const part = block?.entries.slice(0, -1) ?? []
      const last = part.at(-1)?.position
      if (!block || !last) return t.fail('there is a block')
      await journal.shrink(block, last)
      await journal.acknowledge({ ...block, last, entries: part }, [])
      t.strictSame(await stored(journal), ['messages', 'states', 'p', 'nobody'])
      t.equal((await journal.level(START, 'p')).isStored, true)
      t.equal((await journal.level(START, 'late')).isStored, false)
      await journal.close()
      t.strictSame(await stored(await open(t, name)), ['messages', 'states', 'p', 'nobody'], 'after a restart')
    })

    t.test('tally counts acknowledged and repeated events in the same step', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name)
      const ids = ofEvents([idOf('a'), idOf('b')])
      const keyed = append('keyed', { count: 5, ids: ofKey(request('key', 'body')) })
      const other = append('other', { projectId: 'q', count: 7 })
      await journal.write([append('one', { count: 2, ids }), keyed, append('{}', { kind: 'rejected' }), other])
      await journal.write([append('one', { count: 2, ids }), keyed])
      t.strictSame(
        (await journal.tally()).projects,
        new Map([
          ['p', { acknowledged: 0, repeated: 7, waiting: 7 }],
          ['q', { acknowledged: 0, repeated: 0, waiting: 7 }],
        ]),
      )
      const block = await journal.claim(ALL)
      if (block) await journal.acknowledge(block, [])
      const counted = new Map([
        ['p', { acknowledged: 7, repeated: 7, waiting: 0 }],
        ['q', { acknowledged: 7, repeated: 0, waiting: 0 }],
      ])
      t.match(await journal.tally(), { journalId: journal.id, stored: block?.last })
      t.strictSame((await journal.tally()).projects, counted)
      await journal.close()
      t.strictSame((await (await open(t, name)).tally()).projects, counted, 'after a restart')
    })

    t.test('tally does not count as repeated events that have to be sent again, or messages', async (t) => {
      const journal = await fresh(t, { maxRequestKeys: { secret: 1, page: 1 } })
      const [key, other] = [request('key', 'body'), request('key', 'other')]
      await journal.write([append('one', { ids: ofKeys(key) })])
      await journal.write([append('three', { count: 3, ids: ofKeys(key, other, request('one too many', 'body')) })])
      const rejected = append('{}', { kind: 'rejected', ids: ofEvents(idOf('a')) })
      await journal.write([rejected, rejected])
      t.equal((await journal.tally()).projects.get('p')?.repeated, 1)
    })

    t.test('positions rise and are after the start', async (t) => {
      const journal = await fresh(t)
      const { appended, stored } = await journal.progress()
      t.equal(appended, stored, 'an empty journal has nothing to store')
      const all = positions([
        ...(await journal.write([append('a'), append('b')])),
        ...(await journal.write([append('c')])),
      ])
      t.ok(all.every((position, i) => position > (all[i - 1] ?? stored)))
      t.equal((await journal.progress()).appended, all[2])
    })

    t.test('a block holds the entries as they were written, in their order', async (t) => {
      const journal = await fresh(t)
      const body = Buffer.from([...Array(256).keys()])
      const [first = START, second = START] = positions(
        await journal.write([append('', { body, count: 3, projectId: 'é' }), append('second', { count: 2 })]),
      )
      const receivedAt = toMilliseconds(first)
      const block = await journal.claim(ALL)
      const held = (holder: string, bytes: number) => [{ holder, bytes }]
      t.strictSame(block?.entries, [
        { position: first, kind: 'events', projectId: 'é', count: 3, receivedAt, body, shares: held('secret:é', 256) },
        {
          ...{ position: second, kind: 'events', projectId: 'p', count: 2, receivedAt, body: Buffer.from('second') },
          shares: held('secret:p', 6),
        },
      ])
      t.strictSame([block?.first, block?.last], [first, second])
    })

    t.test('claim returns null if nothing waits', async (t) => {
      const journal = await fresh(t)
      t.equal(await journal.claim(ALL), null)
    })

    t.test('a frozen block stays the same until it is acknowledged, also for the next process', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name)
      await journal.write([append('a'), append('b')])
      const block = await journal.claim(ALL)
      await journal.write([append('c')])
      t.equal(block?.isRepeated, false)
      const repeated = { ...block, isRepeated: true }
      t.strictSame(await journal.claim(ALL), repeated)

      const id = journal.id
      await journal.close()
      const again = await open(t, name)
      t.equal(again.id, id)
      const after = await again.claim(ALL)
      t.strictSame(after, repeated)
      if (!after) return t.fail('there is a block')
      await again.acknowledge(after, [])
      const rest = await again.claim(ALL)
      t.strictSame(
        rest?.entries.map(({ body }) => body.toString()),
        ['c'],
      )
    })

    t.test('a block ends after maxBytes, with at least one entry', async (t) => {
      const journal = await fresh(t)
      await journal.write([append('12345'), append('12345'), append('12345')])
      const block = await journal.claim(6)
      t.equal(block?.entries.length, 2)
      if (block) await journal.acknowledge(block, [])
      t.equal((await journal.claim(1))?.entries.length, 1)
    })

    t.test('acknowledging advances the stored position, removes the entries and notifies the listeners', async (t) => {
      const journal = await fresh(t)
      const told: Position[] = []
      journal.listen({ onStored: (position) => told.push(position) })
      await journal.write([append('abc', { count: 2 }), append('de', { projectId: 'q' })])
      t.match(await journal.depth(), { entries: 2, bytes: 5 })
      t.equal((await journal.progress('p')).pending, 2)
      const block = await journal.claim(ALL)
      if (!block) return t.fail('there is a block')
      await journal.acknowledge(block, [])
      t.strictSame(await journal.depth(), {
        entries: 0,
        bytes: 0,
        stateBytes: 0,
        cachedBytes: 0,
        oldestMs: 0,
        limitBytes: ALL,
        large: [],
      })
      const progress = await journal.progress('p')
      t.strictSame([progress.stored, progress.appended, progress.pending], [block.last, block.last, 0])
      t.equal(await journal.claim(ALL), null)
      // The subscription may not be active yet: notifications are only hints.
      if (name === 'lmdb') t.strictSame(told, [block.last])
    })

    t.test('a shrunk block leaves the rest for the next one', async (t) => {
      const journal = await fresh(t)
      const [first = START] = positions(await journal.write([append('a'), append('b'), append('c')]))
      const block = await journal.claim(ALL)
      if (!block) return t.fail('there is a block')
      await journal.shrink(block, first)
      const narrowed = await journal.claim(ALL)
      t.equal(narrowed?.entries.length, 1)
      if (narrowed) await journal.acknowledge(narrowed, [])
      t.strictSame(
        (await journal.claim(ALL))?.entries.map(({ body }) => body.toString()),
        ['b', 'c'],
      )
    })

    t.test('a state changes only from the version that was read', async (t) => {
      const journal = await fresh(t)
      t.strictSame((await journal.readStates([key('ada')], ALL)).states, [null])
      const [first = START] = positions(await journal.write([commit('ada', START, 'one')]))
      t.strictSame(await journal.write([commit('ada', START, 'other')]), [{ status: 'conflict' }])
      t.strictSame((await journal.readStates([key('bob'), key('ada')], ALL)).states, [
        null,
        { version: first, state: 'one' },
      ])
      const [second = START] = positions(await journal.write([commit('ada', first, '')]))
      t.ok(second > first)
      t.strictSame(
        (await journal.readStates([key('ada')], ALL)).states,
        [{ version: second, state: '' }],
        'a tombstone is a state',
      )
    })

    t.test('a commit with a fence succeeds only while that state is unchanged', async (t) => {
      const journal = await fresh(t)
      const { readAt } = await journal.readStates([key('alias')], ALL)
      const fenced = (version: Position, at = readAt) => ({ fence: { stateKey: key('alias'), version, readAt: at } })
      const none = await journal.write([commit('a', START, 'one', fenced(START))])
      t.match(none, [{ status: 'done' }])
      t.strictSame(
        await journal.write([commit('b', START, 'no', fenced(START, readAt - READING_MEMORY_MS - 1))]),
        [{ status: 'fenced' }],
        'the state may have expired since',
      )
      const outcomes = await journal.write([
        commit('alias', START, 'made', { kind: 'aliases' }),
        commit('b', START, 'no', fenced(START)),
      ])
      t.match(outcomes, [{ status: 'done' }, { status: 'fenced' }], 'in the same call, too')
      t.strictSame((await journal.readStates([key('b')], ALL)).states, [null])
      const [version = START] = positions(outcomes.slice(0, 1))
      t.strictSame(
        await journal.write([commit('a', 7n, 'no', fenced(version)), commit('b', START, 'no', fenced(version + 1n))]),
        [{ status: 'conflict' }, { status: 'fenced' }],
      )
      t.match(await journal.write([commit('b', START, 'yes', fenced(version))]), [{ status: 'done' }])
      const known = ofEvents(idOf('change'))
      t.match(await journal.write([commit('c', START, 'yes', { ids: known, ...fenced(version) })]), [
        { status: 'done' },
      ])
      t.match(
        await journal.write([commit('c', START, 'again', { ids: known, ...fenced(START) })]),
        [{ status: 'known' }],
        'a repeated change is known, whatever its fence',
      )
    })

    t.test('a commit of an expired state succeeds only if its reading is recent', async (t) => {
      const journal = await fresh(t)
      const { readAt } = await journal.readStates([key('ada')], ALL)
      t.ok(Math.abs(readAt - Date.now()) < 60_000, 'the time is that of the journal')
      const before = readAt - READING_MEMORY_MS - 1
      t.strictSame(
        await journal.write([
          commit('ada', START, 'old', { readAt: before }),
          commit('ada', 5n, 'old', { readAt: before }),
          commit('ada', 5n, 'of a clock that was set back', { readAt: readAt + 3_600_000 }),
        ]),
        [{ status: 'conflict' }, { status: 'conflict' }, { status: 'conflict' }],
      )
      t.equal((await journal.depth()).entries, 0)
      const [version = START] = positions(await journal.write([commit('ada', 5n, 'new', { readAt })]))
      const [next] = await journal.write([commit('ada', version, 'newer', { readAt: before })])
      t.equal(next?.status, 'done', 'an existing one is recognised by its version')
    })

    t.test('readStates returns states up to a number of bytes, at least one', async (t) => {
      const journal = await fresh(t)
      const names = ['a', 'b', 'c', 'none']
      await journal.write(names.slice(0, 3).map((name) => commit(name, START, name.repeat(1000))))
      const read = async (maxBytes: number, from = 0) => {
        const { states } = await journal.readStates(names.slice(from).map(key), maxBytes)
        return states.map((state) => state?.state?.[0] ?? null)
      }
      t.strictSame(await read(ALL), ['a', 'b', 'c', null])
      t.strictSame(await read(2500), ['a', 'b'])
      t.strictSame(await read(10), ['a'])
      t.strictSame(await read(10, 3), [null])
    })

    t.test('rows of one write share an entry, whose position is their version', async (t) => {
      const journal = await fresh(t)
      const outcomes = await journal.write([
        append('e'),
        commit('ada', START, 'a'),
        commit('s', START, 'x', { kind: 'sessions' }),
        commit('bob', START, 'b'),
        append('f'),
      ])
      const [e, ada, s, bob, f] = positions(outcomes)
      t.equal(ada, bob)
      const block = await journal.claim(ALL)
      t.strictSame(
        block?.entries.map(({ position, kind, count, body }) => [position, kind, count, body.toString()]),
        [
          [e, 'events', 1, 'e'],
          [ada, 'profiles', 2, '{"n":"ada"},{"n":"bob"}'],
          [s, 'sessions', 1, '{"n":"s"}'],
          [f, 'events', 1, 'f'],
        ],
      )
    })

    t.test('a repeated request writes nothing', async (t) => {
      const journal = await fresh(t)
      const idempotencyKey = request('r', 'body')
      t.equal(await journal.findRequest(idempotencyKey), null)
      const [first = START] = positions(await journal.write([append('a', { ids: ofKey(idempotencyKey) })]))
      t.strictSame(await journal.write([append('a', { ids: ofKey(idempotencyKey) })]), [
        { status: 'repeated', position: first },
      ])
      t.strictSame(await journal.write([append('b', { ids: ofKey(request('r', 'other')) })]), [{ status: 'mismatch' }])
      t.strictSame(await journal.findRequest(idempotencyKey), { status: 'repeated', position: first })
      t.strictSame(await journal.findRequest(request('r', 'other')), { status: 'mismatch' })
      t.equal((await journal.depth()).entries, 1)
    })

    t.test('each event of an entry may have an idempotency key', async (t) => {
      const journal = await fresh(t, { maxRequestKeys: { secret: 4, page: 1 } })
      const of = (name: string) => request(name, 'body')
      const [a, b, c, d, e] = [of('a'), of('b'), of('c'), of('d'), of('e')]
      const keyed = (...keys: IdempotencyKey[]) =>
        append(`${keys.length} events`, { count: keys.length, ids: ofKeys(...keys) })
      const [first] = positions(await journal.write([keyed(a, b)]))
      const inFirst = { status: 'repeated', position: first }
      const ofB = { ...inFirst, index: 1, journalId: journal.id }
      t.strictSame(await journal.findRequest(a), inFirst)
      t.strictSame(await journal.findRequest(b), ofB)

      const [outcome] = await journal.write([keyed(c, b, d, request('a', 'other'), c, e)])
      if (outcome?.status !== 'done') return t.fail('some are new')
      const ofC = { status: 'repeated', position: outcome.position }
      const refused = [ofB, { status: 'mismatch' }, ofC, { status: 'limited' }]
      t.strictSame(outcome, { status: 'done', position: outcome.position, known: [1, 3, 4, 5], refused })
      t.strictSame(await journal.findRequest(d), { ...ofC, index: 2, journalId: journal.id })
      t.equal(await journal.findRequest(e), null)
      t.strictSame(await journal.write([keyed(b, e)]), [
        { status: 'known', known: [0, 1], refused: [ofB, { status: 'limited' }] },
      ])
      const entries = (await journal.claim(ALL))?.entries.map(({ count, skip }) => ({ count, skip }))
      t.same(entries, [{ count: 2 }, { count: 2, skip: [1, 3, 4, 5] }])
    })

    t.test('the maximum of idempotency keys is per project', async (t) => {
      const journal = await fresh(t, { maxRequestKeys: { secret: 2, page: 1 } })
      const keyed = (name: string, projectId: string) => append(name, { projectId, ids: ofKey(request(name, name)) })
      const outcomes = await journal.write([
        keyed('a', 'p'),
        keyed('b', 'p'),
        keyed('c', 'p'),
        append('no key'),
        commit('ada', START, 'x', { ids: ofKey(request('d', 'd')) }),
        keyed('e', 'q'),
        keyed('b', 'p'),
      ])
      t.strictSame(
        outcomes.map(({ status }) => status),
        ['done', 'done', 'limited', 'done', 'limited', 'done', 'repeated'],
      )
      t.equal((await journal.write([keyed('c', 'p')]))[0]?.status, 'limited', 'nor in the next write')
      t.equal((await journal.write([keyed('a', 'p')]))[0]?.status, 'repeated')
      t.equal((await journal.write([keyed('f', 'q')]))[0]?.status, 'done')
      t.equal((await journal.depth()).entries, 5)
    })

    t.test(
      'a key that was reserved counts once, and its request is executed though the maximum is reached',
      async (t) => {
        const journal = await fresh(t, { maxRequestKeys: { secret: 2, page: 1 } })
        const keyed = (name: string) => append(name, { ids: ofKey(request(name, name)) })
        const reserve = (name: string) => ({ type: 'reserve', ...SENDER, ids: ofKey(request(name, name)) }) as const
        const statuses = async (...writes: Write[]) => (await journal.write(writes)).map(({ status }) => status)
        t.strictSame(await statuses(reserve('a'), keyed('a'), keyed('b')), ['done', 'done', 'done'])
        t.strictSame(await statuses(keyed('a'), keyed('b'), keyed('c')), ['repeated', 'repeated', 'limited'])
        const other = await fresh(t, { maxRequestKeys: { secret: 1, page: 1 } })
        await other.write([reserve('a')])
        t.match(await other.write([reserve('b'), reserve('a'), keyed('a')]), [
          { status: 'limited' },
          { status: 'done' },
          { status: 'done' },
        ])
      },
    )

    t.test('a request that occurs twice in one write is executed once', async (t) => {
      const journal = await fresh(t)
      const idempotencyKey = request('r', 'body')
      const outcomes = await journal.write([
        append('a', { ids: ofKey(idempotencyKey) }),
        append('a', { ids: ofKey(idempotencyKey) }),
      ])
      t.strictSame(
        outcomes.map(({ status }) => status),
        ['done', 'repeated'],
      )
      t.equal((await journal.depth()).entries, 1)

      const keyed = request('c', 'body')
      const commits = [
        commit('ada', START, 'a', { ids: ofKey(keyed) }),
        commit('ada', START, 'a', { ids: ofKey(keyed) }),
      ]
      t.strictSame(
        (await journal.write(commits)).map(({ status }) => status),
        ['done', 'repeated'],
      )
    })

    t.test('a full journal refuses writes, keeps what it has, and accepts writes again once drained', async (t) => {
      const journal = await fresh(t, { maxBytes: 10 })
      await journal.write([append('more than ten bytes')])
      await t.rejects(journal.write([append('x')]), { code: 'overloaded', limit: undefined })
      t.equal((await journal.depth()).entries, 1)
      const block = await journal.claim(ALL)
      if (block) await journal.acknowledge(block, [])
      t.equal((await journal.write([append('x')]))[0]?.status, 'done')
    })

    t.test('states count until they are stored', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name, { maxBytes: 10_000 })
      const [version = START] = positions(await journal.write([commit('ada', START, 'x'.repeat(900))]))
      const row = 'r'.repeat(2_000)
      const [next = START] = positions(await journal.write([commit('ada', version, 'x'.repeat(5_000), { row })]))
      t.match(await journal.depth(), { bytes: 2_011, stateBytes: 5_900, cachedBytes: 0 })
      await journal.close()
      const again = await open(t, name, { maxBytes: 10_000 })
      t.match(await again.depth(), { bytes: 2_011, stateBytes: 5_900 }, 'the next process knows')
      t.match(await again.write([append('x'.repeat(2_000))]), [{ status: 'full', fullness: 'own' }])
      const block = await again.claim(ALL)
      if (block) await again.acknowledge(block, [{ stateKey: key('ada'), version: next }])
      t.match(await again.depth(), { bytes: 0, stateBytes: 0 })
      t.match(await again.write([append('x'.repeat(2_000))]), [{ status: 'done' }])
    })

    t.test('the age of the oldest entry grows until that entry is acknowledged', async (t) => {
      const journal = await fresh(t)
      t.equal((await journal.depth()).oldestMs, 0)
      const [first = START] = positions(await journal.write([append('a')]))
      await until('some age', async () => (await journal.depth()).oldestMs >= 30)
      const [second = START] = positions(await journal.write([append('b')]))
      t.ok((await journal.depth()).oldestMs >= 30, 'a younger one changes nothing')
      const block = await journal.claim(ALL)
      if (!block) return t.fail('there is a block')
      await journal.shrink(block, first)
      await journal.acknowledge({ ...block, last: first, entries: block.entries.slice(0, 1) }, [])
      const { entries, oldestMs } = await journal.depth()
      t.equal(entries, 1)
      t.ok(oldestMs <= Date.now() - toMilliseconds(second), `${oldestMs} ms is the second one's age`)
    })

    t.test('an entry has the time of its acceptance even if its position is ahead of the clock', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name)
      await journal.advancePast(nextPosition(START, Date.now() + 3_600_000))
      const from = Date.now()
      await journal.write([append('é', { projectId: 'é' }), commit('ada', START, 'a')])
      const to = Date.now()
      const block = await journal.claim(ALL)
      const times = block?.entries.map(({ receivedAt }) => receivedAt) ?? []
      t.equal(times.length, 2)
      t.ok(
        times.every((time) => time >= from && time <= to),
        `${times} are from ${from} to ${to}`,
      )
      await until('some age', async () => (await journal.depth()).oldestMs >= 30)
      await journal.close()
      const again = await open(t, name)
      t.strictSame((await again.claim(ALL))?.entries, block?.entries, 'the next process finds the same')
    })

    t.test('a write during advancePast is not taken for an earlier one', async (t) => {
      const journal = await fresh(t)
      const store = async () => {
        const block = await journal.claim(ALL)
        if (block) await journal.acknowledge(block, [])
      }
      const ahead = (hours: number) => nextPosition(START, Date.now() + hours * 3_600_000)
      for (let i = 1; i <= 5; i++) {
        const advancing = journal.advancePast(ahead(i))
        const [position = START] = positions(await journal.write([append('event')]))
        await advancing
        t.ok((await journal.progress()).appended >= position, 'a reader waits for it')
        await store()
      }
      // They take a while to be removed.
      const old = Array.from({ length: 1000 }, (_, i) => `old ${i}`)
      await journal.write(old.map((name) => commit(name, START, 'x')))
      await store()
      const advancing = journal.advancePast(ahead(9))
      await journal.write([commit('new', START, 'y')])
      await advancing
      const { states } = await journal.readStates([key('new'), key('old 0')], ALL)
      t.match(states, [{ state: 'y' }, null], 'its state is kept')
    })

    t.test('a waiting reader wakes the writer', async (t) => {
      const journal = await fresh(t)
      let heard = false
      const stop = journal.listen({
        onWake: () => {
          heard = true
        },
      })
      await until('the hint', () => {
        journal.wakeWriter()
        return heard
      })
      stop()
      await journal.ping()
    })

    t.test('after a restart the journal has the waiting entries', async (t) => {
      const name = randomName('journal')
      const journal = await open(t, name)
      const [, second] = positions(await journal.write([append('abc', { count: 5 }), append('de')]))
      await journal.close()
      const again = await open(t, name)
      t.match(await again.depth(), { entries: 2, bytes: 5 })
      const progress = await again.progress('p')
      t.strictSame([progress.appended, progress.pending], [second, 6])
      const [third = START] = positions(await again.write([append('f')]))
      t.ok(third > (second ?? START))
    })
  })
}

const hasProc = process.platform === 'linux'

t.test('lmdb: a journal that cannot be opened is closed again', { skip: !hasProc && 'needs /proc' }, async (t) => {
  const path = await temporaryFolder(t)
  const { open } = await import('lmdb')
  const root = open({ path, maxDbs: 8 })
  await root.openDB({ name: 'meta', encoding: 'json' }).put('meta', { id: 1, stored: 'no position', frozen: null })
  await root.close()
  await t.rejects(openLmdbJournal({ path, maxBytes: ALL }), { name: 'DamagedJournalError' })
  const files = await Promise.all(
    (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  )
  t.strictSame(
    files.filter((file) => file.startsWith(path)),
    [],
    'none of its files is open',
  )
})
