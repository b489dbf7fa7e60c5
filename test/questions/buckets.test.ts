import fc from 'fast-check'
import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { areDays, findBucketOfDay, Statement } from '../../src/questions/statement.js'
import { splitIntoBuckets, type Unit } from '../../src/questions/time.js'

const DAY_MS = 86_400_000
const UNITS: Unit[] = ['day', 'week', 'month']
/** Some zones have no offset for half of the year, or at all. */
const ZONES = ['UTC', 'Europe/London', 'Africa/Abidjan', 'Atlantic/Azores', 'Africa/Casablanca', 'Europe/Vienna']
const shards = Shards.of(null as never)
const context = { projectId: 'p', now: 0, shards, hasAliases: false, repairsTexts: false, pages: DEFAULT_SETTINGS }

t.test('the bucket of a day is the bucket of each of its instants', async (t) => {
  const seen = new Map<string, number>()
  fc.assert(
    fc.property(
      fc.constantFrom(...ZONES),
      fc.constantFrom(...UNITS),
      fc.constantFrom('monday', 'sunday'),
      fc.integer({ min: 1, max: 40 * 365 * DAY_MS }),
      fc.integer({ min: 1, max: 400 * DAY_MS }),
      (zone, unit, weekStart, from, length) => {
        const range = { from, to: from + length }
        const buckets = splitIntoBuckets(range, unit, zone, weekStart as 'monday' | 'sunday')
        if (!areDays(buckets) || buckets.starts.length < 2) return
        seen.set(zone, (seen.get(zone) ?? 0) + 1)
        const statement = new Statement(context)
        findBucketOfDay(statement, 'day', buckets)
        // Those of the SQL: the project, the list and the number of the day before it.
        const [, listed, before] = Object.values(statement.parameters) as [string, number[], number]
        for (const instant of [range.from, range.to - 1, ...buckets.starts.slice(1).flatMap((at) => [at - 1, at])]) {
          if (instant < range.from || instant >= range.to) continue
          const last = buckets.starts.findLastIndex((start) => start <= instant)
          const found = listed[Math.floor(instant / DAY_MS) - before - 1]
          if (found !== buckets.numbers[last]) throw new Error(`${found} at ${instant}, not ${buckets.numbers[last]}`)
        }
      },
    ),
    { numRuns: 500 },
  )
  t.ok((seen.get('UTC') ?? 0) > 25 && (seen.get('Europe/London') ?? 0) > 0, JSON.stringify([...seen]))
})
