import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from 'tap'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { until } from '../helper.js'

const MIB = 1024 * 1024

t.test('bodies that were not released keep their bytes, even if others are released twice', async () => {
  const take = fc.record({
    take: fc.oneof(fc.integer({ min: 0, max: 8192 }), fc.integer({ min: 300_000, max: 1_200_000 })),
    cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
  })
  const giveBack = fc.record({ giveBack: fc.nat() })
  const repeat = fc.record({ repeat: fc.nat() })
  fc.assert(
    fc.property(fc.array(fc.oneof(take, giveBack, repeat), { maxLength: 60 }), (steps) => {
      const memory = new BufferPool()
      const released: Buffer[] = []
      const kept: { body: Buffer; expected: Buffer }[] = []
      let count = 0
      for (const step of steps) {
        if ('giveBack' in step) {
          const [gone] = kept.splice(step.giveBack % (kept.length || 1), 1)
          if (gone) memory.release(gone.body)
          if (gone) released.push(gone.body)
          continue
        }
        if ('repeat' in step) {
          const again = released[step.repeat % released.length]
          if (again) memory.release(again)
          continue
        }
        const expected = Buffer.alloc(step.take, ++count)
        const ends = [...step.cuts.map((cut) => Math.floor(cut * step.take)).sort((a, b) => a - b), step.take]
        const chunks = ends.map((end, i) => expected.subarray(ends[i - 1] ?? 0, end))
        kept.push({ body: memory.concat(chunks, step.take), expected })
        for (const { body, expected } of kept) if (!body.equals(expected)) return false
      }
      return true
    }),
  )
})

t.test('released memory is reused', async (t) => {
  const memory = new BufferPool()
  const pieces = new Set<ArrayBufferLike>()
  for (let i = 0; i < 100; i++) {
    const bodies = Array.from({ length: 10 }, () => memory.concat([Buffer.alloc(MIB / 2)], MIB / 2))
    for (const body of bodies) {
      pieces.add(body.buffer)
      memory.release(body)
    }
  }
  t.ok(pieces.size <= 4, `500 MiB went through ${pieces.size} pieces of 2 MiB`)
})

t.test('buffers from elsewhere are not touched', async (t) => {
  const memory = new BufferPool()
  const own = memory.concat([Buffer.alloc(MIB, 1)], MIB)
  memory.release(Buffer.alloc(MIB))
  memory.release(Buffer.from('small'))
  memory.concat([Buffer.alloc(MIB, 2)], MIB)
  t.ok(own.every((byte) => byte === 1))
})

t.test('a few long-lived bodies do not keep all neighbours in memory', async (t) => {
  const memory = new BufferPool()
  // As when refused requests come in between those that wait for the store.
  const takeOne = () => {
    for (let i = 0; i < 2; i++) memory.concat([Buffer.alloc(MIB)], MIB)
    return memory.concat([Buffer.alloc(8192)], 8192)
  }
  let kept = Array.from({ length: 150 }, takeOne)
  const held = () => [...new Set(kept.map(({ buffer }) => buffer))].reduce((sum, { byteLength }) => sum + byteLength, 0)
  t.ok(held() < 200 * MIB, `${kept.length} bodies of 8 KiB hold ${Math.round(held() / MIB)} MiB`)

  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  kept = []
  await until('shared memory again', () => {
    collectGarbage()
    kept = [takeOne()]
    return held() === 2 * MIB
  })
})
