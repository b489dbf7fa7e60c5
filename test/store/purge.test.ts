import t from 'tap'
import { formatEventId } from '../../src/event-id.js'
import { ClickHouse } from '../../src/store/clickhouse.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { migrate } from '../../src/store/migrate.js'
import { purgeEvents } from '../../src/store/purge.js'
import { startClickHouse } from '../helper.js'

const EVENTS = 120
const LANES = 4

t.test('edits and deletes that come while a purge begins, runs and ends are all there after it', async (t) => {
  const clickhouse = new ClickHouse({ url: (await startClickHouse(t)).url })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  const position = BigInt(Date.now()) << 16n
  const ids = Array.from({ length: EVENTS }, (_, index) => formatEventId({ position, index, journalId: 1 }))
  const rows = ids.map((id) => `('p', '${id}', 'e', 'u', 0, 0, '{}')`)
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     VALUES ${rows.join(', ')}`,
  )

  let isOver = false
  let purges = 0
  const purging = (async () => {
    while (!isOver) {
      await purgeEvents(clickhouse, AbortSignal.timeout(60_000))
      purges++
    }
  })()
  // As of several processes, which know nothing of each other's statements.
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    const edits = new EventEdits(clickhouse)
    for (let n = lane; n < EVENTS; n += LANES) {
      const properties = n % 3 === 0 ? null : `{"n":${n}}`
      t.ok(await edits.apply({ projectId: 'p', eventId: ids[n] ?? '', properties }))
    }
  })
  await Promise.all(lanes)
  isOver = true
  await purging
  t.ok(purges > 3, `${purges} purges`)

  const left = await clickhouse.rows<{ id: string; properties: string }>(
    'SELECT toString(event_id) AS id, properties FROM events ORDER BY toUInt128(event_id)',
  )
  t.strictSame(
    left.map(({ id, properties }) => [id, properties]),
    ids.flatMap((id, n) => (n % 3 === 0 ? [] : [[id, `{"n":${n}}`]])),
  )
  await purgeEvents(clickhouse, AbortSignal.timeout(60_000))
  const onDisk = await clickhouse.rows('SELECT 1 FROM events SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0')
  t.equal(onDisk.length, left.length)
})
