import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import * as fc from 'fast-check'
import t from 'tap'
import { rowsInParquet } from '../../../src/cli/export/parquet-rows.js'
import { openStore } from '../../../src/store/open.js'
import { temporaryFolder } from '../../helper.js'
import { sharedApp } from '../../shared-app.js'

t.test('rowsInParquet', async (t) => {
  const { clickhouse, close } = await openStore((await sharedApp()).config)
  t.teardown(close)
  const path = join(await temporaryFolder(t), 'events.parquet')

  async function parquet(rows: number): Promise<Buffer> {
    const query = `SELECT toString(number) AS eventId, number % 7 = 0 AS flag, toFloat64(number) AS timestamp,
    [number] AS list FROM numbers(${rows}) SETTINGS output_format_parquet_row_group_size = 5000 FORMAT Parquet`
    return await buffer(await clickhouse.bytes(query, {}, {}))
  }

  async function rowsIn(bytes: Buffer): Promise<number> {
    await writeFile(path, bytes)
    const file = await open(path)
    return await rowsInParquet(file, bytes.length).finally(() => file.close())
  }

  t.test('counts the rows that were written', async (t) => {
    for (const rows of [0, 1, 63, 64, 20_000]) t.equal(await rowsIn(await parquet(rows)), rows)
  })

  t.test('refuses a truncated file', async (t) => {
    const whole = await parquet(1000)
    for (const bytes of [0, 7, 8, 100, whole.length - 1]) {
      await t.rejects(rowsIn(whole.subarray(0, bytes)), { message: /not a whole Parquet file/ }, `${bytes} bytes`)
    }
  })

  t.test('stops at a damaged footer', async () => {
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
      { numRuns: 100 },
    )
  })
})
