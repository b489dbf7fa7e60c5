// What a load needs, from what one event costs: the model of docs/scale.md. Prints a table as Markdown.
//   node docs/scale-model.mjs                      1, 10 and 100 billion events a day
//   node docs/scale-model.mjs 5e9 --singles=0.5    half of them in single calls
import { parseArgs } from 'node:util'

/** Measured on 2 cores of an AMD EPYC: 1.5 million events of 231 bytes, in batches of 1000. */
const EVENT = {
  /** µs of a core: the service (HTTP, check, journal, writer), Redis, ClickHouse with its merges */
  serviceUs: 1.27,
  redisUs: 0.21,
  clickhouseUs: 1.43,
  /** as JSON, on the wire and in the journal */
  bytes: 231,
}
/** The same for an event in a single call; two cores carried 30 555 of them a second, load tool included. */
const SINGLE = { serviceUs: 43, redisUs: 14, clickhouseUs: 9 }

/** Assumed; change what does not fit. */
const PLAN = {
  /** the busiest minute to the mean */
  peak: 3,
  /** of a core, a disk or a link, at that minute */
  use: 0.6,
  /** events a second of a lane at its peak: half of what two cores made visible, 561 182 */
  lanePerSecond: 280_000,
  /** bytes of an event in ClickHouse; the measured 15 were of few distinct values, so look at your own */
  storedBytes: 60,
  /** days kept */
  days: 90,
  /** copies of each shard */
  replicas: 2,
  /** bytes of a shard's disk, and how much of it to use: a month is rewritten in place */
  diskBytes: 16e12,
  diskUse: 0.6,
  /** seconds of an outage of ClickHouse that the journals outlast */
  outageSeconds: 3600,
}
const MAX_LANES = 64
const DAY = 86_400

function modelOf(perDay, singles) {
  const mean = perDay / DAY
  const peak = mean * PLAN.peak
  const us = (part) => EVENT[part] * (1 - singles) + SINGLE[part] * singles
  const cores = (part) => (peak * us(part)) / 1e6 / PLAN.use
  const stored = perDay * PLAN.storedBytes * PLAN.days
  const shards = Math.ceil(stored / (PLAN.diskBytes * PLAN.diskUse))
  const byRate = Math.ceil(peak / PLAN.lanePerSecond)
  // A lane's Redis is one thread.
  const byRedis = Math.ceil(cores('redisUs'))
  const lanes = Math.max(byRate, byRedis, shards)
  const journal = mean * PLAN.outageSeconds * EVENT.bytes
  return {
    'events/s, mean and peak': `${count(mean)}, ${count(peak)}`,
    'cores of the service': count(cores('serviceUs'), 1),
    'cores of Redis, all lanes': count(cores('redisUs'), 1),
    'cores of ClickHouse for ingestion': count(cores('clickhouseUs'), 1),
    'lanes for the rate': count(Math.max(byRate, byRedis)),
    'stored in all, one copy': size(stored),
    'shards for the disk': count(shards),
    lanes: lanes > MAX_LANES ? `${lanes}: more than ${MAX_LANES}` : count(lanes),
    'ClickHouse servers': count(shards * PLAN.replicas),
    'memory for an hour’s outage, per lane': size((2 * journal) / lanes),
    'network at the peak, all links': `${count((peak * EVENT.bytes * 8 * (4 + (PLAN.replicas - 1))) / 1e9, 1)} Gbit/s`,
    'written by Redis at the peak, per lane': `${size((peak * EVENT.bytes) / lanes)}/s`,
  }
}

function count(value, digits = 0) {
  return value < 1
    ? value.toFixed(2)
    : value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? digits : 0 }).replaceAll(',', ' ')
}

function size(bytes) {
  const at = Math.floor(Math.log10(bytes) / 3)
  const value = bytes / 1000 ** at
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${['B', 'kB', 'MB', 'GB', 'TB', 'PB'][at]}`
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { singles: { type: 'string', default: '0' } },
})
const loads = (positionals.length > 0 ? positionals : ['1e9', '10e9', '100e9']).map(Number)
const singles = Number(values.singles)
if (![...loads, singles].every((value) => Number.isFinite(value) && value >= 0)) {
  throw new Error(
    'Specify the number of events a day, such as 5e9, and with --singles the share of single calls, such as 0.5.',
  )
}
const models = loads.map((perDay) => modelOf(perDay, singles))
const rows = [
  ['', ...loads.map((perDay) => `${count(perDay / 1e9)} billion a day`)],
  ['---', ...loads.map(() => '---:')],
  ...Object.keys(models[0]).map((name) => [name, ...models.map((model) => model[name])]),
]
const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)))
const pad = (cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))
const line = (row, y) =>
  `| ${row.map((cell, i) => (y === 1 ? (i === 0 ? '-'.repeat(widths[i]) : `${'-'.repeat(widths[i] - 1)}:`) : pad(cell, i))).join(' | ')} |`
console.log(rows.map(line).join('\n'))
