import { PROJECT, type Store } from './store.js'

export const MONTH = { from: '2025-06-01', to: '2025-07-01' }
const FROM = Date.parse(MONTH.from)
const LENGTH = Date.parse(MONTH.to) - FROM
/** The longest visit: 13 events with pauses of up to 5 minutes. */
const LONGEST = 3_600_000

/** SQL that picks one of several texts. @param hash SQL */
function pick(hash: string, texts: readonly string[]): string {
  return `[${texts.map((text) => `'${text}'`).join(', ')}][1 + ${hash} % ${texts.length}]`
}

/** SQL of a visit; `number` counts them, and `random` is different for each. */
const VISIT: Record<string, string> = {
  random: 'cityHash64(number)',
  other: 'cityHash64(number, 1)',
  // 43 % bounce; the average of all is five events.
  length: 'if(random % 100 < 43, 1, 3 + intDiv(random, 100) % 11)',
  session: `toString(reinterpret(MD5(toString(number)), 'UUID'))`,
  person: 'intDiv(random, 1301)',
  source: 'intDiv(other, 100) % 100',
  referrer: `multiIf(
    source < 35, '', source < 60, 'https://www.google.com/',
    source < 80, ${pick('intDiv(other, 7)', [
      ...['https://www.bing.com/', 'https://duckduckgo.com/', 'https://t.co/', 'https://www.facebook.com/'],
      ...[
        'https://l.instagram.com/',
        'https://news.ycombinator.com/',
        'https://chatgpt.com/',
        'https://www.youtube.com/',
      ],
    ])},
    concat('https://blog-', toString(intDiv(other, 11) % 3000), '.example.net/posts/', toString(intDiv(other, 13) % 100)))`,
  campaign: `if(other % 100 < 15, ${pick('intDiv(other, 17)', [
    ...['google&cpc&spring', 'google&cpc&brand', 'newsletter&email&june', 'newsletter&email&sale'],
    ...['facebook&paid_social&sale', 'partner&affiliate&spring', 'linkedin&social&jobs', 'bing&cpc&brand'],
  ])}, '')`,
  bot: 'toUInt8(intDiv(random, 1201) % 50 = 0)',
  device: pick('intDiv(random, 17)', ['mobile', 'mobile', 'mobile', 'desktop', 'desktop', 'tablet']),
  os: `if(device = 'desktop', ${pick('intDiv(random, 19)', ['Windows', 'Windows', 'macOS', 'Linux'])}, ${pick('intDiv(random, 19)', ['iOS', 'Android'])})`,
  browser: pick('intDiv(random, 23)', ['Chrome', 'Chrome', 'Chrome', 'Safari', 'Safari', 'Firefox', 'Microsoft Edge']),
  country: `substring('USBRMXJPDEGBFRITESCAPLAUNLBESEPTATCHDKNOIENZ', 1 + 2 * (intDiv(intDiv(random, 29) % 22 * (intDiv(random, 31) % 22), 22)), 2)`,
  region: `concat('Region ', toString(intDiv(random, 37) % 10), ' of ', country)`,
  city: `concat('City ', toString(intDiv(random, 41) % 40), ' of ', country)`,
  started: `toUInt64(${FROM} + intDiv(number * ${LENGTH - LONGEST}, {count:UInt64}))`,
}

/** SQL of an event of a visit; `step` counts them. */
const EVENT: Record<string, string> = {
  drawn: 'cityHash64(number, step, 2)',
  ms: 'started + step * 20000 + if(step = 0, 0, drawn % 20000)',
  event: `if(step = 0 OR drawn % 100 < 80, '$pageview', ${pick('intDiv(drawn, 100)', ['product added', 'product added', 'signed up', 'order placed'])})`,
  // A product of two random numbers is small more often than large.
  page: `concat('/products/', toString(intDiv(intDiv(drawn, 7) % 3000 * (intDiv(drawn, 11) % 3000), 3000)))`,
  utm: `splitByChar('&', campaign)`,
  query: `if(step = 0 AND campaign != '', concat('?utm_source=', utm[1], '&utm_medium=', utm[2], '&utm_campaign=', utm[3]), '')`,
  properties: `if(event = '$pageview', concat(
      '{"url":"https://shop.example', page, query, '","title":"Product ', page, ' | Shop"',
      multiIf(step > 0, concat(',"referrer":"https://shop.example/products/', toString(intDiv(drawn, 13) % 3000), '"'),
        referrer != '', concat(',"referrer":"', referrer, '"'), ''),
      if(query = '', '', concat(',"utm_source":"', utm[1], '","utm_medium":"', utm[2], '","utm_campaign":"', utm[3], '"')), '}'),
    concat('{"product":"p-', toString(drawn % 3000), '","price":', toString(drawn % 10000 / 100), ',"currency":"EUR"}'))`,
}

const CONTEXT = ['browser', 'os', 'device', 'country', 'region', 'city', 'bot']

/**
 * Replaces all events and sessions by a month of visits with five events each on average, as `t.js` sends them. Also
 * creates a table that is ideal for questions about visits: every field is a column.
 */
export async function fillMonth(store: Store, visits: number): Promise<void> {
  const settings = {
    ...{ param_count: visits, max_insert_threads: 2, max_partitions_per_insert_block: 1000 },
    min_insert_block_size_rows: 1_000_000,
  }
  const list = (columns: Record<string, string>) => Object.entries(columns).map(([name, sql]) => `${sql} AS ${name}`)
  const rows = `(SELECT *, ${list(VISIT).join(', ')} FROM numbers({count:UInt64}))`
  await store.text('TRUNCATE TABLE events')
  await store.text('TRUNCATE TABLE sessions')
  await store.text(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, session_id, ${CONTEXT.join(', ')})
     WITH ${list(EVENT).join(', ')},
       bitOr(bitShiftLeft(ms, 16), toUInt64(0x7000)) AS high,
       bitOr(bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftLeft(toUInt64(number % 0x1000000 * 16 + step), 32)), toUInt64(1)) AS low
     SELECT '${PROJECT}', reinterpret(bitOr(bitShiftLeft(toUInt128(low), 64), toUInt128(high)), 'UUID'),
       event, concat('visitor-', toString(person % intDiv({count:UInt64}, 2))), ms, ms, properties, session, ${CONTEXT.join(', ')}
     FROM ${rows} ARRAY JOIN range(toUInt64(length)) AS step`,
    settings,
  )
  await store.text(
    `INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, duration, started_at, updated_at, ended_at, version, is_deleted, ${CONTEXT.join(', ')})
     SELECT '${PROJECT}', session, concat('visitor-', toString(person % intDiv({count:UInt64}, 2))), 'active', '{}',
       length * 20, started, started + length * 20000, NULL, number + 1, 0, ${CONTEXT.join(', ')}
     FROM ${rows}`,
    settings,
  )
  await store.text('DROP TABLE IF EXISTS ideal')
  await store.text(`CREATE TABLE ideal
    (session UInt64, timestamp Float64, user UInt64, event LowCardinality(String), path LowCardinality(String), channel LowCardinality(String),
     source LowCardinality(String), campaign LowCardinality(String), ${CONTEXT.map((name) => `${name} ${name === 'bot' ? 'UInt8' : 'LowCardinality(String)'}`).join(', ')})
    ENGINE = MergeTree ORDER BY timestamp`)
  await store.text(`INSERT INTO ideal SELECT sipHash64(session_id), timestamp, sipHash64(distinct_id), event,
      path(JSONExtractString(properties, 'url')), JSONExtractString(properties, 'utm_medium'),
      if(JSONHas(properties, 'utm_source'), JSONExtractString(properties, 'utm_source'), domainWithoutWWW(JSONExtractString(properties, 'referrer'))),
      JSONExtractString(properties, 'utm_campaign'), ${CONTEXT.join(', ')} FROM events`)
  await store.quiet()
}
