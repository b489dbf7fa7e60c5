import t from 'tap'
import { formatExactJson } from '../../../src/contract/exact-json.js'
import { labelFilter } from '../../../src/contract/labels.js'
import { applyControls, formatControls, parseControls, readControls } from '../../../src/web/lib/board-controls.js'

const NOW = Date.parse('2026-05-20T12:00Z')

t.test('a URL has only the differences from the board, and is read back', async (t) => {
  const saved = parseControls({ range: '7d', timezone: 'Asia/Tokyo', where: ['set', 'user.a'] })
  const changes = [
    {},
    { range: 'last_month' },
    { range: undefined, from: '2026-05-01', to: '2026-05-03' },
    { range: undefined, from: 1_777_600_000_000, to: '2026-05-03T09:30' },
    { timezone: 'Europe/Berlin', week_start: 'sunday' },
    { where: null },
    { where: ['is', 'properties.a', ['x', Number.POSITIVE_INFINITY]] },
  ]
  for (const change of changes) {
    const controls = JSON.parse(formatExactJson({ ...saved, ...change }))
    const query = formatControls(controls, saved)
    const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''))
    t.strictSame(readControls(given, saved), controls, String(given))
  }
  t.strictSame(formatControls(saved, saved), {})
})

t.test('parseControls ignores unknown controls', async (t) => {
  const usual = { timezone: 'UTC', week_start: 'monday', where: null }
  for (const value of [null, 5, { range: '1000y', timezone: 5, where: ['no'], from: '2026-05-01' }]) {
    t.strictSame(parseControls(value), usual)
  }
})

t.test('applyControls replaces the range of a card and adds to its filter', async (t) => {
  const controls = parseControls({ range: 'today', timezone: 'Asia/Tokyo', where: ['set', 'user.a'] })
  const question = { kind: 'series', series: [{ event: 'a' }], interval: 'week', from: '2026-01-01', to: '2026-02-01' }
  const applied = applyControls({ ...question, where: ['set', 'user.b'] }, { range: '90d', as: 'bar' }, controls, NOW)
  t.strictSame(applied?.display, { as: 'bar', range: 'today' })
  t.strictSame(applied?.question, {
    kind: 'series',
    series: [{ event: 'a', metric: 'events' }],
    timezone: 'Asia/Tokyo',
    where: [
      'and',
      [
        ['set', 'user.b'],
        ['set', 'user.a'],
      ],
    ],
  })
  t.equal(applyControls({ kind: 'users' }, {}, controls, NOW), null)
})

t.test('labelFilter describes a filter', async (t) => {
  t.equal(labelFilter(['is', 'properties.country', ['AT', 'DE']]), 'country is AT or DE')
  const plan = [
    'or',
    [
      ['set', 'user.plan'],
      ['is', 'properties.a', [null]],
    ],
  ]
  t.equal(
    labelFilter(['and', [['gt', 'properties.price', 5], plan]] as never),
    'price is more than 5, and (user’s plan is set, or a is (not set))',
  )
})
