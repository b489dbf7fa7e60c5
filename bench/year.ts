import { PROJECT, type Store } from './store.js'

export const YEAR = { from: Date.UTC(2025, 0, 1), to: Date.UTC(2026, 0, 1) }
/** Names of events, the first the most frequent. */
const NAMES = 80
/** Events per user, on average. */
const PER_USER = 50

/** SQL of an event of the year; `number` counts them. */
const SQL = {
  random: 'cityHash64(number)',
  // A product of two random numbers is small more often than large.
  name: `concat('event-', toString(intDiv((random % ${NAMES}) * (intDiv(random, 97) % ${NAMES}), ${NAMES})))`,
  plan: `['free', 'free', 'free', 'pro', 'team'][1 + intDiv(random, 7) % 5]`,
  country: `concat('C', toString(intDiv(random, 11) % 60))`,
  price: 'toFloat64(intDiv(random, 13) % 10000) / 100',
}

const PROPERTIES = `concat(
  '{"plan":"', plan, '","country":"', country, '","price":', toString(price),
  ',"os":"', ['ios', 'android', 'windows', 'macos'][1 + random % 4], '","browser":"Firefox 141","language":"de-AT","screen":"1920x1080"',
  ',"url":"https://shop.example.com/products/', toString(random % 5000), '?from=newsletter","referrer":"https://www.example.org/"',
  ',"session":', toString(intDiv(number, 12)), ',"beta":false,"version":"4.17.', toString(random % 40), '","experiment":null',
  ',"items":[', toString(random % 9), ',', toString(random % 7), '],"device":{"model":"Pixel 9","memory":8}}')`

/**
 * Replaces all events by `count` events of a year with 14 properties each. Also creates a table that is ideal for
 * questions: with the properties that they use as columns, sorted by event and time.
 */
export async function fillYear(store: Store, count: number): Promise<void> {
  const stepMs = (YEAR.to - YEAR.from) / count
  await store.text('TRUNCATE TABLE events')
  await store.text('DROP TABLE IF EXISTS ideal')
  await store.text(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     WITH ${Object.entries(SQL).map(([name, sql]) => `${sql} AS ${name}`)},
       toUInt64(floor(${YEAR.from} + number * ${stepMs})) AS ms,
       bitOr(bitShiftLeft(ms, 16), toUInt64(0x7000)) AS high,
       bitOr(bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftLeft(toUInt64(number % 4000), 32)), toUInt64(1)) AS low
     SELECT '${PROJECT}', reinterpret(bitOr(bitShiftLeft(toUInt128(low), 64), toUInt128(high)), 'UUID'),
       name, concat('user-', toString(intDiv(random, 17) % ${Math.max(1, Math.round(count / PER_USER))})), ms, ms, ${PROPERTIES}
     FROM numbers(${count})`,
    { max_insert_threads: 1, min_insert_block_size_rows: 1_000_000, max_partitions_per_insert_block: 1000 },
  )
  await store.text(`CREATE TABLE ideal
    (event LowCardinality(String), timestamp Float64, user UInt64, plan LowCardinality(String), country LowCardinality(String), price Float64)
    ENGINE = MergeTree ORDER BY (event, timestamp)`)
  await store.text(`INSERT INTO ideal SELECT event, timestamp, sipHash64(distinct_id), JSONExtractString(properties, 'plan'),
      JSONExtractString(properties, 'country'), JSONExtractFloat(properties, 'price') FROM events`)
  await store.quiet()
}
