import t from 'tap'
import { matchesProperty } from '../../../../src/web/views/live/match-property.js'

t.test('matchesProperty compares strings without quotes, and numbers by value', async (t) => {
  const text =
    '{"plan":"pro","n":1.0,"ok":true,"none":null,"a.b":"dot","a":{"b":"in","c":{"d":[1]}},"big":12345678901234567890,"q":"\\u0022"}'
  const is = (name: string, value = '') => matchesProperty(text, { name, value })
  t.ok(is('') && is('plan') && is('plan', 'pro') && is('plan', '"pro"') && is('none', 'null') && is('ok', 'true'))
  t.ok(is('n', '1.0') && is('n', '1'))
  t.ok(is('big', '12345678901234567890'))
  t.notOk(is('big', '12345678901234567891') || is('n', '2') || is('none', '0') || is('plan', ' '))
  t.ok(is('q', '"'))
  t.ok(is('a.b', 'dot'), 'the name itself comes first')
  t.ok(is('a.c.d', '[1]'))
  t.notOk(is('plan', 'free') || is('missing') || is('a.x') || is('plan.x') || is('toString'))
})
