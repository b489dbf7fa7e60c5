import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ThreadHistory, ThreadLoad } from '../../src/lib/thread-load.js'

function keepBusy(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

/** A thread whose CPU time the test controls. */
function thread() {
  const spent = { active: 0, idle: 0 }
  const history = new ThreadHistory(() => ({ ...spent }))
  const spend = (kind: 'active' | 'idle', ms: number) => {
    for (let left = ms; left > 0; left -= 100) {
      spent[kind] += Math.min(left, 100)
      history.note()
    }
  }
  return { load: new ThreadLoad(history), spend }
}

t.test('a thread is short of time while others take more than half of it', async (t) => {
  const load = new ThreadLoad()
  t.equal(load.isShort, false, 'at first')
  keepBusy(600)
  await wait(1)
  t.equal(load.isShort, true, 'after work of others')
  keepBusy(1200)
  load.exclude(1200)
  await wait(1)
  t.equal(load.isShort, false, 'after work of its own')
})

t.test('the last half second counts, however long ago the last call was', async (t) => {
  const { load, spend } = thread()
  t.equal(load.isShort, false, 'at first')
  spend('active', 400)
  t.equal(load.isShort, false, 'before there is half a second')
  spend('active', 200)
  t.equal(load.isShort, true)
  spend('idle', 3_600_000)
  t.equal(load.isShort, false)
  spend('idle', 3_600_000)
  spend('active', 300)
  t.equal(load.isShort, true, 'busy for more than half of it, after an hour of nothing')
  spend('active', 3_600_000)
  spend('idle', 300)
  t.equal(load.isShort, false, 'idle for more than half of it, after an hour of work')
})

t.test('time of the caller is not counted while it is within the window', async (t) => {
  const { load, spend } = thread()
  spend('active', 400)
  load.exclude(400)
  spend('idle', 200)
  t.equal(load.isShort, false)
  spend('active', 600)
  t.equal(load.isShort, true, 'its earlier time is not subtracted')
})
