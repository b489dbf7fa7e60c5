import t from 'tap'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp } from '../helper.js'

const DAY = 86_400_000
const START = Date.parse('2026-04-20T00:00:00Z')
/** Series of one question. */
const AT_ONCE = 10

const { call } = await startApp(
  t as never,
  { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', DATA_DIR: await dataFolder(t), QUERY_TIMEOUT: '600' },
  { now: () => START + 10 * DAY },
)

type Sent = [event: string, user: string, at: number, properties?: string]

async function send(...events: Sent[]): Promise<void> {
  const texts = events.map(
    ([event, user, at, properties = '{}']) =>
      `{"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(user)},"timestamp":${START + at},"properties":${properties}}`,
  )
  const response = await call('POST', '/public/track/batch', `{"events":[${texts}]}`)
  if (response.statusCode !== 200) throw new Error(response.body)
}

async function ask(question: object) {
  const response = await call('POST', '/public/query', {
    kind: 'series',
    from: START,
    to: START + 4 * DAY,
    ...question,
  })
  if (response.statusCode !== 200) throw new Error(response.body)
  return JSON.parse(response.body)
}

/** `[breakdown, total, values]` of each line. */
async function lines(question: object) {
  const { results } = await ask(question)
  return results.map((line: { breakdown: unknown[]; total: number; points: { value: number }[] }) => [
    line.breakdown,
    line.total,
    line.points.map(({ value }) => value),
  ])
}

t.test('counts events and users by day, with every day', async (t) => {
  await send(['a1', 'ada', 0], ['a1', 'ada', DAY], ['a1', 'bob', DAY + 1], ['a1', '$anonymous', DAY], ['b1', 'ada', 0])
  t.strictSame(await lines({ series: [{ event: 'a1' }] }), [[[], 4, [1, 3, 0, 0]]])
  const { results, query, pending } = await ask({
    series: [
      { event: 'a1', metric: 'users' },
      { event: ['a1', 'b1'], metric: 'events_per_user' },
      { event: 'none', metric: 'avg', property: 'timestamp' },
    ],
    timezone: 'Europe/Vienna',
  })
  t.strictSame(results[0].points[0], { at: '2026-04-20T00:00:00+02:00', value: 1, complete: true })
  t.equal(results[0].total, 2)
  t.equal(results[1].total, 2)
  t.strictSame([results[2].total, results[2].points[0].value], [null, null])
  t.equal(pending, 0)
  t.equal(query.interval, 'day')
})

t.test('breaks down by the values of a property with their types, and sums all others', async (t) => {
  const values = [
    '1',
    '1.0',
    '"1"',
    'true',
    '"true"',
    'null',
    '[1.0]',
    '{"a":1}',
    '1e400',
    '"\\ud83d"',
    '12345678901234567890123',
    '-0',
    '"x\\/\\u00e9\\u001f"',
  ]
  await send(...values.map((value, i) => ['a2', `u${i % 3}`, i, `{"v":${value}}`] as Sent), ['a2', 'u9', 50])
  const all = await lines({ series: [{ event: 'a2' }], breakdown: ['properties.v'], limit: 100 })
  t.strictSame(
    all.map(([breakdown, total]: [unknown[], number]) => [breakdown[0], total]),
    [
      [1, 2],
      [null, 2],
      ['1', 1],
      ['\ud83d', 1],
      ['true', 1],
      ['x/é\u001f', 1],
      [0, 1],
      [1.2345678901234568e22, 1],
      [Number.POSITIVE_INFINITY, 1],
      [[1], 1],
      [true, 1],
      [{ a: 1 }, 1],
    ],
  )
  const top = await lines({
    series: [{ event: 'a2', metric: 'users' }],
    breakdown: ['properties.v'],
    limit: 2,
    interval: 'none',
  })
  t.strictSame(top, [
    [[1], 2, [2]],
    [[null], 2, [2]],
    [['$other'], 3, [3]],
  ])
  const bare = await lines({ series: [{ event: 'a2' }], breakdown: ['properties.v', 'event'], limit: 1, other: false })
  t.strictSame(bare, [[[1, 'a2'], 2, [2, 0, 0, 0]]])
  t.strictSame(await lines({ series: [{ event: 'none' }], breakdown: ['event'] }), [])
})

t.test('has the same lines over the whole range as over its buckets, with or without other series', async (t) => {
  const values = ['"x"', '"x"', '"y"', '1', '1.0', 'null', '"z"', '[1]', '"w"', '"y"', '"v"', '"u"']
  await send(...values.map((value, i) => ['a9', `u${i % 5}`, i * 8_000_000, `{"v":${value},"n":${i % 4}}`] as Sent))
  await send(...['"x"', '"t"'].map((value, i) => ['a9', '$anonymous', i, `{"v":${value},"n":"none"}`] as Sent))
  await send(...['"s"', '"x"'].map((value, i) => ['b9', 'u0', i, `{"v":${value},"n":${i}}`] as Sent))
  const of = (metric: string, more = {}) => ({ event: 'a9', metric, property: 'properties.n', ...more })
  const series = [
    { event: 'a9', metric: 'users' },
    { event: 'a9', metric: 'events_per_user' },
    of('avg'),
    of('max', { where: ['is', 'properties.v', ['x', 'y', 'w']] }),
    of('percentile', { event: '*', p: 30, property: 'properties.v' }),
    of('sum', { event: 'b9' }),
    { event: 'none' },
  ]
  for (const [limit, other] of [
    [3, true],
    [2, false],
  ] as const) {
    const question = { breakdown: ['properties.v'], limit, other }
    const days = await lines({ ...question, series, interval: 'day' })
    const whole = days.map(([value, total]: unknown[]) => [value, total, [total]])
    t.strictSame(await lines({ ...question, series, interval: 'none' }), whole, `${limit} lines, ${other}`)
    const alone = await Promise.all(series.map((one) => lines({ ...question, series: [one], interval: 'day' })))
    t.strictSame(days, alone.flat())
    t.equal(alone.at(-2)?.length, 2)
  }
})

t.test('treats numbers within a value as doubles, like values that are numbers', async (t) => {
  const values = [
    '[9007199254740993]',
    '[9007199254740992.0]',
    '{"a":[18446744073709551615,1e400]}',
    '{"a":[18446744073709551616,1e999]}',
    '["9007199254740993 -0",-0,1e21,1e-7,true]',
    '["9007199254740993 -0",0.0,1000000000000000000000,0.0000001,true]',
  ]
  await send(...values.map((value, i) => ['a7', `u${i}`, i, `{"v":${value}}`] as Sent))
  const question = { series: [{ event: 'a7' }], breakdown: ['properties.v'], interval: 'none' }
  const found = await lines(question)
  const wanted = [
    ['9007199254740993 -0', 0, 1e21, 1e-7, true],
    [9007199254740992],
    { a: [18446744073709552000, Number.POSITIVE_INFINITY] },
  ]
  t.strictSame(
    found,
    wanted.map((value) => [[value], 2, [2]]),
  )
  const of = { kind: 'series', from: START, to: START + DAY, ...question }
  for (const [i, value] of wanted.slice(0, 2).entries()) {
    const response = await call('POST', '/public/query', { kind: 'users', of, cell: { breakdown: [value] } })
    t.strictSame(response.json().results.users, i === 0 ? ['u4', 'u5'] : ['u0', 'u1'])
  }
})

t.test(
  'series distinguishes a value named like the rest by its position, and finds its users if the rest has no line',
  async (t) => {
    await send(['o1', 'ada', 0, '{"v":"$other"}'], ['o1', 'bob', 0, '{"v":1}'], ['o1', 'cyd', 0, '{"v":2}'])
    const of = { kind: 'series', series: [{ event: 'o1' }], breakdown: ['properties.v'], from: START, to: START + DAY }
    const users = async (more: object) => {
      const cell = { breakdown: ['$other'] }
      const response = await call('POST', '/public/query', { kind: 'users', of: { ...of, ...more }, cell })
      return response.json().results.users
    }
    t.strictSame(await users({ other: false }), ['ada'])
    await send(['o2', 'ada', 0, '{"v":"$other"}'], ['o2', 'bob', 0, '{"v":"$other"}'], ['o2', 'cyd', 0, '{"v":2}'])
    const totals = async (limit: number) =>
      (await lines({ series: [{ event: 'o2' }], breakdown: ['properties.v'], limit })).map(
        ([value, total]: unknown[]) => [value, total],
      )
    const both = [
      [['$other'], 2],
      [['$other'], 1],
    ]
    t.strictSame(await totals(1), both, 'the rest follows the lines within the limit')
    t.strictSame(await totals(2), [both[0], [[2], 1]], 'without a rest, it is the value')
    t.strictSame(await users({ limit: 2 }), ['cyd'], 'the values are in the order of their texts')
  },
)

t.test('a percentile may be infinite, or next to an infinite number', async (t) => {
  const values = ['1e400', '5', '7', '1e400']
  await send(...values.map((value, i) => ['infinite', 'ada', i, `{"n":${value}}`] as Sent))
  const series = [0, 25, 50, 100].map((p) => ({ event: 'infinite', metric: 'percentile', property: 'properties.n', p }))
  const exact = series.map((one, i) => ({ ...one, p: [0, 100 / 3, 200 / 3, 50][i] }))
  const totals = async (given: object[]) => {
    const found = await lines({ series: given, interval: 'none' })
    return found.map(([, total]: [unknown, number]) => total)
  }
  const infinite = Number.POSITIVE_INFINITY
  t.strictSame(await totals(series), [5, 6.5, infinite, infinite])
  t.strictSame(await totals(exact), [5, 7, infinite, infinite])
  const none = { event: 'infinite', metric: 'median', property: 'properties.none' }
  t.strictSame(await totals([none, ...series.slice(0, 1)]), [null, 5])
  const medianOf = async (event: string, ...numbers: string[]) => {
    await send(...numbers.map((value, i) => [event, 'ada', i, `{"n":${value}}`] as Sent))
    return await totals([{ event, metric: 'median', property: 'properties.n' }])
  }
  t.strictSame(await medianOf('below', '-1e400', '5'), [-infinite])
  t.strictSame(await medianOf('both', '-1e400', '1e400'), [null])
})

/** Asks for the source and medium of the page of each event. @returns one pair for each document of properties */
async function findCampaigns(event: string, documents: readonly string[]): Promise<unknown[][]> {
  const from = START + 4 * DAY
  const events = documents.map((properties, i) => {
    return `{"event":"${event} ${i}","distinct_id":"p","timestamp":${from + i},"properties":${properties}}`
  })
  const sent = await call('POST', '/public/track/batch', `{"events":[${events}]}`)
  t.equal(sent.statusCode, 200)
  const series = documents.map((_, i) => ({ event: `${event} ${i}` }))
  const range = { interval: 'none', from, to: from + DAY }
  const { results } = await ask({ series, breakdown: ['page.source', 'page.medium'], ...range })
  const found: { series: number; breakdown: unknown[] }[] = results
  return documents.map((_, i) => found.find((line) => line.series === i)?.breakdown ?? [])
}

t.test('if a parameter is repeated in the URL of a page, the first one with a value counts', async (t) => {
  const found = await findCampaigns('equal', [
    '{"url":"https://shop.example/?utm_source=a&utm_source=b"}',
    '{"url":"/?x=y&utm_source=&utm_source=a&utm_medium=m&utm_source=b&utm_medium=n"}',
    '{"url":"?utm_source=&xutm_source=x&utm_source=a#&utm_source=b"}',
  ])
  t.strictSame(found, [
    ['a', null],
    ['a', 'm'],
    ['a', null],
  ])
})

t.test('an array has no field of a page', async (t) => {
  const documents = [
    '{"utm":["google","cpc"]}',
    '{"utm":["x"],"context":{"campaign":{"source":"google"}},"utm_medium":"m"}',
    '{"utm":[{"source":"x"}],"context":{"campaign":["a","b"]}}',
    '{"a":["["],"utm":{"source":"s","medium":"m"}}',
  ]
  const wanted = [
    [null, null],
    ['google', 'm'],
    [null, null],
    ['s', 'm'],
  ]
  const repaired = documents.map((text) => text.replace('{', '{"y":"\\ud83d",'))
  t.strictSame(await findCampaigns('array', [...documents, ...repaired]), [...wanted, ...wanted])
})

t.test('texts that look like the result of a repair break no answer', async (t) => {
  // The characters that mark replaced text in a repair.
  const [lone, infinite] = ['\u{10fffc}', '\u{10fffd}']
  const url = (text: string) => `https://shop.example/?utm_source=${encodeURIComponent(text)}&utm_medium=m`
  const texts = [`${lone}zzzz`, `"${infinite}1e400`, `"${infinite}-1e400"`, `${infinite}1e400`]
  const documents = texts
    .flatMap((text) => [{ url: url(text) }, { url: url(text), y: 1 }])
    .map((one) => JSON.stringify(one))
  const [broken, ...found] = await findCampaigns('marks', [
    '{"utm_source":"\\ud83d"}',
    ...documents.map((text) => text.replace('"y":1', '"y":"\\ud83d"')),
  ])
  t.strictSame(broken, ['\ud83d', null])
  t.strictSame(
    found,
    texts.flatMap((text) => [
      [text, 'm'],
      [text, 'm'],
    ]),
  )
  const values = texts.slice(0, -1).map((x) => JSON.stringify({ x, y: 1 }).replace('"y":1', '"y":"\\ud83d"'))
  const events = values.map((properties, i) => {
    return `{"event":"marked","distinct_id":"p${i}","timestamp":${START},"properties":${properties}}`
  })
  t.equal((await call('POST', '/public/track/batch', `{"events":[${events}]}`)).statusCode, 200)
  const { results } = await ask({ series: [{ event: 'marked' }], breakdown: ['properties.x'], interval: 'none' })
  t.strictSame(results.map(({ breakdown: [x] }: { breakdown: unknown[] }) => x).sort(), texts.slice(0, -1).sort())
})

t.test('a session has the fields of its first and last page', async (t) => {
  const from = START + 3 * DAY
  const visit = (session: string, ...events: [event: string, properties: string][]) =>
    events.map(([event, properties], i) => {
      return `{"event":"${event}","distinct_id":"${session}","session_id":"${session}","timestamp":${from + i},"properties":${properties}}`
    })
  const all = [
    ...visit(
      's1',
      ['opened', '{"url":"https://shop.example/mail","utm_source":"letter"}'],
      ['$pageview', '{"url":"https://shop.example/a","referrer":"https://www.google.com/"}'],
      ['$pageview', '{"url":"https://shop.example/b","referrer":"https://shop.example/a"}'],
      ['closed', '{}'],
    ),
    ...visit('s2', ['opened', '{"title":"No page view"}']),
    ...visit('s3', ['$pageview', '{}']),
    // A lone surrogate, which ClickHouse's parser rejects.
    ...visit('s4', ['$pageview', '{"title":"\\ud83d","path":"/c?d"}'], ['$pageview', '{"title":5,"$pathname":"/e"}']),
  ]
  const sent = await call('POST', '/public/track/batch', `{"events":[${all}]}`)
  t.equal(sent.statusCode, 200)
  const where = ['is', 'distinct_id', ['s1', 's2', 's3', 's4']]
  const find = async (question: object, field: string): Promise<Record<string, unknown>> => {
    const { results } = await ask({ breakdown: ['distinct_id', field], interval: 'none', from, where, ...question })
    return Object.fromEntries(results.map(({ breakdown }: { breakdown: [string, unknown] }) => breakdown))
  }
  /** The path, channel and title of the page of each session's first event, first and last page view, and last event. */
  const wanted: Record<string, Record<string, unknown[]>> = {
    path: {
      s1: ['/mail', '/a', '/b', null],
      s2: [null, null, null, null],
      s3: [null, null, null, null],
      s4: ['/c', '/c', '/e', '/e'],
    },
    channel: {
      s1: ['Unassigned', 'Organic Search', 'Direct', null],
      s2: ['Direct', null, null, 'Direct'],
      s3: ['Direct', 'Direct', 'Direct', 'Direct'],
      s4: ['Direct', 'Direct', 'Direct', 'Direct'],
    },
    title: {
      s1: [null, null, null, null],
      s2: ['No page view', null, null, 'No page view'],
      s3: [null, null, null, null],
      s4: ['\ud83d', '\ud83d', null, null],
    },
  }
  /** The kinds of series whose pages are asked for. */
  const ways = [
    { series: [{ event: '$session' }], sessions: 'id' },
    { series: [{ event: '$session' }], sessions: { gap: '30m' } },
    { series: [{ event: '*' }] },
  ]
  const places = ['first', 'entry', 'exit', 'last']
  /** The page is found in the same way for all of its fields, so no field is asked for in every way. */
  const asked: [name: string, place: number, way: number][] = [
    ['path', 0, 0],
    ['path', 1, 0],
    ['path', 2, 1],
    ['path', 3, 1],
    ['path', 1, 2],
    ['path', 3, 2],
    ['channel', 1, 0],
    ['channel', 3, 2],
    ['title', 0, 2],
    ['title', 2, 0],
  ]
  for (const [name, place, way] of asked) {
    const field = `session.${places[place]}.page.${name}`
    const bySession = Object.entries(wanted[name] ?? {})
    const values = Object.fromEntries(bySession.map(([session, all]) => [session, all[place]]))
    t.strictSame(await find(ways[way] ?? {}, field), values, `${field}, ${JSON.stringify(ways[way])}`)
  }
})

t.test('counts sessions and events in one question', async (t) => {
  const from = START + 2 * DAY
  const events = ['c1', 'c1', 'c2'].map((event, i) => {
    return `{"event":"${event}","distinct_id":"ada","session_id":"both","timestamp":${from + i * 1000}}`
  })
  await call('POST', '/public/track/batch', `{"events":[${events}]}`)
  const series = [
    { event: 'c1' },
    { event: '$session', metric: 'avg', property: 'session.seconds' },
    { event: 'c1', metric: 'max', property: 'timestamp' },
    { event: '$session', metric: 'users' },
    { event: ['c1', 'c2'], metric: 'sum', property: 'session.events' },
  ]
  const found = await lines({ series, interval: 'none', from, where: ['is', 'distinct_id', ['ada']] })
  t.strictSame(
    found.map(([, total]: unknown[]) => total),
    [2, 2, from + 1000, 1, 9],
  )
  const split = { series, breakdown: ['distinct_id'], interval: 'none', from, where: ['is', 'distinct_id', ['ada']] }
  t.strictSame(
    (await ask(split)).results.map(({ series, total }: { series: number; total: number }) => [series, total]),
    [2, 2, from + 1000, 1, 9].map((total, i) => [i, total]),
  )
})

t.test('measures numbers only', async (t) => {
  await send(
    ...['1', '2.5', '"3"', '10', 'null', '[4]', '-0'].map((value, i) => ['a3', 'ada', i, `{"n":${value}}`] as Sent),
  )
  const metrics = ['sum', 'avg', 'min', 'max', 'median'].map((metric) => ({
    event: 'a3',
    metric,
    property: 'properties.n',
  }))
  const percentile = { event: 'a3', metric: 'percentile', property: 'properties.n', p: 75 }
  const found = await lines({ series: [...metrics, percentile], interval: 'none' })
  t.strictSame(
    found.map(([, total, [value]]: [unknown, number, number[]]) => [total, value]),
    [
      [13.5, 13.5],
      [3.375, 3.375],
      [0, 0],
      [10, 10],
      [1.75, 1.75],
      [4.375, 4.375],
    ],
  )
  const sketched = await ask({ series: [{ event: 'a3', metric: 'users' }], approximate: true })
  t.equal(sketched.approximate, true)
  t.equal(sketched.results[0].total, 1)
})

t.test('compares values as JSON has them', async (t) => {
  const texts = [
    '5',
    '5.0',
    '"5"',
    'true',
    '"true"',
    'null',
    '["x","5",5]',
    '[]',
    '{}',
    '""',
    '"a\\"b\\\\c"',
    '"\\ud83dz"',
    '1e999',
    '[1e400]',
    '[null]',
    '"é"',
  ]
  await send(...texts.map((value, i) => ['a4', String(i), i, `{"v":${value},"a.b":1,"o":{"i":${i}}}`] as Sent), [
    'a4',
    '16',
    16,
  ])
  const v = 'properties.v'
  const cases: [unknown[], number[]][] = [
    [
      ['is', v, [5]],
      [0, 1, 6],
    ],
    [
      ['is', v, ['5']],
      [2, 6],
    ],
    [['is', v, [true]], [3]],
    [
      ['is', v, [null]],
      [5, 14, 16],
    ],
    [['is', v, ['a"b\\c']], [10]],
    [
      ['is', v, ['\ud83dz', 'é']],
      [11, 15],
    ],
    [['is', v, []], []],
    [
      ['is_not', v, [5, '5', true, 'true', null]],
      [7, 8, 9, 10, 11, 12, 13, 15],
    ],
    [['contains', v, 'tr'], [4]],
    [
      ['contains', v, ['5', '"b\\']],
      [2, 6, 10],
    ],
    [['contains', v, '\ud83d'], [11]],
    [
      ['not_contains', v, ''],
      [0, 1, 3, 5, 7, 8, 12, 13, 14, 16],
    ],
    [['starts_with', v, 'a"'], [10]],
    [
      ['ends_with', v, ['e', 'c']],
      [4, 10],
    ],
    [
      ['matches', v, '^.$'],
      [2, 15],
    ],
    [
      ['gt', v, 4],
      [0, 1, 12],
    ],
    [
      ['gte', v, 'true'],
      [4, 11, 15],
    ],
    [['lt', v, 5], []],
    [
      ['lte', v, '5'],
      [2, 9],
    ],
    [
      ['not_set', v],
      [5, 16],
    ],
    [['set', ['properties', 'a.b']], [...texts.keys()]],
    [
      ['gte', 'properties.o.i', 14],
      [14, 15],
    ],
    [
      [
        'not',
        [
          'or',
          [
            ['lt', 'timestamp', '2026-04-20T00:00:00.014Z'],
            ['is', 'distinct_id', ['15']],
          ],
        ],
      ],
      [14, 16],
    ],
    [['and', []], Array.from({ length: 17 }, (_, i) => i)],
    [['or', []], []],
    [['is', 'user.name', ['Ada']], []],
  ]
  for (let first = 0; first < cases.length; first += AT_ONCE) {
    const some = cases.slice(first, first + AT_ONCE)
    const series = some.map(([where]) => ({ event: 'a4', where }))
    const { results } = await ask({ series, interval: 'none', breakdown: ['distinct_id'], limit: 100 })
    const found: { series: number; breakdown: [string] }[] = results
    for (const [i, [filter, expected]] of some.entries()) {
      const users = found.filter((line) => line.series === i).map(({ breakdown: [user] }) => Number(user))
      t.strictSame(
        users.sort((a, b) => a - b),
        expected,
        JSON.stringify(filter),
      )
    }
  }
})

t.test('a name with an unpaired surrogate is no name', async (t) => {
  await send(['u\ufffd', 'ada', 0])
  const where = ['is', 'event', ['u\ud83d']]
  t.strictSame(await lines({ series: [{ event: '*', where }], interval: 'none' }), [[[], 0, [0]]])
})

t.test('filters by the channel of the page, which takes many steps to find', async (t) => {
  await send(
    ['seen', 'ada', 0, '{"url":"https://shop.example/?utm_source=google&utm_medium=cpc"}'],
    ['seen', 'bob', 0, '{"url":"https://shop.example/"}'],
    ['bought', 'bob', 1, '{"url":"https://shop.example/"}'],
  )
  const where = ['is', 'page.channel', ['Direct']]
  t.equal((await ask({ series: [{ event: 'seen' }], where })).results[0].total, 1)
  t.equal((await ask({ series: [{ event: 'seen', where: ['not', where] }] })).results[0].total, 1)
  const steps = [{ event: 'seen', where }, { event: 'bought' }]
  const range = { from: START, to: START + DAY }
  const funnel = await call('POST', '/public/query', { kind: 'funnel', steps, ...range })
  t.strictSame(
    funnel.json().results[0].steps.map(({ users }: { users: number }) => users),
    [1, 1],
  )
})

t.test("treats the source names in Meta's ads like the names of its sites", async (t) => {
  await send(
    ['met', 'ada', 0, '{"url":"https://shop.example/?utm_source=fb&utm_medium=paid"}'],
    ['met', 'bob', 1, '{"utm_source":"IG"}'],
    ['met', 'cyd', 2, '{"utm_source":"big"}'],
  )
  const question = { series: [{ event: 'met' }], breakdown: ['page.source', 'page.channel'], interval: 'none' }
  const found = (await lines(question)).map(([breakdown]: [unknown[]]) => breakdown)
  t.strictSame(found, [
    ['IG', 'Organic Social'],
    ['big', 'Unassigned'],
    ['fb', 'Paid Social'],
  ])
})

t.test(
  'recognises clicks on ads by their ids if nothing else identifies them, and sites by their mobile hosts',
  async (t) => {
    const cases: [properties: object, source: string | null, channel: string][] = [
      [{ url: '/?gclid=a', referrer: 'https://www.google.com/' }, 'Google', 'Paid Search'],
      [{ url: '/?x=y&gbraid=a', referrer: 'https://www.google.co.uk/' }, 'Google', 'Paid Search'],
      [{ url: '/?wbraid=a' }, 'Google', 'Paid Search'],
      [{ url: '/?msclkid=a' }, 'Bing', 'Paid Search'],
      [{ url: '/?msclkid=a', referrer: 'https://duckduckgo.com/' }, 'DuckDuckGo', 'Paid Search'],
      [{ url: '/?gclid=a&utm_source=GOOGLE' }, 'GOOGLE', 'Paid Search'],
      [{ url: '/?gclid=a&utm_medium=cpc' }, 'Google', 'Paid Search'],
      [{ url: '/?gclid=a', referrer: 'https://www.youtube.com/' }, 'YouTube', 'Paid Video'],
      [{ url: '/?gclid=a&utm_medium=organic', referrer: 'https://www.google.com/' }, 'Google', 'Organic Search'],
      [{ url: '/?gclid=a&utm_source=letter', utm_medium: 'email' }, 'letter', 'Email'],
      [{ url: '/?gclid=a', referrer: 'https://www.facebook.com/' }, 'Facebook', 'Organic Social'],
      [{ url: '/?gclid=a', referrer: 'https://blog.example/' }, 'blog.example', 'Referral'],
      [{ url: '/?gclid=&GCLID=a&xgclid=b#?gclid=c', referrer: 'https://www.google.com/' }, 'Google', 'Organic Search'],
      [{ url: '/?gclid#msclkid=a' }, null, 'Direct'],
      [{ url: '/', referrer: 'https://m.search.naver.com/search.naver' }, 'Naver', 'Organic Search'],
      [{ url: '/?gclid=a', referrer: 'https://m.bing.com/' }, 'Bing', 'Paid Search'],
      [{ url: '/?utm_source=m.de.search.yahoo.com' }, 'm.de.search.yahoo.com', 'Organic Search'],
      [{ url: '/', referrer: 'https://m.blog.example/' }, 'm.blog.example', 'Referral'],
    ]
    await send(...cases.map(([properties], i): Sent => [`ad ${i}`, 'ada', 0, JSON.stringify(properties)]))
    const series = [{ event: cases.map((_, i) => `ad ${i}`) }]
    const read = async (field: string) => {
      const found = await lines({ series, breakdown: ['event', field], interval: 'none', limit: 100 })
      return new Map(found.map(([[name, value]]: [string[]]) => [name, value]))
    }
    const [sources, channels] = [await read('page.source'), await read('page.channel')]
    for (const [i, [properties, source, channel]] of cases.entries()) {
      const found = [sources.get(`ad ${i}`), channels.get(`ad ${i}`)]
      t.strictSame(found, [source, channel], JSON.stringify(properties))
    }
  },
)

t.test('counts a user under all names, with the profile as it is now', async (t) => {
  await send(['a5', 'old', 0], ['a5', 'older', 1], ['a5', 'ada', 2], ['a5', 'bob', 3])
  await call('POST', '/public/users/alias', { distinct_id: 'old', alias: 'older' })
  await call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'old' })
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { plan: 'pro' } })
  const [, total] = (await lines({ series: [{ event: 'a5', metric: 'users' }] }))[0]
  t.equal(total, 2)
  const byPlan = await lines({ series: [{ event: 'a5' }], breakdown: ['user.plan'], interval: 'none' })
  t.strictSame(byPlan, [
    [['pro'], 3, [3]],
    [[null], 1, [1]],
  ])
})

t.test('counts events as they are now', async (t) => {
  await send(['a6', 'ada', 0, '{"v":1}'], ['a6', 'ada', 1, '{"v":2}'])
  const page = (await call('GET', '/public/events?event=a6')).json()
  await call('PUT', `/public/events/${page.events[0].eventId}`, { properties: { v: 7 } })
  await call('DELETE', `/public/events/${page.events[1].eventId}`)
  t.strictSame(await lines({ series: [{ event: 'a6', metric: 'sum', property: 'properties.v' }], interval: 'none' }), [
    [[], 7, [7]],
  ])
})

t.test('says what is wrong with a question', async (t) => {
  const answer = async (body: object | string) => {
    const response = await call('POST', '/public/query', body)
    return [
      response.statusCode,
      response.json().code,
      ...(response.json().details ?? []).map(({ path }: { path: string }) => path),
    ]
  }
  const series = [{ event: 'a' }]
  t.strictSame(await answer({ kind: 'nothing' }), [400, 'invalid_request', '/kind'])
  const without = (await call('POST', '/public/query', {})).json()
  t.equal(without.error, '/kind is required and must be one of series, funnel, retention, paths, users.')
  t.strictSame(await answer({ kind: 'series', series: [{ event: 1, metric: 'sum' }], timezone: 'x', limit: 0 }), [
    ...[400, 'invalid_request', '/timezone', '/series/0/event', '/series/0/property', '/limit'],
  ])
  for (const operator of ['nothing', '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'isPrototypeOf']) {
    const where = [operator, 'event', 'x']
    t.strictSame(await answer({ kind: 'series', series, where }), [400, 'invalid_request', '/where/0'], operator)
  }
  for (const timezone of ['+02:00', '2026-04-24T00:00:00+02:00', '20260424T0000[Europe/Vienna]']) {
    t.strictSame(await answer({ kind: 'series', series, timezone }), [400, 'invalid_request', '/timezone'], timezone)
  }
  const where = ['matches', 'properties.a', ['a', '(']]
  t.strictSame(await answer({ kind: 'series', series, where }), [400, 'invalid_request', '/where/2/1'])
  t.strictSame(await answer({ kind: 'series', series, from: 1, interval: 'hour' }), [
    400,
    'invalid_request',
    '/interval',
  ])
  t.strictSame(await answer({ kind: 'series', series, from: '2026-01-02', to: '2026-01-02' }), [
    400,
    'invalid_request',
    '/from',
  ])
  const cell = (at: unknown) =>
    answer({ kind: 'users', of: { kind: 'series', series, to: '2026-04-22' }, cell: { at } })
  for (const at of ['', 'yesterday', '2026-13-01', '2026-04-20T00:00:00+02:00 ', 5, '2026-04-22']) {
    t.strictSame(await cell(at), [400, 'invalid_request', '/cell/at'], String(at))
  }
  for (const at of ['2026-04-20', '2026-04-19T23:15:30-00:44:30']) t.strictSame(await cell(at), [200, undefined], at)
  const lineOfRest = (of: object) => answer({ kind: 'users', of, cell: { step: 1, breakdown: ['$other'] } })
  const ofSeries = (rest: object) => lineOfRest({ kind: 'series', series, ...rest })
  const ofFunnel = (breakdown: string[]) => lineOfRest({ kind: 'funnel', steps: [...series, ...series], breakdown })
  const breakdown = ['event', 'distinct_id']
  for (const asked of [ofSeries({ breakdown, other: false }), ofSeries({}), ofFunnel([])]) {
    t.strictSame(await asked, [400, 'invalid_request', '/cell/breakdown'])
  }
  for (const asked of [
    ofSeries({ breakdown }),
    ofSeries({ breakdown: ['event'], other: false }),
    ofFunnel(breakdown),
  ]) {
    t.strictSame(await asked, [200, undefined])
  }
})

t.test('a range may end after the last instant that an event can have', async (t) => {
  await send(['at the end', 'u', 9_999_999_999_999 - START])
  const totalTo = async (to: number) => {
    const { results } = await ask({ series: [{ event: 'at the end' }], from: 0, to, interval: 'none' })
    return results[0].total
  }
  t.equal(await totalTo(9_999_999_999_999), 0)
  t.equal(await totalTo(10_000_000_000_000), 1)
})

t.test('finds the users of a day whose offset has seconds', async (t) => {
  const question = { series: [{ event: 'a8' }], from: 0, to: DAY, timezone: 'Africa/Monrovia' }
  await send(['a8', 'early', 60_000 - START], ['a8', 'late', 2_670_000 - START])
  const { results } = await ask(question)
  const [first, second] = results[0].points
  t.equal(second.at, '1970-01-01T00:00:00-00:44:30')
  const users = async (at: string) => {
    const of = { kind: 'series', ...question }
    const response = await call('POST', '/public/query', { kind: 'users', of, cell: { at } })
    return response.json().results.users
  }
  t.strictSame(await users(first.at), ['early'])
  t.strictSame(await users(second.at), ['late'])
})
