// The second half of the textbook pipeline: reads waiting entries, parses them and inserts objects. The environment
// gives REDIS_URL and CLICKHOUSE_URL; the table is textbook_events.
import { createClient } from '@clickhouse/client'
import { Redis } from 'ioredis'

const BATCH = 10_000
const BLOCK_MS = 1_000

interface TextbookEvent {
  event: string
  distinct_id: string
  timestamp: number
  properties?: object
}

const redis = new Redis(process.env.REDIS_URL ?? '')
const client = createClient({ url: process.env.CLICKHOUSE_URL ?? '', clickhouse_settings: { async_insert: 0 } })

await redis.xgroup('CREATE', 'textbook', 'workers', '$', 'MKSTREAM')
console.log('serves at redis')
for (;;) {
  const answer = (await redis.xreadgroup(
    'GROUP',
    'workers',
    'worker',
    'COUNT',
    BATCH,
    'BLOCK',
    BLOCK_MS,
    'STREAMS',
    'textbook',
    '>',
  )) as [stream: string, entries: [id: string, fields: string[]][]][] | null
  const entries = answer?.[0]?.[1] ?? []
  if (entries.length === 0) continue
  const values = entries.map(([, [, text = '']]) => {
    const { event, distinct_id, timestamp, properties } = JSON.parse(text) as TextbookEvent
    return { event, distinct_id, timestamp, properties: JSON.stringify(properties ?? {}) }
  })
  await client.insert({ table: 'textbook_events', values, format: 'JSONEachRow' })
  const ids = entries.map(([id]) => id)
  await redis
    .pipeline()
    .xack('textbook', 'workers', ...ids)
    .xdel('textbook', ...ids)
    .exec()
}
