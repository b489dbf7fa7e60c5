import t from 'tap'
import { relayout } from '../../src/lanes/relayout.js'
import { readLayouts } from '../../src/store/layouts.js'
import { Kills, startStore } from '../changing-store.js'
import { startClickHouse } from '../helper.js'

const engine = await startClickHouse(t)

/** Kills at no step. */
class NoKills extends Kills {
  override here(): void {}
}

t.test('redis: relayout turns one lane into two with a second shard, and survives a kill at every step', async (t) => {
  const store = await startStore(t, 'redis', engine)
  await store.fill(t)
  const earlier = await store.open(0)
  t.ok((await store.change(2, 2)).size > 20)
  await store.check(t)
  await store.repeatReserved(t)
  const calls: (() => Promise<unknown>)[] = [
    () => earlier.write([store.append('late')]),
    () => earlier.progress(),
    () => earlier.ping(),
    () => earlier.claim(1),
  ]
  for (const call of calls) {
    await t.rejects(call(), { code: 'unavailable', message: /layout/ }, 'a process from before is refused')
  }
  await earlier.close()
})

t.test('lmdb: relayout refuses impossible changes, and completes or reverts one that was begun', async (t) => {
  const store = await startStore(t, 'lmdb', engine)
  const to = (lanes: number, shards: number) => relayout(lanes, store.parts(shards, new NoKills()))
  const state = async () => (await readLayouts(store.shardsOf(1).first)).latest
  await t.rejects(to(2, 1), /The journal of lane 0 is missing/)
  await store.fill(t)
  t.match(await to(1, 1), { version: 1 }, 'there is nothing to do')

  const unreachable = store.parts(2, new NoKills())
  const openRelocation = async (lane: number) => {
    if (lane === 2) throw new Error('lane 2 cannot be reached')
    return await store.parts(2, new NoKills()).openRelocation(lane)
  }
  await t.rejects(relayout(3, { ...unreachable, openRelocation }), /lane 2 cannot be reached/)
  t.match(await state(), { version: 1, state: 'active' }, 'nothing was changed')

  const before = (text: string) => {
    const report = (step: string) => {
      if (step.startsWith(text)) throw new Error(`killed before: ${step}`)
    }
    return { ...store.parts(2, new NoKills()), report }
  }
  await t.rejects(relayout(2, before('Waiting until')), /killed/)
  t.match(await state(), { version: 2, state: 'changing', lanes: 2 })
  await t.rejects(
    store.use(0, (journal) => journal.write([store.append('late')])),
    { code: 'unavailable', message: /is being changed/ },
    'intake is closed',
  )
  t.match(await to(1, 1), { version: 3, lanes: 1, shards: 1 }, 'it is taken back')
  store.version = 3
  await store.fill(t)

  await t.rejects(relayout(2, before('Copying')), /killed/)
  t.match(await state(), { version: 4, state: 'moving' })
  await t.rejects(to(1, 1), /Finish it first: run `tallyhouse lanes set 2` with/)
  await store.change(2, 2, new NoKills())
  await store.check(t)
  await t.rejects(to(2, 1), /has 2 shards, and CLICKHOUSE_URL only 1/)
})
