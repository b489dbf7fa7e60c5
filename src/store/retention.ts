import { type ClickHouseSettings, SettingsMap } from '@clickhouse/client'

/** The earliest times that are kept, epoch ms; absent: everything is. */
export interface KeptTimes {
  events?: number
  sessions?: number
}

/** The column that has the age of a table's rows. */
const TIME_OF = { events: 'timestamp', sessions: 'updated_at' } as const

/**
 * Makes a query not see what has expired, whatever it reads: ClickHouse adds the condition to each of these tables
 * wherever the query names it.
 */
export function hideExpired(kept: KeptTimes): ClickHouseSettings {
  const filters: Record<string, string> = {}
  for (const table of ['events', 'sessions'] as const) {
    const since = kept[table]
    if (since === undefined) continue
    for (const name of [table, `${table}_all`]) filters[name] = `${TIME_OF[table]} >= ${Math.trunc(since)}`
  }
  return Object.keys(filters).length === 0 ? {} : { additional_table_filters: SettingsMap.from(filters) }
}
