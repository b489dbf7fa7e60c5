import fc from 'fast-check'
import t from 'tap'
import { OPERATOR_LABELS } from '../../../src/contract/labels.js'
import type { Filter } from '../../../src/contract/questions.js'
import { changeOperator, isFilter, type Operator, toFilter, toGroup } from '../../../src/web/lib/filters.js'

const scalar = fc.oneof(
  fc.string(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
)

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
