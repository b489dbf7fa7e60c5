import type { Shards } from '../clickhouse/shards.js'
import { deduplicateBy } from './insert.js'

/** The salts by their days, such as `2026-11-26`. */
export type VisitorSalts = ReadonlyMap<string, string>

/**
 * Reads the salts of these days, and creates those that do not exist yet.
 * @param makeSalt returns a new random salt; if another process stored its salt first, that one is used
 */
export async function ensureVisitorSalts(
  shards: Shards,
  days: readonly string[],
  makeSalt: () => string,
): Promise<VisitorSalts> {
  return await shards.onFirst(async (clickhouse) => {
    const read = async () => {
      const rows = await clickhouse.rows<{ date: string; salt: string }>(
        'SELECT toString(day) AS date, salt FROM visitor_salts WHERE date IN {days:Array(String)}',
        { days: [...days] },
      )
      return new Map(rows.map(({ date, salt }) => [date, salt]))
    }
    const found = await read()
    const missing = days.filter((day) => !found.has(day))
    if (missing.length === 0) return found
    for (const day of missing) {
      await clickhouse.command(
        'INSERT INTO visitor_salts (day, salt) SELECT {day:Date}, {salt:String}',
        { day, salt: makeSalt() },
        deduplicateBy(JSON.stringify(['visitor salt', day])),
      )
    }
    return await read()
  })
}

/**
 * Deletes the salts of all days before this one for good, but none that is from yesterday or later by the store's
 * clock: other processes still use it if the clock of this one is ahead.
 * @param day such as `2026-11-26`
 */
export async function dropVisitorSalts(shards: Shards, day: string): Promise<void> {
  await shards.onFirst(async (clickhouse) => {
    const old = await clickhouse.rows<{ date: string }>(
      `SELECT DISTINCT toString(day) AS date FROM visitor_salts
       WHERE day < least({day:Date}, toDate(now('UTC')) - 1)`,
      { day },
    )
    for (const { date } of old) await clickhouse.command(`ALTER TABLE visitor_salts DROP PARTITION '${date}'`)
  })
}
