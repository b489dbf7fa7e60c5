import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ThreadLoad } from '../../src/lib/thread-load.js'

function keepBusy(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

t.test('a thread is short of time while others take more than half of it', async (t) => {
  const load = new ThreadLoad()
  t.equal(load.isShort, false, 'at first')
  keepBusy(600)
  await wait(1)
  t.equal(load.isShort, true, 'after work of others')
  keepBusy(600)
  load.exclude(600)
  await wait(1)
  t.equal(load.isShort, false, 'after work of its own')
})
