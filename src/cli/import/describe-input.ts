import { ANONYMOUS } from '../../contract/user-names.js'
import type { Vendor } from '../../vendors/vendor.js'
import { VENDORS } from '../../vendors/vendors.js'
import { replaceControls } from '../columns.js'
import { counted, number } from '../progress.js'
import type { CellTypeName } from './cell-types.js'
import type { Inspected } from './inspect.js'
import type { InputOptions } from './options.js'
import { TIME_NAMES } from './row-times.js'

const SHOWN_FAULTS = 3
const SHOWN_FIELDS = 20
const SHOWN_NAME = 60
const FORMAT_NAMES = { ndjson: 'NDJSON', json: 'a JSON array', csv: 'CSV' }
const PLURALS: Record<CellTypeName, string> = { number: 'numbers', boolean: 'booleans', date: 'dates', text: 'text' }

/** Describes what was guessed about an input, and what is left out, one sentence each. */
export function describeInput(inspected: Inspected, options: InputOptions): string[] {
  const { guesses, hasTimes, columns, events } = inspected
  const { names, zone, from } = options
  if (from && events.length === 0) return []
  if (from) return from === 'mixpanel' ? [describeMixpanelTimes(zone)] : describeMissing(inspected, VENDORS[from])
  const sentences: string[] = []
  const time = options.time ?? guesses.time
  if (time && hasTimes && (columns || time !== 'ms')) {
    const zoned = time === 'iso' ? `, in ${zone ?? 'UTC'} unless they name a zone` : ''
    sentences.push(`Times (${names.timestamp}): ${TIME_NAMES[time]}${zoned}.`)
  }
  if (!hasTimes && events.length > 0) {
    const isMissing = columns !== null && !columns.includes(names.timestamp)
    const none = isMissing ? `is no column "${names.timestamp}"` : `are no times in "${names.timestamp}"`
    sentences.push(
      `There ${none}, so the events get their time of arrival. Use --map timestamp=${columns ? 'COLUMN' : 'FIELD'} to name one.`,
    )
  }
  sentences.push(...describeLeftOut(inspected, options))
  if (!columns || columns.includes(names.properties)) return sentences
  const typed = guesses.types.map(([column, { name, isGiven }]) => ({ column, name, isGiven }))
  const kinds = (['number', 'boolean', 'date'] as const).flatMap((kind) => {
    const found = typed.filter(({ name }) => name === kind).map(({ column }) => column)
    return found.length === 0 ? [] : [`${found.join(', ')} ${found.length === 1 ? 'is' : 'are'} ${PLURALS[kind]}`]
  })
  sentences.push(
    kinds.length === 0
      ? 'All columns are text.'
      : `Columns: ${kinds.join('; ')}; all others are text. --types changes that.`,
  )
  return sentences
}

function describeLeftOut({ columns, leftOut }: Inspected, { names }: InputOptions): string[] {
  if (leftOut.length === 0) return []
  const shown = leftOut.slice(0, SHOWN_FIELDS).map((name) => name.slice(0, SHOWN_NAME))
  const more = leftOut.length > shown.length ? ` and ${number(leftOut.length - shown.length)} more` : ''
  const kind = columns ? 'column' : 'field'
  return [`Left out, because the ${kind} "${names.properties}" has the properties: ${shown.join(', ')}${more}.`]
}

/** Warns of an export of web analytics whose first rows have no visits or no visitors, because a field is missing. */
function describeMissing({ hasSession, hasVisitor }: Inspected, { optionalFields: fields }: Vendor): string[] {
  const sentences: string[] = []
  if (fields?.distinct_id && !hasVisitor) {
    sentences.push(`No event has a visitor: there is no ${fields.distinct_id}. All events count for ${ANONYMOUS}.`)
  }
  if (fields?.session_id && !hasSession) {
    sentences.push(
      `No event has a session_id: there is no ${fields.session_id}. Visits by id will be missing; to count them by gap, set "sessions" of the project or of a question to a gap, such as 30m.`,
    )
  }
  return sentences
}

/**
 * Mixpanel's export does not say in which zone its times are.
 * @param zone the given one
 */
function describeMixpanelTimes(zone: string | undefined): string {
  if (zone !== undefined) return `Times (time): in ${zone}.`
  return 'Times (time): in UTC. A Mixpanel project from before 2023 exports them in its own time zone; for such a project, set that zone with --time-zone.'
}

/** Describes the events that the beginning of an input becomes, for `--dry-run`. */
export function describeDryRun(name: string, inspected: Inspected, options: InputOptions): string {
  const { format, columns, events, faults, skipped, profiles, rows, isWhole } = inspected
  const has = columns ? ` with ${counted(columns.length, 'column')}: ${columns.join(', ')}` : ''
  const lines = [`${name} is ${FORMAT_NAMES[format]}${has}.`, ...describeInput(inspected, options)]
  const others = [
    `${number(faults.length)} would be rejected`,
    ...(skipped > 0 ? [`${number(skipped)} would be skipped ${becauseNoEvent(skipped)}`] : []),
    ...(profiles > 0 ? [`${counted(profiles, 'profile change')} would be made`] : []),
  ]
  const first = rows === 1 ? 'first row' : `first ${number(rows)} rows`
  lines.push(`Of the ${isWhole ? counted(rows, 'row') : first}, ${others.join(', ')}.`)
  for (const { line, reason } of faults.slice(0, SHOWN_FAULTS)) lines.push(`  line ${line}: ${reason}`)
  if (events.length > 0) {
    lines.push(events.length === 1 ? 'The first event, as stored:' : `The first ${events.length} events, as stored:`)
    lines.push(...events)
  }
  return `${lines.map((line) => replaceControls(line)).join('\n')}\n`
}

/** The reason why rows are skipped. @param rows how many */
export function becauseNoEvent(rows: number): string {
  return rows === 1 ? 'because it is not an event' : 'because they are not events'
}

/** Warns about cells that do not have the guessed type. */
export function describeMisfits(misfits: Record<string, number>, types: Inspected['guesses']['types']): string[] {
  const kinds = new Map(types)
  return Object.entries(misfits).map(([column, count]) => {
    const kind = PLURALS[kinds.get(column)?.name ?? 'text']
    return `${counted(count, 'cell')} of ${column} ${count === 1 ? 'is' : 'are'} not ${kind} and ${count === 1 ? 'stays' : 'stay'} text.`
  })
}
