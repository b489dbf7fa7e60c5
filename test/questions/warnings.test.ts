import t from 'tap'
import type { Warning } from '../../src/contract/warning.js'
import { findNames } from '../../src/questions/names-used.js'
import { readQuestion } from '../../src/questions/parse.js'
import { LANES, settingsFor, startApp, until } from '../helper.js'

const START = Date.parse('2026-04-20T00:00:00Z')
const RANGE = { from: '2026-04-20', to: '2026-04-22' }

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const { app, call } = await startApp(t, { ...(await settingsFor(t, storage)), FACTS: 'on' })
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
    /** On a slow machine, an answer may be ready long before its warnings, which then come with a later answer. */
    const warned = async (question: object): Promise<Warning[]> =>
      await until('warnings', async () => (await ask(question)).warnings)
    const seriesOf = (event: string | string[], more: object = {}) => ({ kind: 'series', series: [{ event, ...more }] })

    await t.test('a project without events gets no warnings', async (t) => {
      t.notOk('warnings' in (await ask(seriesOf('purch'))))
    })

    await send(['signed up', { plan: 'pro', 'utm.source': 'x' }], ['purchased', { price: 9.5, plan: 'pro' }])

    /** A warning about an event name. */
    const unknownEvent = (path: string, name: string, suggestion?: string): Warning =>
      suggestion === undefined
        ? { path, message: `No event is called “${name}”.` }
        : { path, message: `No event is called “${name}”. Did you mean “${suggestion}”?`, suggestion }

    await t.test('an unknown event, and the event that was probably meant', async (t) => {
      t.strictSame(await warned({ kind: 'series', series: [{ event: 'purch' }, { event: 'zzz' }] }), [
        unknownEvent('/series/0/event', 'purch', 'purchased'),
        unknownEvent('/series/1/event', 'zzz'),
      ])
      t.strictSame(
        await warned({ kind: 'funnel', steps: [{ event: 'signed up' }, { event: ['Purchased', 'purchased'] }] }),
        [unknownEvent('/steps/1/event/0', 'Purchased', 'purchased')],
      )
      const excluded = { exclude: [{ event: 'signd up', after: 1 }] }
      t.strictSame(
        await warned({ kind: 'funnel', steps: [{ event: 'signed up' }, { event: 'purchased' }], ...excluded }),
        [unknownEvent('/exclude/0/event', 'signd up', 'signed up')],
      )
      t.strictSame(await warned({ kind: 'retention', start: 'signedup', return: { event: 'purchase' } }), [
        unknownEvent('/start', 'signedup', 'signed up'),
        unknownEvent('/return/event', 'purchase', 'purchased'),
      ])
      t.strictSame(
        await warned({
          kind: 'users',
          of: { kind: 'paths', end: 'purchsed', ...RANGE },
          cell: { step: 0, event: 'sign up' },
        }),
        [unknownEvent('/of/end', 'purchsed', 'purchased'), unknownEvent('/cell/event', 'sign up', 'signed up')],
      )
      const filters = ['is', 'is_not'].map((operator) => [operator, 'event', ['purchased', 'signed']])
      t.strictSame(await warned({ ...seriesOf('*'), where: ['or', filters] }), [
        unknownEvent('/where/1/0/2/1', 'signed', 'signed up'),
        unknownEvent('/where/1/1/2/1', 'signed', 'signed up'),
      ])
    })

    await t.test('a value that a field never has', async (t) => {
      const where = ['is', 'context.country', ['Austria']]
      t.match(await warned({ ...seriesOf('*'), where }), [{ path: '/where/2/0', suggestion: 'AT' }])
    })

    await t.test('a property that no event has', async (t) => {
      t.strictSame(await warned({ ...seriesOf('*'), breakdown: ['properties.plam'] }), [
        {
          path: '/breakdown/0',
          message: 'No event has the property “plam”. Did you mean “plan”?',
          suggestion: 'properties.plan',
        },
      ])
      t.strictSame(await warned(seriesOf('purchased', { metric: 'sum', property: 'properties.prize' })), [
        {
          path: '/series/0/property',
          message: 'No event called “purchased” has the property “prize”. Did you mean “price”?',
          suggestion: 'properties.price',
        },
      ])
      t.strictSame(await warned({ ...seriesOf('*'), where: ['not', ['is', 'properties.utm.source', ['x']]] }), [
        {
          path: '/where/1/1',
          message: 'No event has the property “utm.source”. Did you mean ["properties","utm.source"]?',
          suggestion: ['properties', 'utm.source'],
        },
      ])
      t.strictSame(await warned(seriesOf('signed up', { where: ['set', 'properties.price'] })), [
        { path: '/series/0/where/1', message: 'No event called “signed up” has the property “price”.' },
      ])
      t.strictSame(
        await warned(seriesOf('purch', { where: ['set', 'properties.x'] })),
        [unknownEvent('/series/0/event', 'purch', 'purchased')],
        'no property of an unknown event is reported',
      )
    })

    await t.test('a name within an object, and one whose object was left out', async (t) => {
      await send(['ordered', { cart: { coupon: { code: 'VIP' }, total: 3 }, ids: [1] }])
      const of = (...names: string[]) => {
        const series = names.map((name) => ({ event: 'ordered', where: ['set', `properties.${name}`] }))
        return { kind: 'series', series }
      }
      t.match(await warned(of('cart.totl', 'cart.coupon.cod', 'code', 'Total', 'cart_total')), [
        {
          path: '/series/0/where/1',
          message: 'No event called “ordered” has the property “cart.totl”. Did you mean “cart.total”?',
          suggestion: 'properties.cart.total',
        },
        { path: '/series/1/where/1', suggestion: 'properties.cart.coupon.code' },
        { path: '/series/2/where/1', suggestion: 'properties.cart.coupon.code' },
        { path: '/series/3/where/1', suggestion: 'properties.cart.total' },
        { path: '/series/4/where/1', suggestion: 'properties.cart.total' },
      ])
      t.notOk('warnings' in (await ask(of('cart', 'cart.total', 'cart.coupon.code', 'ids'))))
    })

    await t.test('a funnel is split by properties of its first step', async (t) => {
      const steps = [{ event: 'signed up' }, { event: 'purchased' }]
      t.match(await warned({ kind: 'funnel', steps, breakdown: ['properties.price'] }), [
        { path: '/breakdown/0', message: 'No event called “signed up” has the property “price”.' },
      ])
      const either = { kind: 'funnel', steps, breakdown: ['properties.price'], order: 'any' }
      t.strictSame((await ask(either)).warnings, [
        { path: '/breakdown/0', message: 'No event here has properties.price.' },
      ])
    })

    await t.test('a property of users, and one of events instead', async (t) => {
      await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { city: 'Wien', age: 36 } })
      t.strictSame(await warned({ ...seriesOf('*'), where: ['set', 'user.citty'] }), [
        {
          path: '/where/1',
          message: 'No profile has the property “citty”. Did you mean “city”?',
          suggestion: 'user.city',
        },
      ])
      t.match(await warned({ ...seriesOf('*'), breakdown: ['properties.city'] }), [{ suggestion: 'user.city' }])
      t.match(await warned({ ...seriesOf('*'), breakdown: ['user.plan'] }), [
        {
          message: 'No profile has the property “plan”. Did you mean “properties.plan”?',
          suggestion: 'properties.plan',
        },
      ])
      t.match(await warned(seriesOf('*', { metric: 'avg', property: 'user.city' })), [
        { message: 'No profile has a number in “city”: its values are strings.' },
      ])
      t.notOk('warnings' in (await ask(seriesOf('*', { metric: 'avg', property: 'user.age' }))))
      await call('POST', '/public/users/identify', { distinct_id: 'bob', properties: { team: 'red' } })
      t.notOk('warnings' in (await ask({ ...seriesOf('*'), where: ['set', 'user.team'] })), 'as soon as it exists')
    })

    await t.test('a property of the session calls', async (t) => {
      const by = (field: unknown) => seriesOf('$session', { where: ['is', field, ['ads']] })
      t.strictSame(await warned(by('session.properties.campain')), [
        { path: '/series/0/where/1', message: 'No session has the property “campain”.' },
      ])
      const publicKey = (await call('POST', '/public/keys', { kind: 'public' })).json().apiKey
      const start = async (session_id: string, properties?: object) => {
        const body = { apiKey: publicKey, distinct_id: 'ada', session_id, properties }
        t.equal((await app.inject({ method: 'POST', url: '/public/sessions/start', payload: body })).statusCode, 200)
      }
      await start('s1', { campaign: 'ads', 'a.b': 'ads' })
      await start('s2')
      t.match(await warned(by('session.properties.campain')), [
        {
          message: 'No session has the property “campain”. Did you mean “campaign”?',
          suggestion: 'session.properties.campaign',
        },
      ])
      t.match(await warned(by('session.properties.ab')), [
        {
          message: 'No session has the property “ab”. Did you mean ["session","properties","a.b"]?',
          suggestion: ['session', 'properties', 'a.b'],
        },
      ])
      t.match(await warned(by('session.properties.plan')), [{ suggestion: 'session.first.properties.plan' }])
      t.match(await warned({ ...seriesOf('purchased'), breakdown: ['session.properties.campaigns'] }), [
        { path: '/breakdown/0', suggestion: 'session.properties.campaign' },
      ])
      t.notOk('warnings' in (await ask(by('session.properties.campaign'))))
    })

    await t.test('$session where it does not mean sessions', async (t) => {
      const message = /^No event is called “\$session”\. It means sessions only as the one event/
      t.match(await warned(seriesOf(['purchased', '$session'])), [{ path: '/series/0/event/1', message }])
      const has = seriesOf('$session', { where: ['session_has', { event: '$session' }] })
      t.match(await warned(has), [{ path: '/series/0/where/1/event', message }])
      t.notOk('warnings' in (await ask(seriesOf('$session'))))
    })

    await t.test('a property of an event of the session', async (t) => {
      t.match(await warned(seriesOf('$session', { where: ['is', 'session.first.properties.plam', ['pro']] })), [
        { path: '/series/0/where/1', suggestion: 'session.first.properties.plan' },
      ])
      const found = seriesOf('purchased', { where: ['is', 'session.last.properties.plan', ['pro']] })
      t.notOk('warnings' in (await ask(found)))
    })

    await t.test('values of another type, and values that nothing has', async (t) => {
      const of = (...filters: unknown[][]) => {
        return { kind: 'series', series: filters.map((where) => ({ event: 'purchased', where })) }
      }
      t.strictSame(await warned(seriesOf('purchased', { metric: 'sum', property: 'properties.plan' })), [
        {
          path: '/series/0/property',
          message: 'No event called “purchased” has a number in “plan”: its values are strings.',
        },
      ])
      const wrong = of(
        ['gt', 'properties.price', '5'],
        ['contains', 'properties.price', '5'],
        ['is', 'properties.price', ['9.50', '9.5']],
        ['is_not', 'properties.plan', [null, 'pro', 'Pro']],
      )
      t.match(await warned(wrong), [
        {
          path: '/series/0/where/1',
          message: 'No event called “purchased” has a string in “price”: its values are numbers.',
        },
        { path: '/series/1/where/1' },
        {
          path: '/series/2/where/2/0',
          message: 'No event called “purchased” has the value “9.50” in “price”.',
          suggestion: undefined,
        },
        {
          path: '/series/2/where/2/1',
          message: 'No event called “purchased” has the value “9.5” in “price”. Did you mean the number 9.5?',
          suggestion: 9.5,
        },
        {
          path: '/series/3/where/2/2',
          message: 'No event called “purchased” has the value “Pro” in “plan”. Did you mean “pro”?',
          suggestion: 'pro',
        },
      ])
      const right = of(
        ['is', 'properties.plan', ['pro', null]],
        ['is', 'properties.price', [9.5]],
        ['gt', 'properties.price', 100],
        ['starts_with', 'properties.plan', 'x'],
      )
      t.notOk('warnings' in (await ask(right)))
    })

    await t.test('a breakdown of nothing but unset values', async (t) => {
      await send(['signed up', { 'utm.source': 'y' }])
      const plans = { ...seriesOf('signed up'), where: ['is', ['properties', 'utm.source'], ['y']] }
      t.strictSame((await ask({ ...plans, breakdown: ['properties.plan'] })).warnings, [
        { path: '/breakdown/0', message: 'No event here has properties.plan.' },
      ])
      t.match((await ask({ ...plans, breakdown: [['properties', 'utm.source'], 'user.team'] })).warnings, [
        { path: '/breakdown/1', message: 'No user here has user.team.' },
      ])
    })

    await t.test('lists of names warn of an event or property that does not exist', async (t) => {
      const list = async (query: string) => (await call('GET', `/public/schema/${query}`)).json()
      t.strictSame((await list('properties?event=purch')).warnings, [unknownEvent('/event', 'purch', 'purchased')])
      t.strictSame((await list('values?field=properties.plan&event=purch')).warnings, [
        unknownEvent('/event', 'purch', 'purchased'),
      ])
      t.match((await list('values?field=properties.plam')).warnings, [
        { path: '/field', suggestion: 'properties.plan' },
      ])
      for (const query of [
        'properties?event=purchased',
        'values?field=properties.plan',
        'values?field=event&search=x',
      ]) {
        t.notOk('warnings' in (await list(query)), query)
      }
    })

    await t.test('a question whose names are known has no warnings', async (t) => {
      const where = [
        'and',
        [
          ['is', 'properties.plan', ['pro']],
          ['set', 'user.team'],
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
      for (let i = 0; i < 3; i++) {
        const [event, property] = [`new event ${i}`, `new${i}`]
        await send([event, { [property]: 1 }])
        const question = { ...seriesOf(event, { metric: 'sum', property: `properties.${property}` }), interval: 'none' }
        t.match(await ask(question), { results: [{ total: 1 }], warnings: undefined }, event)
      }
    })

    await t.test('deleted names are unknown again, and at most 20 are named', async (t) => {
      const { events } = (await call('GET', '/public/events?limit=1000&event=new%20event%202')).json()
      t.equal((await call('DELETE', `/public/events/${events[0].eventId}`)).statusCode, 200)
      const many = Array.from({ length: 30 }, (_, i) => `none ${i}`)
      t.equal((await warned(seriesOf(many))).length, 20)
      t.match(await warned(seriesOf('new event 2')), [{ message: /^No event is called “new event 2”\. Did you mean/ }])
    })
  })
}

t.test('a range in seconds is recognised', (t) => {
  const series = { kind: 'series', series: [{ event: '*' }] }
  const [from, to] = [1_733_788_800, 1_733_875_200]
  const wrong = (path: string) => [
    { path: `${path}/from`, message: /in milliseconds, .* Did you mean 1733788800000\?$/, suggestion: from * 1000 },
    { path: `${path}/to`, suggestion: to * 1000 },
  ]
  t.match(readQuestion({ ...series, from, to }, START).warnings, wrong(''))
  const users = { kind: 'users', of: { ...series, from, to }, cell: { series: 0 } }
  t.match(readQuestion(users, START).warnings, wrong('/of'))
  t.strictSame(readQuestion({ ...series, from: 0, to: to * 1000, interval: 'none' }, START).warnings, [])
  t.end()
})

t.test('values that a field never has are found in every filter', (t) => {
  const read = (more: object) => {
    return readQuestion({ kind: 'series', series: [{ event: '*' }], ...RANGE, ...more }, START).warnings
  }
  const cases: [field: string, value: unknown, message: RegExp, suggestion?: unknown][] = [
    ['page.channel', 'Organc Search', /Affiliates, .*Did you mean “Organic Search”/, 'Organic Search'],
    ['session.entry.page.channel', 'direct', /Did you mean “Direct”/, 'Direct'],
    ['context.device', 'phone', /is desktop, mobile, tablet, tv, console or other\.$/],
    ['context.country', 'Austria', /is two capital letters, as in ISO 3166-1\. Did you mean “AT”/, 'AT'],
    ['context.country', 'uk', /“GB”/, 'GB'],
    ['session.first.context.country', 'eu', /ISO 3166-1\.$/],
    ['context.bot', false, /is true or not set\.$/],
    ['session.bounced', 'true', /is true or false\. Did you mean true/, true],
    ['session.state', 'ended', /is active or completed/],
    ['session.pages', '2', /is a number\. Did you mean 2/, 2],
  ]
  for (const [field, value, message, suggestion] of cases) {
    const warnings = read({ where: ['is', field, [value]] })
    t.match(warnings, [{ path: '/where/2/0', message }], `${field} ${value}`)
    t.equal(warnings.length, 1)
    t.equal(warnings[0]?.suggestion, suggestion)
  }
  const typed: [filter: unknown[], message: string, suggestion?: unknown][] = [
    [['gt', 'session.seconds', '60'], 'The field “session.seconds” is never a string: it is a number.'],
    [['gt', 'context.browser_version', 120], 'The field “context.browser_version” is never a number: it is a string.'],
    [['contains', 'timestamp', '2026'], 'The field “timestamp” is never a string or an array: it is a number.'],
    [['lt', ['session', 'first', 'timestamp'], '2026-04-21'], 'The field “session.first.timestamp” is never a string'],
    [['is', 'timestamp', ['2026-04-20']], 'The field “timestamp” never has the value “2026-04-20”: it is a number.'],
    [['is', 'distinct_id', [5]], 'The field “distinct_id” never has the value 5: it is a string.', '5'],
    [['matches', 'session.bounced', 'true'], 'The field “session.bounced” is never a string: it is true or false.'],
  ]
  for (const [filter, message, suggestion] of typed) {
    const [warning, ...others] = read({ where: filter })
    t.match(warning?.message, message, JSON.stringify(filter))
    t.equal(warning?.path, filter[0] === 'is' ? '/where/2/0' : '/where/1')
    t.equal(warning?.suggestion, suggestion)
    t.strictSame(others, [])
  }
  t.match(read({ series: [{ event: '*', metric: 'sum', property: 'page.path' }] }), [
    { path: '/series/0/property', message: 'The field “page.path” is never a number: it is a string.' },
  ])
  const fits = [
    ['gte', 'timestamp', '2026-04-20'],
    ['gt', 'session.entry.page.url', 'a'],
    ['contains', 'page.url', 'a'],
    ['gt', 'session.start', START],
    ['set', 'session.seconds'],
  ]
  t.strictSame(read({ where: ['or', fits] }), [])
  const wrong = ['is_not', 'context.device', ['mobile', 'phone']]
  const paths = (more: object) => read(more).map(({ path }) => path)
  t.strictSame(paths({ where: ['session_has', { event: 'a', where: wrong }] }), ['/where/1/where/2/1'])
  t.strictSame(paths({ sessions: { gap: '30m', where: wrong } }), ['/sessions/where/2/1'])
  t.strictSame(paths({ series: [{ event: '*', where: ['not', wrong] }] }), ['/series/0/where/1/2/1'])
  const right = ['page.channel', 'context.device', 'context.country', 'context.bot', 'session.bounced', 'page.source']
  const values = ['AI Assistants', 'tv', 'XK', true, false, 'anything']
  t.strictSame(read({ where: ['and', right.map((field, i) => ['is_not', field, [values[i], null]])] }), [])
  t.strictSame(read({ where: ['is', 'context.country', ['EU', 'AP', 'UK']] }), [], 'databases of addresses have them')
  t.end()
})

t.test('fields that a session does not have are named', (t) => {
  const read = (more: object) => readQuestion({ kind: 'series', ...RANGE, ...more }, START).warnings
  const sessions = [{ event: '$session' }]
  const filter = ['is', ['properties', 'a.b'], [1]]
  const none = {
    path: '/where/1',
    message:
      'A session has no properties. Did you mean ["session","first","properties","a.b"], or a filter by session_has?',
    suggestion: ['session', 'first', 'properties', 'a.b'],
  }
  t.match(read({ series: sessions, where: filter }), [none])
  t.match(read({ series: sessions, breakdown: ['properties.a'] }), [{ path: '/breakdown/0' }])
  const sum = { metric: 'sum', property: 'properties.a' }
  t.match(read({ series: [{ event: '$session', ...sum }, { event: 'a' }] }), [
    { path: '/series/0/property', suggestion: 'session.first.properties.a' },
  ])
  t.strictSame(read({ series: sessions, where: ['session_has', { event: 'a', where: filter }] }), [])
  t.match(read({ series: sessions, where: ['session_has', { event: 'a', were: filter }] }), [
    { path: '/where/1/were', message: 'The field were is ignored. Did you mean where?' },
  ])
  t.match(
    findNames(
      readQuestion({ kind: 'series', series: sessions, where: ['session_has', { event: '$session' }] }, START).question,
      {},
    ),
    { events: [{ path: '/where/1/event', name: '$session' }] },
    'it is not an event of a session',
  )
  t.end()
})

t.test('a filter that no session passes is named in a question about sessions and events', (t) => {
  const read = (question: object) => {
    const { warnings } = readQuestion({ ...RANGE, ...question }, START)
    return warnings.map(({ path, message }) => `${path} ${message.split(':')[0]}`)
  }
  const [session, event] = [{ event: '$session' }, { event: 'a' }]
  const plan = ['is', 'properties.plan', ['pro']]
  const isEvent = (...names: string[]) => ['is', 'event', names]
  const funnel = (where: unknown) => read({ kind: 'funnel', steps: [session, event], where })
  const none = ['/where No session passes this filter']
  const page = ['contains', 'event', 'page']
  for (const where of [plan, isEvent('a'), ['and', [['set', 'user.plan'], plan]], ['or', [page, plan]]]) {
    t.strictSame(funnel(where), none, JSON.stringify(where))
    t.strictSame(read({ kind: 'series', series: [event, session], where }), none)
    t.strictSame(read({ kind: 'retention', start: session, return: event, where }), none)
    t.strictSame(read({ kind: 'paths', start: '$session', where }), none)
    t.strictSame(read({ kind: 'paths', start: 'a', where }), [], 'without sessions')
    t.strictSame(funnel(['or', [isEvent('$session'), where]]), [], 'sessions pass')
  }
  const many = [
    ['is', 'properties.plan', [null]],
    ['is_not', 'properties.plan', ['pro']],
    ['not_set', 'properties.plan'],
    ['not', plan],
    ['not', isEvent('a')],
    ['not_contains', 'event', 'page'],
    ['starts_with', 'event', '$'],
    ['matches', 'event', 'x'],
    ['gt', 'event', 'a'],
    ['set', 'page.path'],
    ['session_has', event],
  ]
  for (const where of many) t.strictSame(funnel(where), [], JSON.stringify(where))
  const alone = { kind: 'series', series: [{ ...session, where: page }] }
  t.strictSame(read(alone), ['/series/0/where No session passes this filter'])
  const of = { kind: 'paths', ...RANGE, end: '$session', where: isEvent('$pageview') }
  const asked = { kind: 'users', of, cell: { step: 0, event: '$session' } }
  t.strictSame(
    readQuestion(asked, START).warnings.map(({ path }) => path),
    ['/of/where'],
  )
  t.end()
})

t.test('the name of sessions is no unknown event in a filter of a question about sessions', (t) => {
  const names = (question: object) => {
    const body = { ...question, ...('of' in question ? {} : RANGE) }
    return findNames(readQuestion(body, START).question, body).events.filter(({ name }) => name === '$session')
  }
  const where = ['is', 'event', ['$pageview', '$session']]
  const of = { kind: 'paths', start: '$session', where, ...RANGE }
  t.strictSame(names({ kind: 'users', of, cell: { step: 0, event: '$session' } }), [])
  t.strictSame(names({ kind: 'funnel', steps: [{ event: '$session', where }, { event: 'a' }], where }), [])
  t.strictSame(names({ kind: 'paths', start: 'a', where }), [{ path: '/where/2/1', name: '$session' }])
  t.end()
})

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
  const property = { source: 'properties', types: null, values: [] }
  t.strictSame(findNames(readQuestion(body, START).question, body), {
    events: [
      { path: '/of/steps/0/event', name: 'e' },
      { path: '/of/steps/1/event/0', name: 'f' },
      { path: '/of/steps/1/event/1', name: 'g' },
    ],
    properties: [
      {
        ...property,
        path: '/of/steps/1/where/1/0/1/1',
        names: ['a'],
        events: ['f', 'g'],
        values: [{ path: '/of/steps/1/where/1/0/1/2/0', value: 1 }],
      },
      {
        ...property,
        path: '/of/steps/1/where/1/1/1',
        names: ['b.c', 'd'],
        events: ['f', 'g'],
        types: ['string', 'array'],
      },
      { ...property, path: '/of/breakdown/0', names: ['p', 'q'], events: ['e'] },
      { ...property, path: '/of/breakdown/1', source: 'user', names: ['plan'], events: ['e'] },
    ],
    values: [],
    fields: [
      { path: '/of/steps/1/where/1/0/1/1', field: 'properties.a', types: null, isOfSessions: false },
      {
        path: '/of/steps/1/where/1/1/1',
        field: ['properties', 'b.c', 'd'],
        types: ['string', 'array'],
        isOfSessions: false,
      },
      { path: '/of/exclude/0/where/1', field: 'timestamp', types: null, isOfSessions: false },
      { path: '/of/breakdown/0', field: 'properties.p.q', types: null, isOfSessions: false },
      { path: '/of/breakdown/1', field: 'user.plan', types: null, isOfSessions: false },
    ],
  })
  t.end()
})
