import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Turns } from '../../src/lib/turns.js'

/** Requests that each hold the event loop for a millisecond of a clock that only they move. */
function loop() {
  let now = 0
  const done: string[] = []
  const turns = new Turns({ clock: () => now })
  const request = async (owner: string) => {
    const turn = turns.take(() => owner)
    if (turn) {
      await turn
      // Then it takes some steps that wait for nothing.
      await undefined
      await undefined
    }
    now += 1
    done.push(owner)
  }
  return { turns, request, done, at: () => now }
}

t.test('owners take turns, however many requests one of them has', async (t) => {
  const { request, done } = loop()
  const all = Array.from({ length: 20 }, () => request('many'))
  const few = [request('few'), request('few'), request('other')]
  await Promise.all(few)
  const before = done.length
  t.equal(done.filter((owner) => owner === 'few').length, 2)
  t.ok(before <= 10, `${done}`)
  await Promise.all(all)
  t.equal(done.length, 23)
})

t.test('a newcomer does not wait for all that are already waiting', async (t) => {
  const { request, done } = loop()
  const all = Array.from({ length: 50 }, () => request('many'))
  while (done.length < 5) await wait(0)
  const before = done.length
  await request('late')
  t.ok(done.length - before <= 6, `${done.length - before}`)
  await Promise.all(all)
})

t.test('the loop looks for new requests after each slice', async (t) => {
  const { request, done } = loop()
  const all = Array.from({ length: 30 }, () => request('many'))
  const seen: number[] = []
  while (done.length < 30) {
    seen.push(done.length)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(all)
  const steps = seen.slice(1).map((count, i) => count - (seen[i] ?? 0))
  t.ok(Math.max(...steps.slice(1)) <= 4, `${seen}`)
})

t.test('if there is time, nobody waits, and the owner is not looked up', async (t) => {
  const turns = new Turns({ clock: () => 0 })
  const ownerOf = () => t.fail('asked for the owner')
  for (let i = 0; i < 1000; i++) t.equal(turns.take(ownerOf as never), null)
  t.end()
})

t.test("an owner's requests that have begun end one after another, and let new ones in between", async (t) => {
  let now = 0
  const turns = new Turns({ clock: () => now })
  const done: string[] = []
  const long = async (name: string) => {
    await turns.take(() => 'many')
    for (let piece = 0; piece < 10; piece++) {
      await turns.resume(() => 'many')
      now += 1
      done.push(name)
    }
  }
  const all = ['a', 'b', 'c'].map(long)
  while (done.length < 4) await wait(0)
  const before = done.length
  await turns.take(() => 'many')
  t.ok(done.length - before <= 8, `${done}`)
  await Promise.all(all)
  t.equal(done.length, 30)
  for (let end = 1; end <= done.length; end++) {
    const counts = ['a', 'b', 'c'].map((name) => done.slice(0, end).filter((other) => other === name).length)
    if (counts.filter((pieces) => pieces > 4 && pieces < 10).length > 1) return t.fail(`two are in progress: ${done}`)
  }
})

t.test('new requests get half of the turns, also beside a long one of the same owner', async (t) => {
  let now = 0
  const turns = new Turns({ clock: () => now })
  let pieces = 0
  const long = async () => {
    await turns.take(() => 'one')
    for (; pieces < 200; pieces++) {
      await turns.resume(() => 'one')
      now += 0.1
    }
  }
  const short = async () => {
    await turns.take(() => 'one')
    now += 0.1
  }
  const ending = long()
  while (pieces < 10) await wait(0)
  const before = pieces
  await Promise.all(Array.from({ length: 50 }, short))
  t.ok(pieces - before <= 60, `${pieces - before}`)
  await ending
})
