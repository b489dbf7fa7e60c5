import t from 'tap'
import { filterChoices, isSpelled } from '../../../src/web/lib/choices.js'

const find = (text: string, ...values: string[]) =>
  filterChoices(
    text,
    values.map((value) => ({ value })),
  ).map(({ value }) => value)

t.test('exact matches come first, then beginnings, beginnings of words, and parts', (t) => {
  t.strictSame(find('plan', 'explan', 'old plan', 'planned', 'Plan', 'plan', 'other'), [
    'plan',
    'Plan',
    'planned',
    'old plan',
    'explan',
  ])
  t.strictSame(find('', 'b', 'a'), ['b', 'a'], 'the order is kept')
  t.end()
})

t.test('case, punctuation, width and invisible characters do not matter', (t) => {
  for (const text of [
    'SIGNED UP',
    'signed_up',
    ' signed-up ',
    'ｓｉｇｎｅｄ',
    '\u200fsigned up\u200b',
    'signed\u00a0up',
  ]) {
    t.strictSame(find(text, 'signed up'), ['signed up'], JSON.stringify(text))
  }
  t.strictSame(find('e\u0301t', '\u00e9t\u00e9'), ['\u00e9t\u00e9'])
  t.strictSame(find('شراء', 'تم الشراء', 'x'), ['تم الشراء'])
  t.end()
})

t.test('other words find a choice, and do not spell it', async (t) => {
  const sessions = { value: '$session', words: ['sessions', 'visit'] }
  t.strictSame(filterChoices('visit', [{ value: 'visit shop' }, sessions]).at(0), sessions)
  t.notOk(isSpelled(sessions, 'visit'))
})

t.test('a shorter name is found, too, and unsuitable names come last', (t) => {
  const choices = [
    { value: 'properties.plan', name: 'plan', unfit: 'text' },
    { value: 'properties.old_plan', name: 'old_plan' },
    { value: 'user.plan', name: 'plan' },
  ]
  const found = filterChoices('plan', choices).map(({ value }) => value)
  t.strictSame(found, ['user.plan', 'properties.old_plan', 'properties.plan'])
  t.ok(isSpelled({ value: 'user.plan', name: 'plan' }, ' plan '))
  t.ok(isSpelled({ value: 'user.plan', name: 'plan' }, 'user.plan'))
  t.notOk(isSpelled({ value: 'user.plan', name: 'plan' }, 'Plan'))
  t.end()
})
