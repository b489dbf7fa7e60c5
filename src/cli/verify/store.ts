import type { Shard, Shards } from '../../clickhouse/shards.js'
import type { Config } from '../../config.js'
import { countAnew, describeLedger, readLedger } from '../../damage/ledger.js'
import { lookForLost } from '../../damage/look-for-lost.js'
import { describeLoss, formatMonth } from '../../damage/loss.js'
import { noteParts } from '../../damage/note-parts.js'
import { sumRows, toPartKey } from '../../damage/part-map.js'
import type { Tally } from '../../journal/journal.js'
import { describeLayout } from '../../lanes/layout.js'
import { lanePlace, openRelocation } from '../../lanes/open-journal.js'
import { failureText } from '../../lib/failure-text.js'
import { openTerminalLog } from '../../lib/log.js'
import { using } from '../../lib/using.js'
import { checkPart, listPartsToCheck } from '../../store/check-parts.js'
import { checkFactsAgain } from '../../store/fact-check.js'
import { readLayouts } from '../../store/layouts.js'
import { openStore } from '../../store/open.js'
import { type KnownPart, type LostPart, noteLostParts } from '../../store/part-notes.js'
import { countByProject, isPatch, type Part } from '../../store/parts.js'
import type { CommandIo } from '../command.js'
import { counted } from '../progress.js'

interface Options {
  isQuick: boolean
  isAccepting: boolean
}

/** The findings of a check: lines about what exists, and a sentence for each problem. */
interface Report {
  say(text: string): void
  fault(text: string): void
}

const MANUAL = '"Lost and damaged data" in docs/damage.md'

/** @returns the exit code: 0 if nothing is wrong */
export async function verifyStore(config: Config, options: Options, io: CommandIo): Promise<number> {
  let faults = 0
  const report: Report = {
    say: (text) => void io.stdout.write(`${text}\n`),
    fault: (text) => {
      faults++
      io.stdout.write(`WRONG: ${text}\n`)
    },
  }
  const tallies = await checkJournals(config, report, io)
  await using(openStore(config), async (store) => {
    io.stderr.write(`Store: ${store.place}\n`)
    for (const shard of store.shards.all) {
      const where = store.shards.areSeveral ? ` of shard ${shard.number} (${shard.name})` : ''
      await checkShard(shard, where, options, report, io)
    }
    await checkLedger(store.shards, tallies, options, report)
  })
  report.say(faults === 0 ? 'No problems found.' : `${counted(faults, 'problem')} found.`)
  return faults === 0 ? 0 : 1
}

/** @returns their tallies; null if a journal cannot be read */
async function checkJournals(config: Config, report: Report, io: CommandIo): Promise<Tally[] | null> {
  const tallies: Tally[] = []
  const log = await openTerminalLog('silent', io.stderr)
  for (let lane = 0; lane < config.LANES; lane++) {
    const name = config.LANES > 1 ? `The journal of lane ${lane}` : 'The journal'
    try {
      await using(openRelocation(config, lane, log), async (journal) => {
        const look = await journal.readStatus()
        if (look) report.say(`${name} can be read; ${look.depth.entries} entries wait to be stored.`)
        const tally = await journal.tally()
        if (tally) tallies.push(tally)
        if (!look) report.fault(`${name} is missing (${lanePlace(config, lane)}). Check REDIS_URL or DATA_DIR.`)
      })
    } catch (error) {
      report.fault(`${name}: ${failureText(error)}`)
    }
  }
  return tallies.length === config.LANES ? tallies : null
}

async function checkShard(
  shard: Shard,
  where: string,
  { isQuick, isAccepting }: Options,
  report: Report,
  io: CommandIo,
): Promise<void> {
  const { clickhouse } = shard
  const { list, known, lagging, lost } = await lookForLost(clickhouse)
  if (isAccepting) {
    await noteLostParts(
      clickhouse,
      lost.map((part) => ({ ...part, isSettled: true })),
      list.at,
    )
    for (const part of lost) report.say(`Accepted: ${describe(part, shard)}`)
    // Events may have been inserted again from a backup, and edits made again.
    await checkFactsAgain(clickhouse, {
      areEdits: lost.some((part) => part.table === 'events' && isPatch(part)),
    })
  } else {
    for (const part of lost) report.fault(`${describe(part, shard)} See ${MANUAL}.`)
  }
  report.say(`Parts${where}: ${list.active.length} in use, ${isAccepting ? 0 : lost.length} lost.`)
  await noteParts(clickhouse, list, known, lagging)
  await compareCounts(shard, where, known, report)
  reportNew(list.active, known, where, report)
  if (!isQuick) await checkFiles(shard, where, report, io)
}

function describe(part: LostPart, { number: shard }: Shard): string {
  return describeLoss({ ...part, shard })
}

/** Compares what was received with what was stored, deleted or rejected. */
async function checkLedger(
  shards: Shards,
  tallies: readonly Tally[] | null,
  { isAccepting }: Options,
  report: Report,
): Promise<void> {
  if (!tallies) return report.say('Ledger: unknown, because not all journals can be read.')
  try {
    const { active } = await readLayouts(shards.first)
    const given = { lanes: tallies.length, shards: shards.all.length }
    if (active && (active.lanes !== given.lanes || active.shards !== given.shards)) {
      return report.fault(
        `The ledger was not compared: the store has ${describeLayout(active)}, but the settings have ${describeLayout(given)} (LANES, REDIS_URL, CLICKHOUSE_URL). Run this with the settings of the service.`,
      )
    }
    const layout = active?.version ?? 1
    const found = await readLedger(shards, tallies, layout)
    const anew = isAccepting ? await countAnew(shards, layout, found, Date.now()) : []
    for (const ledger of found) {
      const line = `Ledger: ${describeLedger(ledger)}`
      if (anew.includes(ledger)) report.say(`Accepted: ${line}`)
      else if (ledger.missing > 0) report.fault(`${line} See ${MANUAL}.`)
      else report.say(line)
    }
  } catch (error) {
    report.fault(`The ledger cannot be read: ${failureText(error)}`)
  }
}

/** Compares the recorded row counts of each part with its actual rows. */
async function compareCounts({ clickhouse }: Shard, where: string, known: KnownPart[], report: Report): Promise<void> {
  const inUse = new Set((await listPartsToCheck(clickhouse)).map(({ table, name }) => `${table}/${name}`))
  const used = known.filter((part) => inUse.has(`${part.table}/${part.name}`))
  // For a part with many projects, not all of them were recorded.
  const isWhole = ({ projects, rows }: KnownPart) => Object.values(projects).reduce((sum, n) => sum + n, 0) === rows
  const noted = used.filter(isWhole)
  reportPartial(
    used.filter((part) => !isWhole(part)),
    where,
    report,
  )
  const months = new Map<string, { noted: number; found: number }>()
  const counts = await countByProject(clickhouse, noted).catch((error: unknown) => {
    report.fault(`The rows${where} cannot be counted: ${failureText(error)}`)
    return null
  })
  if (!counts) return
  for (const part of noted) {
    const found = counts.get(part) ?? {}
    for (const project of new Set([...Object.keys(part.projects), ...Object.keys(found)])) {
      const place = part.table === 'events' ? `events of ${formatMonth(part.partition)}` : part.table
      const key = `${project}: ${place}`
      const sum = months.get(key) ?? { noted: 0, found: 0 }
      sum.noted += part.projects[project] ?? 0
      sum.found += found[project] ?? 0
      months.set(key, sum)
    }
  }
  for (const [key, { noted, found }] of [...months].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (noted === found) report.say(`Counts${where}: ${key}: ${found}, as recorded.`)
    else report.fault(`Counts${where}: ${key}: found ${found}, but ${noted} were recorded. See ${MANUAL}.`)
  }
}

/** Reports the events of parts whose projects were not all recorded, because they are too many or could not be read. */
function reportPartial(parts: readonly Part[], where: string, report: Report): void {
  const partial = parts.filter((part) => part.table === 'events' && !isPatch(part))
  if (partial.length === 0) return
  const what = `${counted(sumRows(partial), 'event')} in ${counted(partial.length, 'part')}`
  report.say(`Counts${where}: not compared: ${what}, because the rows of some of their projects were not recorded.`)
}

/** Reports events that could not be compared, because their parts were not recorded before this run. */
function reportNew(active: readonly Part[], known: readonly KnownPart[], where: string, report: Report): void {
  const before = new Set(known.map(toPartKey))
  const parts = active.filter((part) => part.table === 'events' && !isPatch(part) && !before.has(toPartKey(part)))
  const events = sumRows(parts)
  if (events === 0) return
  const what = `${counted(events, 'event')} in ${counted(parts.length, 'new part')}`
  report.say(`Counts${where}: not compared: ${what}, recorded just now. The next run compares them.`)
}

async function checkFiles({ clickhouse }: Shard, where: string, report: Report, io: CommandIo): Promise<void> {
  const parts = await listPartsToCheck(clickhouse)
  let [damaged, bytes] = [0, 0]
  for (const { table, partition, name, bytes: size } of parts) {
    io.signal.throwIfAborted()
    const fault = await checkPart(clickhouse, { table, name }, io.signal)
    bytes += size
    if (io.stderr.isTTY) io.stderr.write(`\r\x1b[KChecking the files${where}: ${Math.round(bytes / 1e6)} MB`)
    if (fault === null) continue
    damaged++
    const month = table === 'events' ? `, with events of ${formatMonth(partition)}` : ''
    report.fault(`The part ${name} of ${table}${where} is damaged${month}: ${fault.split('\n')[0]} See ${MANUAL}.`)
  }
  if (io.stderr.isTTY) io.stderr.write('\r\x1b[K')
  report.say(`Checksums${where}: ${parts.length} parts, ${damaged} damaged.`)
}
