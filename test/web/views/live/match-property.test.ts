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
  t.notOk(is('none'), 'null is the same as not set')
  t.ok(is('missing', 'null') && is('a.x', 'null'))
  t.notOk(is('plan', 'null'))
  t.notOk(is('plan', 'free') || is('missing') || is('a.x') || is('plan.x') || is('toString'))
})

t.test('matchesProperty reads arrays and null as questions do', async (t) => {
  const text = '{"tags":["pro",2,null],"a.b":null,"a":{"b":1},"nested":[["pro"]]}'
  const is = (name: string, value = '') => matchesProperty(text, { name, value })
  t.ok(is('tags') && is('tags', 'pro') && is('tags', '2.0') && is('tags', '["pro",2,null]'))
  t.notOk(is('tags', 'free') || is('tags', 'null') || is('nested', 'pro'))
  t.ok(is('a.b') && is('a.b', '1'), 'a path whose name is null')
})
