import { rm } from 'node:fs/promises'
import t from 'tap'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, silent, startApp, until } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { keepLog } from './damaged-store.js'

t.test('a lost part is reported with its shard, also while the service runs', async (t) => {
  const nodes = await startNodes(t, 2)
  const settings = {
    ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', DATA_DIR: await dataFolder(t) },
    CLICKHOUSE_URL: shardsUrl(nodes),
    LANES: '2',
  }
  const { app, call, events } = await startApp(t, { ...settings, LOG_LEVEL: 'silent' })
  const sent = Array.from({ length: 60 }, (_, i) => ({ event: 'e', distinct_id: `u${i}` }))
  for (const event of sent) await call('POST', '/public/track', event)
  await until('the events', async () => (await events()).length === sent.length)

  // A service that stops records its parts only if that takes a second or so.
  const [part] = await until('a recorded part of events', async () => {
    for (const [shard, { url }] of nodes.entries()) {
      const one = openShards(url, { log: silent } as never)
      const rows = await one.first.rows<{ path: string; name: string; rows: string }>(
        `SELECT path, name, rows FROM system.parts
         WHERE active AND database = currentDatabase() AND table = 'events' AND name IN (
           SELECT arrayJoin(parts.name) FROM known_parts FINAL WHERE table_name = 'events'
         )`,
      )
      await one.close()
      const [first] = rows
      if (first) return [{ shard, ...first }]
    }
    return undefined
  })
  if (!part) throw new Error('there is no part')
  await app.close()
  const node = nodes[part.shard]
  await node?.stop()
  await rm(part.path, { recursive: true })
  await node?.start()

  const { log, lines } = keepLog()
  const again = await startApp(t, settings, { log })
  await until('the loss to be noticed', async () => {
    return (await again.call('GET', '/health/ready?strict=true')).statusCode === 503
  })
  t.equal((await again.events()).length, sent.length - Number(part.rows))
  const errors = lines.filter(({ level }) => level === 50)
  t.match(errors, [{ part: part.name, rows: Number(part.rows), shard: new URL(node?.url ?? '').host }])
  t.equal((await again.call('GET', '/health/ready')).statusCode, 200)
  const metrics = (await again.call('GET', '/metrics')).body
  t.match(metrics, `tallyhouse_store_lost_parts{shard="${part.shard}",state="missing"} 1`)
  t.match(metrics, `tallyhouse_store_lost_parts{shard="${1 - part.shard}",state="missing"} 0`)
})
