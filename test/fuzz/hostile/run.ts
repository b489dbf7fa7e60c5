import { fork } from 'node:child_process'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findMax, type Sample } from '../../../src/web/views/health/prometheus.js'
import type { Scope } from '../../helper.js'
import { ATTACKS, type Attack } from './attacks.js'
import { type Left, openSite, type Site, type Storage } from './site.js'
import { MEASURED, type Measured, median, p99, type Seen, Victim } from './victim.js'

/** The others may get slower by this factor, or up to this time, whichever is more. */
const TIMES = 3
const FAST_MS = 50
/** Time after which nothing may be left of an attack. */
const LEFT_MS = 60_000
const POLL_MS = 1_000
/** Memory that a busy process may keep, because its heap grows once. */
const KEPT = { service: 256 * 2 ** 20, engine: 512 * 2 ** 20, journal: 2 ** 20, states: 32 * 2 ** 20 }
const PROGRAM = fileURLToPath(new URL('attacker.ts', import.meta.url))

export interface HostileOptions {
  storages: readonly Storage[]
  /** how long each attack lasts, and the measurement before it */
  seconds: number
  /** names or rows of attacks; all if there are none */
  only: readonly string[]
}

interface Row {
  attack: Attack
  before: Seen
  during: Seen
  /** lag of the service's event loop, ms */
  lagMs: number
  /** CPU time of the service and of ClickHouse during the attack, s */
  cpu: { service: number; engine: number }
  load: number
  /** the attacker's responses, by status */
  statuses: Record<string, number>
  refusals: string[]
  /** calls that took too long */
  slowed: Measured[]
  /** other problems; empty if there are none */
  faults: string[]
}

/** Replays each attack next to a project that must not notice it. @returns whether none harmed it */
export async function runHostile(scope: Scope, { storages, seconds, only }: HostileOptions): Promise<boolean> {
  const unknown = only.find((wanted) => !ATTACKS.some(({ name, row }) => wanted === name || wanted === row))
  if (unknown !== undefined) {
    throw new Error(`no attack is called "${unknown}"; there are ${ATTACKS.map(({ name }) => name).join(', ')}`)
  }
  const attacks = ATTACKS.filter(({ name, row }) => only.length === 0 || only.includes(name) || only.includes(row))
  let isHarmless = true
  for (const storage of storages) {
    const site = await openSite(scope, storage)
    const victim = new Victim(site.url, site.victim)
    scope.teardown(() => victim.close())
    // The first calls of a service take longer.
    await victim.phase(3_000)
    console.log(`\n${storage}, each attack for ${seconds} s; median, p99 before → during, ms`)
    console.log(HEADING)
    for (const attack of attacks) {
      isHarmless = (await isSurvived(() => replay(scope, { site, victim, attack, seconds }))) && isHarmless
    }
    await victim.close()
  }
  return isHarmless
}

/**
 * Replays an attack, and repeats it if it slowed the victim: another program on the machine may have caused that, but
 * an attack slows the same calls each time.
 */
async function isSurvived(replayAttack: () => Promise<Row>): Promise<boolean> {
  const { slowed, faults } = await replayAttack().then(report)
  if (faults.length > 0) return false
  if (slowed.length === 0) return true
  const again = await replayAttack().then(report)
  return again.faults.length === 0 && !slowed.some((what) => again.slowed.includes(what))
}

function report(row: Row): Row {
  console.log(formatRow(row))
  return row
}

async function replay(
  scope: Scope,
  { site, victim, attack, seconds }: { site: Site; victim: Victim; attack: Attack; seconds: number },
): Promise<Row> {
  const attacker = await startAttacker(scope, site, attack)
  await untilNothingIsLeft(site, null)
  const leftBefore = await site.left()
  const refusedBefore = refusalsIn(await site.metrics())
  const before = await victim.phase(1000 * seconds)
  const cpuBefore = await site.cpu()
  attacker.child.send('start')
  const during = await victim.phase(1000 * seconds)
  const metrics = await site.metrics()
  const cpuAfter = await site.cpu()
  const statuses = await attacker.stop()
  const faults = [...listRefusals(during), ...(await untilNothingIsLeft(site, leftBefore))]
  const refusals = [...refusalsIn(metrics)].flatMap(([who, count]) => {
    const more = count - (refusedBefore.get(who) ?? 0)
    return more > 0 ? [`${who} ${more}`] : []
  })
  const lagMs = 1000 * (findMax(metrics, 'nodejs_eventloop_lag_max_seconds') ?? 0)
  const cpu = { service: cpuAfter.service - cpuBefore.service, engine: cpuAfter.engine - cpuBefore.engine }
  const slowed = findSlowed(before, during)
  return { attack, before, during, lagMs, cpu, load: loadavg()[0] ?? 0, statuses, refusals, slowed, faults }
}

async function startAttacker(scope: Scope, site: Site, { name }: Attack) {
  const given = JSON.stringify({ url: site.url, name, keys: site.attacker })
  const child = fork(PROGRAM, [given], { execArgv: ['--import=tsx'] })
  const ended = once(child, 'exit')
  scope.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const next = async () => {
    const [message] = await Promise.race([
      once(child, 'message'),
      ended.then(() => {
        throw new Error(`the attacker of ${name} ended early`)
      }),
    ])
    return message
  }
  await next()
  const stop = async (): Promise<Record<string, number>> => {
    child.send('stop')
    const { statuses } = await next()
    await ended
    return statuses
  }
  return { child, stop }
}

function findSlowed(before: Seen, during: Seen): Measured[] {
  return MEASURED.filter((what) => p99(during.times[what]) > Math.max(FAST_MS, TIMES * p99(before.times[what])))
}

function listRefusals({ refused }: Seen): string[] {
  return Object.entries(refused).map(([what, count]) => `refused: ${what}, ${count} times`)
}

/** @param before null: only queries and entries count. @returns what is still there after a minute */
async function untilNothingIsLeft(site: Site, before: Left | null): Promise<string[]> {
  const deadline = Date.now() + LEFT_MS
  for (;;) {
    const found = leftovers(await site.left(), before)
    if (found.length === 0 || Date.now() > deadline) return found
    await wait(POLL_MS)
  }
}

function leftovers(now: Left, before: Left | null): string[] {
  return [
    ...now.queries.map((query) => `left: a query, ${query}`),
    ...(now.mutations > 0 ? [`left: ${now.mutations} mutations`] : []),
    ...(['journal', 'states', 'service', 'engine'] as const).flatMap((what) => {
      const grown = before ? now[what] - before[what] : what === 'journal' ? now.journal : 0
      return grown > KEPT[what] ? [`left: ${Math.round(grown / 2 ** 20)} MiB more in ${what}`] : []
    }),
  ]
}

function refusalsIn(samples: readonly Sample[]): Map<string, number> {
  const refusals = samples.filter(({ name }) => name === 'tallyhouse_limit_refusals_total')
  return new Map(refusals.map(({ labels, value }) => [`${labels.limit} (${labels.project}, ${labels.kind})`, value]))
}

const WIDTHS = [28, 26, 26, 26, 7, 12, 6]
const HEADING = columns(
  ['attack', '/track', 'question', 'page', 'loop', 'CPU s', 'load'],
  'responses to the attacker; limits met; faults',
)

function formatRow({ attack, before, during, lagMs, cpu, load, statuses, refusals, slowed, faults }: Row): string {
  const pairs = MEASURED.map((what) => `${formatTimes(before.times[what])} → ${formatTimes(during.times[what])}`)
  const got = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`)
  const wrong = [...(slowed.length > 0 ? [`slow: ${slowed.join(', ')}`] : []), ...faults]
  const rest = [got.join(', '), refusals.join(', '), wrong.length > 0 ? `FAILED: ${wrong.join('; ')}` : 'good']
  return columns(
    [`${attack.row}: ${attack.name}`, ...pairs, ms(lagMs), `${ms(cpu.service)} + ${ms(cpu.engine)}`, load.toFixed(1)],
    rest.filter(Boolean).join('; '),
  )
}

function formatTimes(times: readonly number[]): string {
  return `${ms(median(times))}, ${ms(p99(times))}`
}

function columns(texts: string[], rest: string): string {
  return `${texts.map((text, i) => text.padEnd(WIDTHS[i] ?? 0)).join('')} ${rest}`
}

function ms(value: number): string {
  return value < 10 ? value.toFixed(1) : value.toFixed(0)
}
