import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openFile } from '../../src/cli/import/input.js'
import { inspect } from '../../src/cli/import/inspect.js'
import { OWN_NAMES, type SourceOptions } from '../../src/cli/import/native-rows.js'
import { batchesOf, eventsOf, pieces, rejectsOf } from '../cli/import/batches.js'

type From = NonNullable<SourceOptions['from']>

interface Event {
  event: string
  distinct_id: string
  timestamp: number
  insert_id: string
  session_id?: string
  context?: Record<string, unknown>
  properties: Record<string, unknown>
}

const pathOf = (file: string) => fileURLToPath(new URL(join('../data/vendors', file), import.meta.url))
const at = (text: string) => Date.parse(text)

async function readFile(file: string, from: From) {
  const batches = await batchesOf(await openFile(pathOf(file)), { from })
  return {
    events: eventsOf(batches).map((text) => JSON.parse(text) as Event),
    rejects: rejectsOf(batches),
    skipped: batches.reduce((sum, batch) => sum + batch.skipped, 0),
    people: batches.flatMap(({ people }) => people.map(({ members }) => members)),
    ids: eventsOf(batches).map((text) => (JSON.parse(text) as Event).insert_id),
  }
}

async function readRows(text: string, from: From) {
  const batches = await batchesOf(pieces(text), { from })
  return { events: eventsOf(batches).map((one) => JSON.parse(one) as Event), rejects: rejectsOf(batches) }
}

t.test('Umami: a table with a byte order mark, quotes, line ends in cells, and missing values', async (t) => {
  const { events, rejects, skipped, people } = await readFile('umami.csv', 'umami')
  const visitor = '0f5a2c1e-7b1d-5e0f-9a3b-1c2d3e4f5a6b'
  const [entry, midnight, added, identified, bare] = events
  t.equal(events.length, 5)
  t.match(entry, {
    event: '$pageview',
    distinct_id: visitor,
    timestamp: at('2024-03-30T23:59:58Z'),
    insert_id: 'umami:e0000000-0000-4000-8000-000000000000',
    session_id: '11111111-1111-5111-8111-000000000000',
    properties: {
      url: 'https://shop.example/?utm_source=news%20letter&utm_medium=email&x=1',
      title: 'Tea, "the good one"',
      referrer: 'https://google.com/search?q=tea',
      utm_source: 'news letter',
      utm_medium: 'email',
      $umami: { screen: '1920x1080' },
    },
  })
  t.strictSame(entry?.context, {
    ...{ browser: 'Chrome', os: 'Windows', os_version: '10', device: 'desktop' },
    ...{ country: 'AT', region: 'AT-9', city: 'Vienna', language: 'de-AT' },
  })
  t.match(midnight, { distinct_id: visitor, properties: { title: 'Grüner Tee\n抹茶' } }, 'the visitor stays the same')
  t.not(midnight?.session_id, entry?.session_id, 'a second visit at midnight')
  t.notOk(Object.keys(midnight?.properties ?? {}).some((name) => name.startsWith('utm_') || name === 'referrer'))
  t.match(added, {
    event: 'add-to-cart',
    timestamp: at('2024-03-31T00:00:20.123Z'),
    properties: { $umami: { tag: 'b' } },
  })
  t.match(identified, {
    distinct_id: '7c9e6679-7425-40de-944b-e07fc1f90ae7',
    properties: { url: 'https://shop.example/sale#top', utm_source: 'partner', utm_campaign: 'spring' },
  })
  t.strictSame(identified?.context, { browser: 'Safari', os: 'iOS', device: 'mobile' })
  t.match(bare, { timestamp: at('2024-03-31T00:31:00Z'), session_id: undefined, properties: { url: '/old' } })
  t.notOk(
    ['browser', 'os', 'country'].some((field) => field in (bare?.context ?? {})),
    'NULL, \\N and ZZZ are nothing',
  )
  t.strictSame(people, ['"distinct_id":"customer-7","alias":"7c9e6679-7425-40de-944b-e07fc1f90ae7"'])
  t.match(rejects, [
    [8, /no session_id/],
    [9, /The time "yesterday" is not ISO 8601/],
    [10, /no event_name/],
  ])
  t.equal(skipped, 1, 'a type that is no event')
})

t.test('Umami: a table without newer columns, and rows of the same second', async (t) => {
  const header = 'session_id,url_path,event_type,event_name,created_at\n'
  const rows = ['s1,/a,1,,2024-01-01 00:00:00', 's1,/b,1,,2024-01-01 00:00:00', 's2,/a,1,,2024-01-01 00:00:00']
  const read = async () => (await readRows(header + rows.join('\n'), 'umami')).events
  const events = await read()
  t.equal(new Set(events.map(({ insert_id }) => insert_id)).size, 3, 'each has its own id')
  t.strictSame(await read(), events, 'the same ids again')
  t.match(events[0], { distinct_id: 's1', session_id: undefined, context: undefined, properties: { url: '/a' } })
})

t.test('Umami: missing values, as a database writes them, are not properties', async (t) => {
  const header = '"session_id","url_path","event_type","created_at","screen","tag","job_id","gclid"\n'
  const rows = ['"s1","/a",1,"2024-01-01 00:00:00","1920x1080",\\N,NULL,""']
  const { events } = await readRows(header + rows.join('\n'), 'umami')
  t.strictSame(events[0]?.properties, { url: '/a', $umami: { screen: '1920x1080' } })
})

t.test('Umami: languages and versions are spelled as those of requests are', async (t) => {
  const rows = [
    'e1,s1,2024-03-30 23:59:58,1,/a,zh-hant-tw,Windows 10.0',
    'e2,s1,2024-03-30 23:59:59,1,/a,de_at,Windows',
  ]
  const { events } = await readRows(
    `event_id,session_id,created_at,event_type,url_path,language,os\n${rows.join('\n')}`,
    'umami',
  )
  t.match(events, [
    { context: { language: 'zh-Hant-TW', os: 'Windows', os_version: '10' } },
    { context: { language: 'de-AT', os: 'Windows', os_version: undefined } },
  ])
})

t.test('Umami: a visitor who becomes known stays one user, and addresses are complete', async (t) => {
  const row = { session_id: 's1', visit_id: 'v1', hostname: 'shop.example', event_type: '1' }
  const rows = [
    { ...row, url_path: '/sale#top', url_query: 'utm_source=news', created_at: '2024-01-01 00:00:00' },
    { ...row, url_path: '/cart', referrer_path: '/sale#top', distinct_id: 'ada', created_at: '2024-01-01 00:00:09' },
  ]
  const batches = await batchesOf(pieces(rows.map((one) => JSON.stringify(one)).join('\n')), { from: 'umami' })
  t.match(
    eventsOf(batches).map((text) => JSON.parse(text)),
    [
      { distinct_id: 's1', properties: { url: 'https://shop.example/sale?utm_source=news#top', utm_source: 'news' } },
      { distinct_id: 's1', properties: { referrer: 'https://shop.example/sale#top' } },
    ],
  )
  t.strictSame(
    batches.flatMap(({ people }) => people.map(({ members }) => members)),
    ['"distinct_id":"ada","alias":"s1"'],
  )
})

t.test('Umami: the other tables of an export are not page views', async (t) => {
  const [session_id, created_at] = ['s1', '2024-01-01 00:00:00']
  const ofEvent = { session_id, event_id: 'e1', url_path: '/', event_name: 'buy', data_key: 'price', created_at }
  const ofSession = { session_id, data_key: 'plan', string_value: 'pro', distinct_id: 'ada', created_at }
  const view = { session_id, event_id: 'e2', url_path: '/', event_type: '1', ip: '203.0.113.7', created_at }
  const session = { session_id, browser: 'chrome', created_at }
  const rows = [ofEvent, ofSession, view, session].map((row) => JSON.stringify(row)).join('\n')
  const { events, rejects } = await readRows(rows, 'umami')
  t.match(events, [{ event: '$pageview', insert_id: 'umami:e2' }])
  t.notMatch(JSON.stringify(events), '203.0.113', 'the address is left out')
  t.match(rejects, [[4, /no url_path, unlike rows of website_event/]])
})

t.test('Matomo: each action of a visit is an event', async (t) => {
  const { events, rejects, skipped, people } = await readFile('matomo.json', 'matomo')
  t.strictSame(
    events.map(({ event, session_id }) => [session_id, event]),
    [
      ...['$pageview', '$pageview', 'Play', 'search', '$download', '$outbound_link', 'Found us', 'ecommerceOrder'].map(
        (name) => ['12', name],
      ),
      ['13', '$pageview'],
    ],
  )
  const [entry, second, play, search, , , goal, order, campaign] = events
  t.match(entry, {
    distinct_id: 'a1b2c3d4e5f60718',
    timestamp: 1_711_843_198_000,
    properties: { url: 'https://shop.example/', title: 'Tea & "more"', referrer: 'https://www.google.com/' },
  })
  t.strictSame(entry?.context, {
    ...{ browser: 'Chrome', browser_version: '123', os: 'Android', os_version: '14', device: 'mobile' },
    ...{ country: 'AT', region: 'Vienna', city: 'Vienna', language: 'de-AT' },
  })
  t.notOk('referrer' in (second?.properties ?? {}), 'only the first page was reached from elsewhere')
  t.match(play?.properties, { category: 'Videos', name: 'Brewing', value: 12.5 })
  t.strictSame(search?.properties, { query: '抹茶', results: 0 })
  t.match(goal?.properties, { goal_id: 3, url: 'https://maps.example/?q=shop' })
  t.match(order?.properties, { order_id: 'O-1', revenue: 27.5, items: [{ itemSKU: 't1' }] })
  t.match(campaign, { distinct_id: 'customer-7', properties: { utm_campaign: 'spring', utm_term: 'tea' } })
  t.equal(campaign?.context, undefined, 'nothing is known')
  t.strictSame(people, ['"distinct_id":"customer-7","alias":"a1b2c3d4e5f60718"'])
  t.equal(new Set(events.map(({ insert_id }) => insert_id)).size, events.length)
  t.notMatch(JSON.stringify(events), '203.0.113', 'the address is left out')
  t.match(rejects, [
    [/\d/, /neither a visitorId nor a userId/],
    [/\d/, /The time "soon" is not a number of seconds/],
  ])
  t.equal(skipped, 1, 'a visit without actions')
})

t.test('Matomo: times of actions, which are in the time zone of the site, become UTC', async (t) => {
  const began = at('2024-03-30T22:59:58Z') / 1000
  // Sites in Kathmandu, New York and London, and an action that does not begin the visit.
  const visits = [5.75 * 3600, -4 * 3600, 0].map((offset, idVisit) => ({
    ...{ idVisit, visitorId: 'v', firstActionTimestamp: began, lastActionTimestamp: began + 300 },
    actionDetails: [40, 3, 299].map((after) => {
      return { type: 'action', url: `https://a.example/${after}`, pageId: after, timestamp: began + offset + after }
    }),
  }))
  const { events, rejects } = await readRows(JSON.stringify(visits), 'matomo')
  t.strictSame(
    events.map(({ timestamp }) => timestamp / 1000 - began),
    [40, 3, 299, 40, 3, 299, 40, 3, 299],
  )
  t.strictSame(rejects, [])
  const { firstActionTimestamp: _, ...unknown } = visits[0] as (typeof visits)[number]
  t.match((await readRows(JSON.stringify([unknown]), 'matomo')).rejects, [[1, /no firstActionTimestamp/]])
})

t.test('Matomo: a visit during which clocks change', async (t) => {
  const minutes = (...all: number[]) => all.map((minute) => minute * 60)
  const stories = [
    // In Berlin, clocks went back at 01:00 UTC, and some local times of the visit occur before that of its start.
    { from: '2024-10-27T00:50:00Z', after: minutes(0, 8, 15, 20, 49), change: minutes(10), offsets: [2, 1] },
    { from: '2024-10-27T00:50:00Z', after: minutes(0, 15), change: minutes(10), offsets: [2, 1] },
    { from: '2024-10-27T00:59:50Z', after: [0, 9, 30, 90], change: [10], offsets: [2, 1] },
    // And forward.
    { from: '2024-03-31T00:50:00Z', after: minutes(0, 9, 11, 40), change: minutes(10), offsets: [1, 2] },
    // In New York, and in Adelaide.
    { from: '2024-11-03T05:40:00Z', after: minutes(0, 19, 21, 35), change: minutes(20), offsets: [-4, -5] },
    { from: '2024-10-05T16:20:00Z', after: minutes(0, 19, 45), change: minutes(10), offsets: [9.5, 10.5] },
  ]
  for (const { from, after, change, offsets } of stories) {
    const began = at(from) / 1000
    const visit = {
      ...{ idVisit: 1, visitorId: 'v', firstActionTimestamp: began, lastActionTimestamp: began + (after.at(-1) ?? 0) },
      actionDetails: after
        .map((seconds, pageId) => {
          const offset = offsets[seconds < (change[0] ?? 0) ? 0 : 1] ?? 0
          return { type: 'action', url: 'https://a.example/', pageId, timestamp: began + seconds + offset * 3600 }
        })
        // As Matomo sorts them.
        .sort((one, other) => one.timestamp - other.timestamp),
    }
    const { events } = await readRows(JSON.stringify([visit]), 'matomo')
    t.strictSame(
      events.map(({ timestamp }) => timestamp / 1000 - began).sort((a, b) => a - b),
      after,
      from,
    )
  }
})

t.test('Matomo: actions about a part of a page have a name, and those of plugins keep their fields', async (t) => {
  const timestamp = 1_700_000_000
  const content = {
    ...{ type: '13', url: 'https://a.example/', pageTitle: null, contentName: 'Banner', contentPiece: '/ad.jpg' },
    ...{ contentTarget: 'https://b.example/', contentInteraction: null, title: 'Content Impression', timestamp },
  }
  const actionDetails = [
    { ...content, pageId: 1 },
    { ...content, type: 13, pageId: 2, contentInteraction: 'click' },
    { type: 'form', pageId: 3, revenue: 5, eventName: 'x', eventAction: 'y', goalName: 'z', goalId: 7, timestamp },
  ]
  const visit = { idVisit: 1, visitorId: 'v', firstActionTimestamp: timestamp, actionDetails }
  const { events } = await readRows(JSON.stringify([visit]), 'matomo')
  const [name, piece, target, url] = ['Banner', '/ad.jpg', 'https://b.example/', 'https://a.example/']
  t.strictSame(
    events.map(({ event, properties }) => [event, properties]),
    [
      ['contentImpression', { url, name, piece, target }],
      ['contentInteraction', { url, name, piece, target, interaction: 'click' }],
      ['form', { $matomo: { revenue: 5, eventName: 'x', eventAction: 'y', goalName: 'z', goalId: 7 } }],
    ],
  )
})

t.test('Matomo: numbers that a database returns as strings', async (t) => {
  const timestamp = 1_700_000_000
  const itemDetails = [{ itemSKU: '7', price: '9.50', quantity: '2', categories: [] }]
  const actionDetails = [
    { type: 'goal', goalId: '3', goalName: 'Found us', revenue: '5', timestamp },
    { type: 'ecommerceOrder', orderId: '42', revenue: '19.00', items: '2', itemDetails, timestamp },
    { type: 'search', siteSearchKeyword: '7', siteSearchCount: '12', timestamp },
  ]
  const visit = { idVisit: 1, visitorId: 'v', firstActionTimestamp: timestamp, actionDetails }
  const { events } = await readRows(JSON.stringify([visit]), 'matomo')
  t.match(
    events.map(({ properties }) => properties),
    [
      { goal_id: 3, revenue: 5 },
      { order_id: '42', revenue: 19, items: [{ itemSKU: '7', price: 9.5, quantity: 2, categories: [] }] },
      { query: '7', results: 12 },
    ],
  )
})

t.test('Matomo: a visit with missing actions is rejected', async (t) => {
  const actionDetails = [{ type: 'action', url: 'https://a.example/', pageId: 1, timestamp: 1_700_000_000 }]
  const visit = { idVisit: 1, visitorId: 'v', firstActionTimestamp: 1_700_000_000, actionDetails }
  const { events, rejects } = await readRows(JSON.stringify([{ ...visit, truncatedActionsCount: 7 }, visit]), 'matomo')
  t.equal(events.length, 1)
  t.match(rejects, [[1, /left out 7 actions of the visit: set visitor_log_maximum_actions_per_visit/]])
})

t.test('Matomo: rows that are not visits', async (t) => {
  const error = '{"result":"error","message":"You must be logged in."}'
  t.match((await readRows(error, 'matomo')).rejects, [[1, /Matomo answered with an error.*"You must be logged in\."/]])
  t.match((await readRows('[{"label":"Google","nb_visits":3}]', 'matomo')).rejects, [[1, /totals/]])
})

t.test('a row of many events stays in one batch', async (t) => {
  const visit = (idVisit: number, count: number) => ({
    ...{ idVisit, visitorId: 'v', firstActionTimestamp: 1_700_000_000 },
    actionDetails: Array.from({ length: count }, (_, i) => {
      return { type: 'action', url: 'https://a.example/', pageId: i, timestamp: 1_700_000_000 + i }
    }),
  })
  const visits = JSON.stringify([visit(1, 6), visit(2, 6), visit(3, 3), visit(4, 1001)])
  const batches = await batchesOf(pieces(visits), { from: 'matomo' }, undefined, 10)
  t.strictSame(
    batches.map(({ count }) => count),
    [6, 9],
  )
  t.match(rejectsOf(batches), [[/\d/, /more than 1000 events/]])
})

t.test('Google Analytics 4: rows of BigQuery', async (t) => {
  const { events, rejects, people } = await readFile('ga4.ndjson', 'ga4')
  t.strictSame(
    events.map(({ event }) => event),
    ['$pageview', 'view_item', 'view_item', '$pageview', '$pageview', 'screen_view'],
  )
  const [entry, item, , customer, unknown, app] = events
  t.match(entry, {
    distinct_id: '1234567890.1711843190',
    timestamp: 1_711_843_198_123,
    session_id: '1234567890.1711843190.1711843190',
    properties: {
      ...{ url: 'https://shop.example/?gclid=x', title: 'Tea, "good"', referrer: 'https://www.google.com/' },
      ...{ utm_source: 'google', utm_medium: 'cpc', utm_campaign: 'brand', ga_session_number: 1 },
      $ga4: { stream_id: '1' },
    },
  })
  t.notOk('utm_term' in (entry?.properties ?? {}), 'values that are not provided')
  t.strictSame(entry?.context, {
    ...{ browser: 'Safari', browser_version: '17.4', os: 'macOS', os_version: '10.15', device: 'desktop' },
    ...{ country: 'TR', region: 'Istanbul', language: 'en-GB' },
  })
  t.match(item?.properties, { value: 9.5, items: [{ item_id: 't1' }] })
  const text = eventsOf(await batchesOf(await openFile(pathOf('ga4.ndjson')), { from: 'ga4' }))[1]
  t.match(text, '"firebase_screen_id":-5164663614086310235', 'a large number keeps its digits')
  t.match(customer, { distinct_id: 'customer-7', context: { country: 'HK' }, properties: { utm_source: 'news' } })
  t.match(unknown, { distinct_id: '$anonymous', session_id: undefined, context: { device: 'tv' } })
  t.match(app, { event: 'screen_view', session_id: undefined, context: { os: 'Android', device: 'mobile' } })
  t.strictSame(people, ['"distinct_id":"customer-7","alias":"1234567890.1711843190"'])
  t.equal(new Set(events.map(({ insert_id }) => insert_id)).size, events.length, 'even of events of the same moment')
  t.match(rejects, [
    [7, /no event_timestamp.*totals/],
    [8, /not a number of microseconds/],
  ])
})

t.test('Plausible: the export is refused as a whole, and rows of its own database are read', async (t) => {
  const options = {
    ...{ names: OWN_NAMES, time: undefined, from: 'plausible' as const, format: undefined },
    ...{ delimiter: ',', types: {} },
  }
  await t.rejects(inspect(await openFile(pathOf('plausible.zip')), options), {
    message: /^None of the 4 rows of .*plausible\.zip is an event, so nothing was stored.*daily totals.*events_v2/,
  })
  const { events, skipped } = await readFile('plausible.ndjson', 'plausible')
  const [view, signup] = events
  t.match(view, {
    event: '$pageview',
    distinct_id: '6085972112563424235',
    session_id: '15391237473024541032',
    timestamp: at('2024-03-30T23:59:58Z'),
    properties: { url: 'https://shop.example/tea', referrer: 'https://www.google.com/search' },
    context: { browser: 'Microsoft Edge', os: 'macOS', device: 'desktop', country: 'AT' },
  })
  t.match(signup, {
    ...{ event: 'Signup', distinct_id: view?.distinct_id, session_id: view?.session_id },
    properties: { utm_source: 'news', plan: 'pro', method: 'mail' },
  })
  t.equal(skipped, 1, 'an engagement is no event')
})

t.test('Plausible: a source without a referrer, and an event without a host', async (t) => {
  const row = { timestamp: '2024-03-31 00:00:20', name: 'pageview', user_id: '1', session_id: '2', pathname: '/' }
  const rows = [
    { ...row, hostname: 'shop.example', referrer: '', referrer_source: 'Product Hunt' },
    { ...row, hostname: '(none)', referrer: 'google.com', referrer_source: 'Google' },
  ]
  const { events } = await readRows(rows.map((one) => JSON.stringify(one)).join('\n'), 'plausible')
  t.match(events, [
    { properties: { url: 'https://shop.example/', utm_source: 'Product Hunt' } },
    { properties: { url: '/', referrer: 'https://google.com', utm_source: undefined } },
  ])
})

t.test('Umami: a name may be that of a member that every object has', async (t) => {
  const row = {
    session_id: 's',
    created_at: '2024-03-30 23:59:58',
    url_path: '/',
    event_type: 1,
    browser: 'constructor',
  }
  const rows = [
    { ...row, os: '__proto__', device: 'constructor' },
    { ...row, event_type: 'constructor' },
  ]
  const { events, rejects } = await readRows(rows.map((one) => JSON.stringify(one)).join('\n'), 'umami')
  t.strictSame(
    events.map(({ context }) => context),
    [{ browser: 'constructor', os: '__proto__', device: 'other' }],
  )
  t.strictSame(rejects, [])
})

t.test('Google Analytics 4: numbers that BigQuery writes as strings', async (t) => {
  const row = {
    ...{ event_name: 'purchase', event_timestamp: '1711843198000000', user_id: 'ada' },
    event_params: [{ key: 'ga_session_id', value: { int_value: '1711843190' } }],
    items: [
      { item_id: '7', price: '9.50', quantity: '2', item_list_index: '1', item_params: [], coupon: null },
      { item_id: '8', price: 3, quantity: 'many' },
    ],
    ecommerce: { transaction_id: '42', purchase_revenue: '22.5', total_item_quantity: '3' },
  }
  const batches = await batchesOf(pieces(JSON.stringify(row)), { from: 'ga4' })
  const [text = ''] = eventsOf(batches)
  t.match(text, '"price":9.50')
  t.match(JSON.parse(text), {
    session_id: undefined,
    properties: {
      ga_session_id: 1711843190,
      items: [
        { item_id: '7', price: 9.5, quantity: 2, item_list_index: '1', item_params: [], coupon: null },
        { item_id: '8', price: 3, quantity: 'many' },
      ],
      ecommerce: { transaction_id: '42', purchase_revenue: 22.5, total_item_quantity: 3 },
    },
  })
})

t.test('Google Analytics 4: fields that Google sends with each visit are left out', async (t) => {
  const names = ['first_visit', 'session_start', 'page_view', 'user_engagement', 'scroll']
  const rows = names.map((event_name) => ({ event_name, event_timestamp: '1711843198000000', user_pseudo_id: 'v' }))
  const batches = await batchesOf(pieces(rows.map((row) => JSON.stringify(row)).join('\n')), { from: 'ga4' })
  t.match(
    eventsOf(batches).map((text) => JSON.parse(text).event),
    ['$pageview', 'scroll'],
  )
  t.equal(batches[0]?.skipped, 3)
  t.strictSame(rejectsOf(batches), [])
})

t.test('visitors who are not signed in are not one user', async (t) => {
  const row = {
    event_name: 'page_view',
    event_timestamp: '1711843198000000',
    user_pseudo_id: 'v1',
    user_id: 'undefined',
  }
  t.match((await readRows(JSON.stringify(row), 'ga4')).events, [{ distinct_id: 'v1' }])
  const actionDetails = [{ type: 'action', url: 'https://a.example/', pageId: 1, timestamp: 1_700_000_000 }]
  const visit = { idVisit: 1, visitorId: 'v2', userId: '0', firstActionTimestamp: 1_700_000_000, actionDetails }
  t.match((await readRows(JSON.stringify([visit]), 'matomo')).events, [{ distinct_id: 'v2' }])
})

t.test('Google Analytics 4: numbers in strings, as in the results of a query, are numbers', async (t) => {
  const none = { string_value: null, int_value: null, float_value: null, double_value: null }
  const row = {
    ...{ event_name: 'purchase', event_timestamp: '1711843198000000', user_pseudo_id: 'v' },
    event_params: [
      { key: 'value', value: { ...none, double_value: '9.5' } },
      { key: 'ga_session_id', value: { ...none, int_value: '1711843190' } },
      { key: 'coupon', value: { ...none, string_value: '10' } },
    ],
  }
  const { events } = await readRows(JSON.stringify(row), 'ga4')
  t.match(events, [{ session_id: 'v.1711843190', properties: { value: 9.5, coupon: '10' } }])
})

t.test('Google Analytics 4: countries get their current codes', async (t) => {
  const codes: Record<string, string | undefined> = {
    ...{ France: 'FR', Germany: 'DE', 'United Kingdom': 'GB', Russia: 'RU', Serbia: 'RS', 'Timor-Leste': 'TL' },
    ...{ 'Congo - Kinshasa': 'CD', 'Myanmar (Burma)': 'MM', 'Czech Republic': 'CZ', '(not set)': undefined },
    ...{ Turkey: 'TR', Türkiye: 'TR', 'Macedonia (FYROM)': 'MK', 'Falkland Islands (Islas Malvinas)': 'FK' },
  }
  const rows = Object.keys(codes).map((country, i) => ({
    ...{ event_name: 'page_view', event_timestamp: `${1_711_843_198_000_000 + i}`, user_pseudo_id: 'v' },
    geo: { country },
  }))
  const { events } = await readRows(rows.map((row) => JSON.stringify(row)).join('\n'), 'ga4')
  t.strictSame(
    events.map(({ context }) => context?.country),
    Object.values(codes),
  )
})

t.test('a property with the name of a field of the page is kept', async (t) => {
  const click = {
    ...{ timestamp: '2024-03-31 00:00:20', name: 'Outbound Link: Click', user_id: '1', session_id: '2' },
    ...{ hostname: 'shop.example', pathname: '/', 'meta.key': ['url'], 'meta.value': ['https://maps.example/'] },
  }
  const other = { ...click, 'meta.value': ['https://news.example/'] }
  const plausible = await readRows(`${JSON.stringify(click)}\n${JSON.stringify(other)}`, 'plausible')
  t.match(plausible.events, [
    { properties: { url: 'https://shop.example/', $plausible: { url: 'https://maps.example/' } } },
    { properties: { url: 'https://shop.example/', $plausible: { url: 'https://news.example/' } } },
  ])
  t.not(plausible.events[0]?.insert_id, plausible.events[1]?.insert_id, 'two clicks in one second')
  const parameter = (key: string, string_value: string) => ({ key, value: { string_value } })
  const row = {
    ...{ event_name: 'video', event_timestamp: '1711843198000000', user_pseudo_id: 'v', stream_id: '1' },
    event_params: [parameter('page_title', 'Tea'), parameter('title', 'Brewing')],
  }
  const { events } = await readRows(JSON.stringify(row), 'ga4')
  t.match(events, [{ properties: { title: 'Tea', $ga4: { stream_id: '1', title: 'Brewing' } } }])
})

t.test('the same file gives the same ids', async (t) => {
  for (const [file, from] of [
    ['umami.csv', 'umami'],
    ['matomo.json', 'matomo'],
    ['ga4.ndjson', 'ga4'],
    ['plausible.ndjson', 'plausible'],
  ] as const) {
    t.strictSame((await readFile(file, from)).ids, (await readFile(file, from)).ids, from)
  }
})
