import t from 'tap'
import { startStore } from '../changing-store.js'
import { startClickHouse } from '../helper.js'

const engine = await startClickHouse(t)

for (const kind of ['redis', 'lmdb'] as const) {
  t.test(`${kind}: a change that is killed at every step loses nothing and repeats nothing`, async (t) => {
    const store = await startStore(t, kind, engine)
    for (const [lanes, shards] of [
      [3, 1],
      [3, 2],
      [2, 2],
      [3, 2],
    ] as const) {
      await store.fill(t)
      const places = await store.change(lanes, shards)
      t.comment(`${lanes} lanes on ${shards} shards: killed at ${places.size} places`)
      t.ok(places.size > 30)
      await store.check(t)
      await store.repeatReserved(t)
    }
  })
}
