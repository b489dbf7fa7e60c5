import t from 'tap'
import type { ClickHouse } from '../../../src/clickhouse/client.js'
import { Shards } from '../../../src/clickhouse/shards.js'
import { type Position, START } from '../../../src/model/position.js'
import { AliasProjects } from '../../../src/users/aliases/alias-projects.js'
import { until } from '../../helper.js'

interface Options {
  lanes?: number
  isShared?: boolean
}

/** Lanes and a store that count reads, and can be taken down by a test. */
function setUp({ lanes = 3, isShared = false }: Options = {}) {
  const store = { asked: 0, isDown: false, hasAliases: false }
  const all = Array.from({ length: lanes }, () => {
    const lane = {
      asked: 0,
      isDown: false,
      noted: new Map<string, number>(),
      stored: START as Position,
      appended: START as Position,
    }
    const reach = () => {
      if (lane.isDown) throw new Error('down')
    }
    const journal = {
      progress: async (project = '') => {
        reach()
        if (project) lane.asked++
        const { appended, stored } = lane
        return { appended, stored, isStored: stored >= appended, pending: 0, deletions: lane.noted.get(project) ?? 0 }
      },
      noteDeletion: async (project: string) => {
        reach()
        lane.noted.set(project, (lane.noted.get(project) ?? 0) + 1)
      },
    }
    return { lane, journal }
  })
  const clickhouse = {
    rows: async () => {
      store.asked++
      if (store.isDown) throw new Error('down')
      return store.hasAliases ? [{}] : []
    },
  }
  const open = (home = 0) => {
    const shards = Shards.of(clickhouse as unknown as ClickHouse)
    return new AliasProjects({ lanes: all, home, shards, isShared })
  }
  return { store, lanes: all.map(({ lane }) => lane), open, projects: open() }
}

t.test('AliasProjects asks about a project without aliases once a second, in one lane', async (t) => {
  const { projects, lanes, store } = setUp()
  t.strictSame(await Promise.all(Array.from({ length: 100 }, () => projects.look('p'))), Array(100).fill('none'))
  for (let i = 0; i < 100; i++) await projects.look('p')
  t.strictSame(
    lanes.map(({ asked }) => asked),
    [1, 0, 0],
  )
  t.equal(store.asked, 1)
  await until('the next second', async () => {
    await projects.look('p')
    return lanes[0]?.asked === 2
  })
  t.equal(store.asked, 1, 'the store has said it')
})

t.test('AliasProjects learns of an alias from any lane', async (t) => {
  const { projects, lanes, open } = setUp()
  await projects.announce('p')
  t.strictSame(
    lanes.map(({ noted }) => noted.size),
    [1, 1, 1],
  )
  for (const home of [0, 1, 2]) t.equal(await open(home).look('p'), 'some')
  for (const lane of lanes.slice(0, 2)) lane.isDown = true
  t.equal(await open().look('p'), 'some')
  t.equal(await open().look('q'), 'unknown', 'as the lanes that are down may have to store some')
  for (const lane of lanes) lane.isDown = true
  await t.rejects(open().look('p'), { message: 'down' })
})

t.test('AliasProjects does not rely on an announcement that a lane missed', async (t) => {
  const { projects, lanes, open } = setUp({ isShared: true })
  const [, down] = lanes
  if (!down) throw new Error('a second lane')
  down.isDown = true
  await t.rejects(projects.announce('p'))
  down.isDown = false
  // It reads in the first lane that there are some, and still tells the others.
  const other = open()
  t.equal(await other.look('p'), 'some')
  const before = performance.now()
  await other.announce('p')
  t.ok(performance.now() - before >= 1_000, 'it waits for those that have just seen none')
  t.equal(down.noted.size, 1)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
  }, 500)
  await other.announce('p')
  clearTimeout(timer)
  t.notOk(isLate, 'once: without a timer, it comes before any')
})

t.test('AliasProjects treats entries that wait at the start as possible aliases', async (t) => {
  const { projects, lanes, store } = setUp()
  const [lane] = lanes
  if (!lane) throw new Error('a lane')
  lane.appended = 9n
  lane.stored = 5n
  t.equal(await projects.look('p'), 'unknown')
  lane.stored = 9n
  lane.appended = 12n
  await until('the next look', async () => (await projects.look('p')) === 'none')
  t.equal(store.asked, 2)
})

t.test('AliasProjects asks a store that was down again', async (t) => {
  const { projects, store } = setUp()
  store.isDown = true
  t.equal(await projects.look('p'), 'unknown')
  store.isDown = false
  store.hasAliases = true
  await until('the next look', async () => (await projects.look('p')) === 'some')
})
