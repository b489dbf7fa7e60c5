import t from 'tap'
import type { Warning } from '../../src/contract/warning.js'
import { findNames } from '../../src/questions/names-used.js'
import { parseQuestion } from '../../src/questions/parse.js'
import { settingsFor, startApp, until } from '../helper.js'

const START = Date.parse('2026-04-20T00:00:00Z')
const RANGE = { from: '2026-04-20', to: '2026-04-22' }

for (const storage of ['embedded', 'servers', 'lanes'] as const) {
  t.test(storage, async (t) => {
    const { call } = await startApp(t, await settingsFor(t, storage))
    const send = async (...events: [event: string, properties?: object][]) => {
      const body = events.map(([event, properties = {}], i) => {
        return { event, distinct_id: 'ada', timestamp: START + i, properties }
      })
      const response = await call('POST', '/public/track/batch', { events: body })
      if (response.statusCode !== 200) throw new Error(response.body)
    }
    const ask = async (question: object) => {
      const range = 'of' in question ? {} : RANGE
      const response = await call('POST', '/public/query', { ...range, ...question })
      if (response.statusCode !== 200) throw new Error(response.body)
      return response.json()
    }
    /** On a slow machine an answer may be there long before its warnings, which then come with a later one. */
    const warned = async (question: object): Promise<Warning[]> =>
      await until('warnings', async () => (await ask(question)).warnings)
    const seriesOf = (event: string | string[], more: object = {}) => ({ kind: 'series', series: [{ event, ...more }] })

    await t.test('a project without events gets no warnings', async (t) => {
      t.notOk('warnings' in (await ask(seriesOf('purch'))))
    })

    await send(['signed up', { plan: 'pro', 'utm.source': 'x' }], ['purchased', { price: 9.5, plan: 'pro' }])

    await t.test('an unknown event is named with the one that was probably meant', async (t) => {
      t.strictSame(await warned(seriesOf('purch')), [
        { path: '/series/0/event', message: 'No event is called purch. Did you mean purchased?' },
      ])
      t.strictSame(await warned(seriesOf('zzz')), [{ path: '/series/0/event', message: 'No event is called zzz.' }])
      t.strictSame(
        await warned({ kind: 'funnel', steps: [{ event: 'signed up' }, { event: ['Purchased', 'purchased'] }] }),
        [{ path: '/steps/1/event/0', message: 'No event is called Purchased. Did you mean purchased?' }],
      )
      t.strictSame(await warned({ kind: 'retention', start: 'signedup', return: { event: 'purchase' } }), [
        { path: '/start', message: 'No event is called signedup. Did you mean signed up?' },
        { path: '/return/event', message: 'No event is called purchase. Did you mean purchased?' },
      ])
      t.strictSame(
        await warned({
          kind: 'users',
          of: { kind: 'paths', end: 'purchsed', ...RANGE },
          cell: { step: 0, event: 'x' },
        }),
        [{ path: '/of/end', message: 'No event is called purchsed. Did you mean purchased?' }],
      )
      t.strictSame(await warned({ ...seriesOf('*'), where: ['and', [['is', 'event', ['purchased', 'signed']]]] }), [
        { path: '/where/1/0/2/1', message: 'No event is called signed. Did you mean signed up?' },
      ])
    })

    await t.test('a property that none of the newest events has is named', async (t) => {
      t.strictSame(await warned({ ...seriesOf('*'), breakdown: ['properties.plam'] }), [
        {
          path: '/breakdown/0',
          message: 'None of the newest 2 events has the property plam. Did you mean plan?',
        },
      ])
      t.strictSame(await warned(seriesOf('purchased', { metric: 'sum', property: 'properties.prize' })), [
        {
          path: '/series/0/property',
          message: 'The newest event called purchased lacks the property prize. Did you mean price?',
        },
      ])
      t.strictSame(await warned({ ...seriesOf('*'), where: ['not', ['is', 'properties.utm.source', ['x']]] }), [
        {
          path: '/where/1/1',
          message: 'None of the newest 2 events has the property utm. Did you mean ["properties","utm.source"]?',
        },
      ])
      const both = {
        kind: 'funnel',
        steps: [{ event: 'signed up' }, { event: 'purchased' }],
        breakdown: ['properties.price'],
      }
      t.notOk('warnings' in (await ask(both)), 'one of the events has it')
      t.strictSame(await warned(seriesOf('signed up', { where: ['set', 'properties.price'] })), [
        { path: '/series/0/where/1', message: 'The newest event called signed up lacks the property price.' },
      ])
      t.strictSame(
        await warned(seriesOf('purch', { where: ['set', 'properties.x'] })),
        [{ path: '/series/0/event', message: 'No event is called purch. Did you mean purchased?' }],
        'of an event that nothing has, no property is missed',
      )
    })

    await t.test('a question with known names has no warnings', async (t) => {
      const where = [
        'and',
        [
          ['is', 'properties.plan', ['free']],
          ['set', 'user.email'],
          ['is', 'event', ['purchased']],
        ],
      ]
      const fields = { breakdown: ['properties.plan', ['properties', 'utm.source']], where }
      const answer = await ask({ ...seriesOf(['purchased', 'signed up']), ...fields })
      t.strictSame(Object.keys(answer), ['status', 'error', 'kind', 'results', 'query', 'pending', 'elapsed_ms'])
    })

    await t.test('an ignored field is named', async (t) => {
      const { warnings } = await ask({
        ...seriesOf('purchased', { aggregate: 'users' }),
        intervall: 'week',
        breakdowns: null,
      })
      t.strictSame(warnings, [
        { path: '/intervall', message: 'The field intervall is ignored. Did you mean interval?' },
        {
          path: '/series/0/aggregate',
          message: 'The field aggregate is ignored. The fields here are event, where, metric.',
        },
      ])
      const retention = await ask({ kind: 'retention', start: 'purchased', return: 'purchased', steps: 2 })
      t.match(retention.warnings, [
        { path: '/steps', message: /^The field steps is ignored\. The fields here are kind, / },
      ])
    })

    await t.test('events that were just sent are known', async (t) => {
      for (let i = 0; i < 15; i++) {
        const [event, property] = [`new event ${i}`, `new${i}`]
        await send([event, { [property]: 1 }])
        const question = { ...seriesOf(event, { metric: 'sum', property: `properties.${property}` }), interval: 'none' }
        t.match(await ask(question), { results: [{ total: 1 }], warnings: undefined }, event)
      }
    })

    await t.test('deleted names are unknown again, and at most 20 are named', async (t) => {
      const { events } = (await call('GET', '/public/events?limit=1000&event=new%20event%203')).json()
      t.equal((await call('DELETE', `/public/events/${events[0].eventId}`)).statusCode, 200)
      const many = Array.from({ length: 30 }, (_, i) => `none ${i}`)
      t.equal((await warned(seriesOf(many))).length, 20)
      t.match(await warned(seriesOf('new event 3')), [{ message: /^No event is called new event 3\. Did you mean/ }])
    })
  })
}

t.test('findNames finds the names in every kind of question', (t) => {
  const where = [
    'or',
    [
      ['not', ['is', 'properties.a', [1]]],
      ['contains', ['properties', 'b.c', 'd'], 'x'],
    ],
  ]
  const of = {
    kind: 'funnel',
    steps: [{ event: 'e' }, { event: ['f', 'g'], where }],
    exclude: [{ event: '*', after: 1, where: ['gt', 'timestamp', 1] }],
    breakdown: ['properties.p.q', 'user.plan'],
  }
  const body = { kind: 'users', of, cell: { step: 1, breakdown: ['x', 'y'] } }
  t.strictSame(findNames(parseQuestion(body, START), body), {
    events: [
      { path: '/of/steps/0/event', name: 'e' },
      { path: '/of/steps/1/event/0', name: 'f' },
      { path: '/of/steps/1/event/1', name: 'g' },
    ],
    properties: [
      { path: '/of/steps/1/where/1/0/1/1', name: 'a', rest: [], events: ['f', 'g'] },
      { path: '/of/steps/1/where/1/1/1', name: 'b.c', rest: ['d'], events: ['f', 'g'] },
      { path: '/of/breakdown/0', name: 'p', rest: ['q'], events: null },
    ],
  })
  t.end()
})
