import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import * as fc from 'fast-check'
import t from 'tap'
import { rowsInParquet } from '../../../src/cli/export/parquet-rows.js'
import { ClickHouse } from '../../../src/clickhouse/client.js'
import { startClickHouse, temporaryFolder } from '../../helper.js'

const engine = await startClickHouse(t)
const clickhouse = new ClickHouse({ url: engine.url })
t.teardown(() => clickhouse.close())
const path = join(await temporaryFolder(t), 'events.parquet')

async function parquet(rows: number): Promise<Buffer> {
  const query = `SELECT toString(number) AS eventId, number % 7 = 0 AS flag, toFloat64(number) AS timestamp,
    [number] AS list FROM numbers(${rows}) FORMAT Parquet`
  return await buffer(await clickhouse.bytes(query, {}, {}))
}

async function rowsIn(bytes: Buffer): Promise<number> {
  await writeFile(path, bytes)
  const file = await open(path)
  return await rowsInParquet(file, bytes.length).finally(() => file.close())
}

t.test('rowsInParquet counts the rows that were written', async (t) => {
  for (const rows of [0, 1, 63, 64, 10_000, 2_000_000]) t.equal(await rowsIn(await parquet(rows)), rows)
})

t.test('rowsInParquet refuses a truncated file', async (t) => {
  const whole = await parquet(1000)
  for (const bytes of [0, 7, 8, 100, whole.length - 1]) {
    await t.rejects(rowsIn(whole.subarray(0, bytes)), { message: /not a whole Parquet file/ }, `${bytes} bytes`)
  }
})

t.test('rowsInParquet stops at a damaged footer', async () => {
  const whole = await parquet(1000)
  const footer = whole.length - 8 - whole.readUInt32LE(whole.length - 8)
  const damage = fc.array(fc.tuple(fc.nat({ max: 200 }), fc.nat({ max: 255 })), { minLength: 1, maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(damage, async (places) => {
      const bytes = Buffer.from(whole)
      for (const [place, byte] of places) bytes[footer + place] = byte
      await rowsIn(bytes).catch((error: Error) => {
        if (!error.message.includes('not a whole Parquet file')) throw error
      })
    }),
    { numRuns: 300 },
  )
})
