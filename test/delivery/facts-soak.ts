import { parseArgs } from 'node:util'
import type { Scope } from '../helper.js'
import { troubleFacts } from './facts-chaos.js'

const USAGE = `usage: npm run soak:facts -- [--minutes N | --seconds N] [--shards N]

Changes events and asks about them while services and ClickHouse are killed at random, and compares each answer with that
of a service without facts. Exits with 1 if one is different, or if facts are not what the events lead to in the end.`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    seconds: { type: 'string' },
    shards: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds ?? Number(values.minutes) * 60)
const shards = Number(values.shards)
if (values.help || !(seconds > 0) || !(shards >= 1)) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

const closers: (() => unknown)[] = []
const scope: Scope = { teardown: (close) => closers.unshift(close) }
try {
  const { wrong, ...counts } = await troubleFacts(scope, { seconds, shards })
  console.log(JSON.stringify(counts))
  for (const one of wrong) console.log(one)
  process.exitCode = wrong.length > 0 || counts.differences > 0 ? 1 : 0
} finally {
  for (const close of closers) await close()
}
