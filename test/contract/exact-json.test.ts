import t from 'tap'
import { formatExactJson } from '../../src/contract/exact-json.js'
import { isSameJson } from '../../src/contract/same-json.js'

t.test('infinite numbers stay numbers, whatever texts are next to them', async (t) => {
  const { POSITIVE_INFINITY: above, NEGATIVE_INFINITY: below } = Number
  const value = [above, { infinite: 'infinite', '"': ['-infinite!', below, '"infinite"'] }, null]
  t.equal(formatExactJson(value), '[1e400,{"infinite":"infinite","\\"":["-infinite!",-1e400,"\\"infinite\\""]},null]')
  t.strictSame(JSON.parse(formatExactJson(value)), value)
  t.equal(formatExactJson([above, 1], 1), '[\n 1e400,\n 1\n]')
  t.notOk(isSameJson([above], [below]))
  t.notOk(isSameJson([above], [null]))
  t.ok(isSameJson([above], [above]))
})

t.test('no text makes it slow', async (t) => {
  // Trying one mark after another would take minutes.
  const text = `infinite${'!'.repeat(500_000)}`
  t.ok(formatExactJson([text, Number.POSITIVE_INFINITY]) === `["${text}",1e400]`)
})
