import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { JOURNALS, journalFor } from '../delivery/servers.js'
import { type Scope, startService } from '../helper.js'
import { runHostile } from './hostile/run.js'
import { STORAGES } from './hostile/site.js'
import { checkAll, LIMIT, PROPERTIES, Target } from './properties.js'
import { VENDOR_PROPERTIES } from './vendor-properties.js'

const USAGE = `usage: npm run fuzz -- [--minutes N] [--seed S]
       npm run fuzz -- --hostile [--seconds N] [--storage NAME] [--only NAME]…

Sends free-form requests to a service over each journal, for N minutes in all (1), and ends with 1 and the shortest request
that it found where one is not answered as the contract has it, ends the process, or is not stored as it was sent.

With --hostile, one project attacks for N seconds (30) in each way that is known to have stopped others, while another one
tracks, asks and reads. It ends with 1 if the slowest 1 % of that one's calls of a kind take more than three times as long
and over 50 ms, twice in a row, if it is refused, or if anything is left a minute later. NAME is embedded or servers, or the name of an attack or its row; the figures need a machine that is idle.`

/** Properties take turns of this number of requests. */
const RUNS = 50

interface Round {
  journal: (typeof JOURNALS)[number]
  target: Target
  until: number
  seed: number
}

/** Checks properties in turns. @returns whether all hold */
async function holds({ journal, target, until, seed: firstSeed }: Round, properties: typeof PROPERTIES) {
  const runs: Record<string, number> = {}
  for (let seed = firstSeed; Date.now() < until; seed++) {
    for (const [name, property] of Object.entries(properties)) {
      const result = await fc.check(property(target), { ...LIMIT, seed, numRuns: RUNS })
      runs[name] = (runs[name] ?? 0) + result.numRuns
      if (!result.failed) continue
      console.error(
        `${journal}, seed ${seed}: it does not hold that ${name}\n${await fc.asyncDefaultReportMessage(result)}`,
      )
      // The report omits it.
      console.error(result.errorInstance)
      console.error(`The service said:\n${target.service.output()}`)
      return false
    }
  }
  for (const [name, count] of Object.entries(runs)) console.log(`${journal}: ${name}: ${count} times`)
  return true
}

async function fuzz(scope: Scope, journal: (typeof JOURNALS)[number], ms: number, seed: number): Promise<boolean> {
  const { settings } = await journalFor(scope, journal)
  const target = new Target(await startService(scope, { ...settings, LOG_LEVEL: 'error' }))
  scope.teardown(() => target.close())
  if (!(await holds({ journal, target, until: Date.now() + ms / 2, seed }, PROPERTIES))) return false
  await checkAll(target)
  console.log(`${journal}: ${target.accepted} events accepted, all there`)
  return await holds({ journal, target, until: Date.now() + ms / 2, seed }, VENDOR_PROPERTIES)
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    hostile: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '30' },
    storage: { type: 'string', multiple: true, default: [...STORAGES] },
    only: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', default: false },
  },
})
const minutes = Number(values.minutes)
const seed = Number(values.seed)
const seconds = Number(values.seconds)
const storages = STORAGES.filter((storage) => values.storage.includes(storage))
if (values.help || !(minutes > 0) || !Number.isInteger(seed) || !(seconds > 0) || storages.length === 0) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}
const closers: (() => unknown)[] = []
const scope: Scope = { teardown: (close) => closers.unshift(close) }
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    for (const close of closers) await close()
    process.exit(1)
  })
}
let isClean = true
try {
  if (values.hostile) isClean = await runHostile(scope, { storages, seconds, only: values.only })
  else {
    console.log(`seed ${seed}`)
    for (const journal of JOURNALS) {
      const ms = (minutes * 60_000) / JOURNALS.length
      isClean = (await fuzz(scope, journal, ms, seed)) && isClean
    }
  }
} finally {
  for (const close of closers) await close()
}
process.exitCode = isClean ? 0 : 1
