import t from 'tap'
import {
  findPartAt,
  listValueSteps,
  selectCompletePart,
  selectOpenPart,
  stackLines,
  sumLines,
} from '../../../src/web/charts/plot-data.js'

t.test('stackLines stacks negative values below zero', (t) => {
  const tops = stackLines([
    [-5, 1],
    [3, 2],
    [-2, null],
  ])
  t.strictSame(tops, [
    [-5, 1],
    [3, 3],
    [-7, null],
  ])
  const first = tops.map(([top]) => top ?? null)
  const parts = [-4, -6, -9, 1, 9].map((height) => findPartAt(first, height))
  t.strictSame(parts, [0, 2, 2, 1, 2])
  t.end()
})

t.test('selectOpenPart continues where selectCompletePart ends', (t) => {
  const complete = [true, true, false, false]
  t.strictSame(selectCompletePart([1, 2, 3, 4], complete), [1, 2, null, null])
  t.strictSame(selectOpenPart([1, 2, 3, 4], complete), [null, 2, 3, 4])
  t.strictSame(selectOpenPart([1, 2], [true, true]), [null, null])
  t.strictSame(
    stackLines([
      [1, null, 2],
      [3, 4, null],
    ]),
    [
      [1, null, 2],
      [4, 4, null],
    ],
  )
  t.strictSame(
    sumLines([
      [1, null],
      [2, null],
    ]),
    [3, null],
  )
  t.end()
})

t.test('listValueSteps has no fractions for counts', (t) => {
  const line = { name: 'Visitors', index: 0, values: [0, 4, null], before: [1, 2, 3] }
  t.ok(listValueSteps([line])?.every(Number.isInteger))
  t.equal(listValueSteps([line])?.[0], 1)
  t.equal(listValueSteps([line, { ...line, values: [0.5] }]), undefined)
  t.equal(listValueSteps([{ ...line, before: [0.5] }]), undefined)
  t.end()
})
