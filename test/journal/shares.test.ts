import t, { type Test } from 'tap'
import type { Commit, Journal, StoredState } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { type Position, START } from '../../src/model/position.js'
import { silent, startRedis, temporaryFolder } from '../helper.js'
import { ALL, append, commit, key, positions } from './writes.js'

const MAX_BYTES = 64_000

const openers: Record<string, (t: Test) => Promise<() => Promise<Journal>>> = {
  lmdb: async (t) => {
    const path = await temporaryFolder(t)
    return () => openLmdbJournal({ path, maxBytes: MAX_BYTES })
  },
  redis: async (t) => {
    const { url } = await startRedis(t)
    return () => openRedisJournal({ url, maxBytes: MAX_BYTES, log: silent })
  },
}

/** Writes entries of 1000 bytes until one is refused. @returns how many were accepted */
async function flood(journal: Journal, projectId: string, keyClass: 'page' | 'secret'): Promise<number> {
  for (let taken = 0; taken < 1000; taken++) {
    const [outcome] = await journal.write([append('x'.repeat(1000), { projectId, keyClass })])
    if (outcome?.status === 'full') return taken
  }
  throw new Error('it takes everything')
}

async function storeAll(journal: Journal, states: StoredState[] = []): Promise<void> {
  for (let block = await journal.claim(ALL); block; block = await journal.claim(ALL)) {
    await journal.acknowledge(block, states)
  }
}

for (const [name, prepare] of Object.entries(openers)) {
  t.test(`${name}: the sender that fills the journal is refused before others`, async (t) => {
    const open = await prepare(t)
    let journal = await open()
    t.teardown(() => journal.close())
    t.equal(await flood(journal, 'a', 'page'), 32, 'the pages of one project get half')
    t.match(
      await journal.write([
        append('x'.repeat(1000), { projectId: 'a', keyClass: 'page' }),
        append('x'.repeat(1000), { projectId: 'a', keyClass: 'secret' }),
        commit('ada', START, 'x'.repeat(900), { projectId: 'b', keyClass: 'page' }),
        append('x', { projectId: 'a', keyClass: 'page' }),
      ]),
      [{ status: 'full', fullness: 'own' }, { status: 'done' }, { status: 'done' }, { status: 'full' }],
      'others of the same call are taken',
    )
    await flood(journal, 'b', 'page')
    await flood(journal, 'c', 'secret')
    const others = Array.from({ length: 5 }, (_, i) =>
      append('x'.repeat(100), { projectId: `d${i}`, keyClass: 'page' }),
    )
    t.ok(
      (await journal.write(others)).every(({ status }) => status === 'done'),
      'there is still room for others',
    )

    const { large } = await journal.depth()
    t.match(large.map(({ holder }) => holder).sort(), ['page:a', 'page:b', 'secret:c'])
    await journal.close()
    journal = await open()
    t.same((await journal.depth()).large, large, 'the next process knows')
    t.match(await journal.write([append('x', { projectId: 'a', keyClass: 'page' })]), [{ status: 'full' }])
    await storeAll(journal)
    t.match(await journal.depth(), { bytes: 0, stateBytes: 0, large: [] })
    t.equal(await flood(journal, 'a', 'secret'), 56, 'a secret key gets eight ninths')
  })

  t.test(`${name}: cached states lose their text, the oldest first, and keep their version`, async (t) => {
    const open = await prepare(t)
    let journal = await open()
    t.teardown(() => journal.close())
    const names = Array.from({ length: 20 }, (_, i) => `user ${i}`)
    const versions: Position[] = []
    const set = async (name: string, expected: Position, state: string, more: Partial<Commit> = {}) => {
      const [version = START] = positions(await journal.write([commit(name, expected, state, more)]))
      await storeAll(journal, [{ stateKey: key(name), version }])
      return version
    }
    for (const name of names) versions.push(await set(name, START, 'x'.repeat(1000)))
    const gone = await set('gone', START, '')
    const read = async () => (await journal.readStates(names.map(key), ALL)).states
    const cut = (await read()).map((state) => state?.state === null)
    t.same(cut, [...Array(13).fill(true), ...Array(7).fill(false)], 'an eighth of the limit is kept')
    t.same(
      (await read()).map((state) => state?.version),
      versions,
    )
    const { cachedBytes } = await journal.depth()
    t.ok(cachedBytes > 7_000 && cachedBytes <= MAX_BYTES / 8, `${cachedBytes}`)

    await journal.close()
    journal = await open()
    t.match(await journal.depth(), { cachedBytes }, 'the next process knows')
    const [first = START, second = START] = versions
    const readAt = Date.now() - 24 * 3_600_000
    t.match(await journal.write([commit('user 0', START, 'y'), commit('user 0', second, 'y')]), [
      { status: 'conflict' },
      { status: 'conflict' },
    ])
    await set('user 0', first, 'y', { readAt })
    t.match((await read())[0], { state: 'y' }, 'the version is enough, however long ago it was read')
    t.match((await journal.readStates([key('gone')], ALL)).states, [{ version: gone, state: '' }], 'a tombstone stays')
  })
}
