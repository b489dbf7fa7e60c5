import fc from 'fast-check'
import t from 'tap'
import type { Filter } from '../../../src/contract/questions.js'
import { layOutFlow } from '../../../src/web/charts/flow-layout.js'
import {
  findPartAt,
  selectCompletePart,
  selectOpenPart,
  stackLines,
  sumLines,
} from '../../../src/web/charts/plot-data.js'
import { formatBuckets } from '../../../src/web/lib/answer-labels.js'
import { formatCsv } from '../../../src/web/lib/csv.js'
import { formatField, formatValue, parseField, parseValue } from '../../../src/web/lib/fields.js'
import {
  changeOperator,
  isFilter,
  OPERATOR_LABELS,
  type Operator,
  toFilter,
  toGroup,
} from '../../../src/web/lib/filters.js'
import { formatCompact, formatNumber, formatTick } from '../../../src/web/lib/format.js'
import { findRangeBefore, hasBegun, isDate } from '../../../src/web/lib/range.js'

const scalar = fc.oneof(
  fc.string(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
)

t.test('parseValue is the inverse of formatValue', (t) => {
  fc.assert(
    fc.property(fc.oneof(scalar, fc.constantFrom('5', 'true', '"a"', 'null', '', ' a')), (value) => {
      t.strictSame(parseValue(formatValue(value)), Object.is(value, -0) ? 0 : value)
    }),
  )
  t.equal(formatValue('5'), '"5"')
  t.equal(formatValue('pro'), 'pro')
  t.end()
})

t.test('parseField is the inverse of formatField, and a plain name is a property', (t) => {
  for (const field of ['event', 'properties.a', 'user.a.b', ['properties', 'a.b', '"']]) {
    t.strictSame(parseField(formatField(field)), field)
  }
  t.equal(parseField(' price '), 'properties.price')
  t.strictSame(parseField('utm.source'), ['properties', 'utm.source'])
  t.equal(parseField(''), '')
  t.end()
})

const condition = fc.oneof(
  fc.tuple(fc.constantFrom('is', 'is_not'), fc.string(), fc.array(scalar)),
  fc.tuple(fc.constantFrom('contains', 'matches'), fc.string(), fc.array(fc.string())),
  fc.tuple(fc.constantFrom('gt', 'lte'), fc.string(), fc.oneof(fc.integer(), fc.string())),
  fc.tuple(fc.constantFrom('set', 'not_set'), fc.string()),
) as fc.Arbitrary<Filter>
const group = (of: fc.Arbitrary<Filter>) =>
  fc.tuple(fc.constantFrom('and', 'or'), fc.array(of)) as unknown as fc.Arbitrary<Filter>

t.test('toFilter is the inverse of toGroup', (t) => {
  fc.assert(
    fc.property(group(fc.oneof(condition, group(condition))), (filter) => {
      t.ok(isFilter(filter))
      const form = toGroup(filter)
      if (!form) return t.fail(JSON.stringify(filter))
      const back = toFilter(form)
      const [joint, inner] = filter as ['and' | 'or', Filter[]]
      t.strictSame(back, inner.length === 0 ? null : inner.length === 1 && joint === 'and' ? inner[0] : filter)
    }),
  )
  t.equal(toGroup(['not', ['set', 'event']]), null)
  t.equal(toGroup(['and', [['or', [['and', [['set', 'event']]]]]]]), null)
  t.end()
})

t.test('changeOperator returns a valid filter', (t) => {
  fc.assert(
    fc.property(condition, fc.constantFrom(...(Object.keys(OPERATOR_LABELS) as Operator[])), (before, operator) => {
      const after = changeOperator(before as never, operator)
      t.equal(after[0], operator)
      t.ok(isFilter(after), JSON.stringify(after))
    }),
  )
  t.end()
})

t.test('formatCsv escapes formulas and quotes', (t) => {
  t.equal(
    formatCsv([
      ['a', 'b'],
      [1, null],
      [-2, '=1'],
    ]),
    "a,b\r\n1,\r\n-2,'=1\r\n",
  )
  for (const text of ['=a', '+a', '-a', '@a', '\ta', '\r=a', ' =a', '＝a']) t.match(formatCsv([[text]]), /^"?'/)
  t.equal(formatCsv([['a "b", c\nd']]), '"a ""b"", c\nd"\r\n')
  t.end()
})

t.test('formatNumber and formatTick show enough digits for any magnitude', (t) => {
  t.equal(formatNumber(0.1 + 0.2), '0.3')
  t.equal(formatNumber(1234.567), '1,234.57')
  t.equal(formatNumber(0.004), '0.004')
  t.equal(formatCompact(0.0123), '0.0123')
  t.equal(formatNumber(-0.000_000_002), '-2E-9')
  t.equal(formatNumber(1e15), '1,000,000,000,000,000')
  t.equal(formatNumber(1.5e300), '1.5E300')
  t.equal(formatNumber(0), '0')
  // Each tick of an axis has a label of its own.
  const steps = fc.tuple(fc.constantFrom(1, 2, 2.5, 5), fc.integer({ min: -12, max: 20 }))
  fc.assert(
    fc.property(steps, fc.integer({ min: -12, max: 0 }), ([factor, power], first) => {
      const step = Number(`${factor}e${power}`)
      const texts = Array.from({ length: 13 }, (_, i) => formatTick((first + i) * step, step))
      t.equal(new Set(texts).size, 13, `${step}: ${texts}`)
    }),
  )
  t.end()
})

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

t.test('formatBuckets distinguishes the hour that is repeated when clocks go back', (t) => {
  const ats = ['01:00:00+02:00', '02:00:00+02:00', '02:00:00+01:00', '03:00:00+01:00'].map((at) => `2026-10-25T${at}`)
  const texts = formatBuckets(ats, 'hour')
  t.match(texts[1], /\(UTC\+02:00\)$/)
  t.match(texts[2], /\(UTC\+01:00\)$/)
  t.notMatch(texts[0], /UTC/)
  t.equal(new Set(texts).size, 4)
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

t.test('hasBegun uses the time zone of the question', (t) => {
  const now = Date.parse('2026-03-31T22:30:00Z')
  const begun = (unit: 'day' | 'week' | 'month', timezone: string, cohort: string, interval: number) =>
    hasBegun({ unit, timezone } as never, cohort, interval, now)
  t.ok(begun('day', 'Europe/Berlin', '2026-03-31', 1))
  t.notOk(begun('day', 'UTC', '2026-03-31', 1))
  t.ok(begun('week', 'UTC', '2026-03-23', 1))
  t.notOk(begun('month', 'UTC', '2026-03-01', 1))
  t.end()
})

t.test('layOutFlow keeps bands within their nodes', (t) => {
  const users = fc.integer({ min: 0, max: 1000 })
  fc.assert(
    fc.property(
      fc.array(users, { minLength: 1, maxLength: 5 }),
      fc.array(users, { minLength: 1, maxLength: 5 }),
      (a, b) => {
        const nodes = [
          ...a.map((count, i) => ({ step: 0, event: `a${i}`, users: count })),
          ...b.map((count, i) => ({ step: 1, event: `b${i}`, users: count })),
        ]
        const links = a.flatMap((count, i) => {
          return b.map((other, k) => ({ step: 0, from: `a${i}`, to: `b${k}`, users: Math.min(count, other) }))
        })
        const flow = layOutFlow({ nodes, links }, false)
        t.equal(flow.links.length, links.length)
        for (const { path } of flow.links) {
          const ys = [...path.matchAll(/(?:M\S+|L\S+|C\S+ \S+ \S+ \S+ \S+) (\S+?)(?=[CLZ])/g)].map(([, y]) => Number(y))
          t.ok(ys.every((y) => y >= 0 && y <= flow.height))
        }
        const bottoms = flow.nodes.map(({ y, height }) => y + height)
        t.ok(Math.max(...bottoms) <= flow.height)
      },
    ),
  )
  const back = layOutFlow(
    {
      nodes: [
        { step: 0, event: 'end', users: 2 },
        { step: 1, event: 'before', users: 2 },
      ],
      links: [{ step: 0, from: 'before', to: 'end', users: 2 }],
    },
    true,
  )
  t.ok((back.nodes[1]?.x ?? 0) < (back.nodes[0]?.x ?? 0), 'time runs from left to right')
  t.equal(back.links.length, 1)
  t.end()
})

t.test('isDate rejects impossible dates', async (t) => {
  for (const date of ['2026-05-01', '2024-02-29']) t.ok(isDate(date), date)
  for (const text of ['2026-13-01', '2026-00-10', '2026-01-32', '2026-5-1', 5]) t.notOk(isDate(text), String(text))
  t.strictSame(findRangeBefore({ from: '2026-05-03', to: '2026-05-05' }), { from: '2026-05-01', to: '2026-05-03' })
  t.equal(findRangeBefore({ from: '2026-05-03', to: '2026-13-01' }), null)
})
