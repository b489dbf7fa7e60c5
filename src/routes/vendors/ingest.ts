import { ApiError } from '../../contract/errors.js'
import { EventFault, formatEvent } from '../../contract/event-text.js'
import { isName, MAX_BATCH } from '../../contract/limits.js'
import type { BufferPool } from '../../lib/buffer-pool.js'
import { given } from '../../lib/given.js'
import { inTurns } from '../../lib/in-turns.js'
import { type InsertIds, insertIdsOfParsed } from '../../model/identified-events.js'
import { rejectionId } from '../../model/insert-id.js'
import { applyOperations, identify, type Profile } from '../../model/profile.js'
import { parseOperations } from '../../model/profile-operations.js'
import { formatRejected } from '../../model/rejected.js'
import type { ParsedEvent } from '../../model/verbatim.js'
import { type DeleteParts, deleteProfile } from '../../pipeline/delete-profile.js'
import type { Appends } from '../../pipeline/lane-router.js'
import type { SdkEvent, SdkMessage } from '../../vendors/message.js'

export interface IngestParts extends DeleteParts {
  /** for the entries */
  buffers: BufferPool
  commits: Appends
}

export interface IngestOptions {
  /** whether nothing but the faults is kept if there are any */
  isAllOrNone?: boolean
  /** whether a message may delete a profile; otherwise such a message does nothing */
  mayDelete?: boolean
}

/** What became of the messages of a request. */
export interface Ingested {
  /** messages that are durable, those that were known before included */
  taken: number
  /** messages that became dead letters */
  faults: Fault[]
}

type Fault = Extract<SdkMessage, { type: 'fault' }>
type Alias = Extract<SdkMessage, { type: 'alias' }>
type Change = Extract<SdkMessage, { type: 'change' }>
type Delete = Extract<SdkMessage, { type: 'delete' }>

/**
 * What is to become of the messages of a request. It waits for the journal instead of them: thousands of small objects that
 * live through a write cost the garbage collection more time than the decoding takes.
 */
export interface Plan {
  /** of events: each is an entry */
  batches: Batch[]
  aliases: Alias[]
  /** in their order */
  changes: (Change | Delete)[]
  faults: Fault[]
  /** messages in the request */
  count: number
}

/** At most MAX_BATCH events, joined by commas. */
interface Batch {
  text: string
  count: number
  insertIds: InsertIds | null
}

type Identity = Pick<ParsedEvent, 'distinct_id' | 'insert_id'>

/** Sorts the messages of a request; events that cannot be stored become faults. */
export function planOf(projectId: string, messages: readonly SdkMessage[]): Plan {
  const plan: Plan = { batches: [], aliases: [], changes: [], faults: [], count: messages.length }
  const texts: string[] = []
  const identities: Identity[] = []
  for (const message of messages) {
    if (message.type === 'fault') plan.faults.push(message)
    else if (message.type === 'alias') plan.aliases.push(message)
    else if (message.type === 'event') addEvent(message, texts, identities, plan.faults)
    else plan.changes.push(message)
  }
  for (let start = 0; start < texts.length; start += MAX_BATCH) {
    const some = texts.slice(start, start + MAX_BATCH)
    const insertIds = insertIdsOfParsed(projectId, identities.slice(start, start + MAX_BATCH))
    plan.batches.push({ text: some.join(','), count: some.length, insertIds })
  }
  return plan
}

function addEvent(message: SdkEvent, texts: string[], identities: Identity[], faults: Fault[]): void {
  const { parts, insertId } = message
  const { event, distinct_id, timestamp, properties } = parts
  const insert_id = isName(insertId) ? insertId : null
  try {
    texts.push(formatEvent({ event, distinct_id, timestamp, properties, insert_id }))
    // Checked as it was formatted.
    identities.push({ distinct_id: distinct_id as string, insert_id })
  } catch (error) {
    if (!(error instanceof EventFault)) throw error
    const { index } = message as SdkMessage
    const { field, isMissing, message: reason } = error
    faults.push({ type: 'fault', text: textOf(message), reason, field, isMissing, insertId, ...given({ index }) })
  }
}

/**
 * Makes everything in a request durable: events first, then aliases, then changes of profiles in their order. What cannot
 * be stored becomes a dead letter, with its reason.
 * @throws ApiError `overloaded` or `unavailable`: a part may be durable, which a repetition does not store again, if the
 *   messages have ids
 */
export async function ingest(
  parts: IngestParts,
  projectId: string,
  { batches, aliases, changes, faults, count }: Plan,
  { isAllOrNone = false, mayDelete = false }: IngestOptions = {},
): Promise<Ingested> {
  if (isAllOrNone && faults.length > 0) {
    await reject(parts, projectId, faults)
    return { taken: 0, faults }
  }
  for (const batch of batches) await append(parts, projectId, batch)
  // Before the changes: one that comes under the alias is one of its user.
  await addAliases(parts, projectId, aliases)
  faults.push(...(await changeProfiles(parts, projectId, changes, mayDelete)))
  await reject(parts, projectId, faults)
  return { taken: count - faults.length, faults }
}

/** An event that comes alone shares its entry with others of the moment, as one of `/track` does. */
async function append(parts: IngestParts, projectId: string, { text, count, insertIds }: Batch): Promise<void> {
  const { buffers, commits } = parts
  if (count === 1) await commits.appendEvent(projectId, Buffer.from(text), insertIds?.digests)
  else await commits.appendBatch(projectId, buffers.encode(`{"events":[${text}]}`), count, { insertIds })
}

/** Makes what cannot be stored durable; of a request that comes again, only once if every message at fault has an id. */
async function reject({ commits }: IngestParts, projectId: string, faults: Fault[]): Promise<void> {
  if (faults.length === 0) return
  const body = formatRejected(faults.map(({ reason, text }) => ({ reason, message: text })))
  const areKnown = faults.every(({ insertId }) => insertId !== undefined)
  await commits.appendRejected(projectId, body, areKnown ? rejectionId(projectId, body) : null)
}

/** What says nothing about who somebody is: what SDKs send without any id has it, too. */
const NOBODY = '$anonymous'

/** One that conflicts stays with the user that it names: the first, also within a request. */
async function addAliases({ aliases }: IngestParts, projectId: string, messages: Alias[]): Promise<void> {
  const usersOf = new Map<string, Set<string>>()
  for (const { distinctId, alias } of messages) {
    const areNames = [distinctId, alias].every((name) => isName(name) && name !== NOBODY)
    if (!areNames || distinctId === alias) continue
    const users = usersOf.get(alias)
    if (users) users.add(distinctId)
    else usersOf.set(alias, new Set([distinctId]))
  }
  await inTurns([...usersOf], async ([alias, users]) => {
    for (const user of users) await aliases.addOrLog(projectId, user, alias)
  })
}

const NO_NAME = 'distinct_id must be a string of 1 to 255 characters.'

/** @returns the faults of the changes that name nobody, or that their profiles refuse */
async function changeProfiles(
  parts: IngestParts,
  projectId: string,
  messages: (Change | Delete)[],
  mayDelete: boolean,
): Promise<Fault[]> {
  const faults: (Fault | null)[] = []
  let waiting: Change[] = []
  const counts = new Map<string, number>()
  const flush = async () => {
    // All at first, so that the changes of one user keep their order, whichever of its names they came under.
    const users = await Promise.all(waiting.map(({ distinctId }) => parts.aliases.resolve(projectId, distinctId)))
    const changes = waiting.map((change, i) => apply(parts, projectId, change, users[i] ?? change.distinctId))
    faults.push(...(await Promise.all(changes)))
    waiting = []
  }
  for (const message of messages) {
    if (message.type === 'change') {
      if (isName(message.distinctId)) waiting.push(withOwnId(message, counts))
      else faults.push(faultOf(message, NO_NAME))
    }
    if (message.type !== 'delete' || !mayDelete || !isName(message.distinctId)) continue
    await flush()
    await deleteProfile(parts, projectId, message.distinctId)
  }
  await flush()
  return faults.filter((fault) => fault !== null)
}

/** A message may be several changes of one profile, whose ids have to differ. */
function withOwnId(change: Change, counts: Map<string, number>): Change {
  const { insertId, distinctId, index = 0 } = change
  if (insertId === undefined) return change
  const key = JSON.stringify([index, distinctId, insertId])
  const before = counts.get(key) ?? 0
  counts.set(key, before + 1)
  return before === 0 ? change : { ...change, insertId: `${before}:${insertId}` }
}

/** Changes of one profile hold in the order of their calls. @returns the fault of a change that the profile refuses */
async function apply(
  { profiles }: IngestParts,
  projectId: string,
  change: Change,
  user: string,
): Promise<Fault | null> {
  const { operations: texts, clears = false } = change
  try {
    const operations = texts.flatMap(parseOperations)
    const revise = (profile: Profile | null) => {
      const now = Date.now()
      const before = clears ? identify(profile, new Map(), now) : profile
      return operations.length > 0 ? applyOperations(before, operations, now) : identify(before, null, now)
    }
    await profiles.change(projectId, user, revise, { insertId: change.insertId })
    return null
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error
    return faultOf(change, error.message)
  }
}

function faultOf({ distinctId, operations, insertId, index }: Change, reason: string): Fault {
  const text = `{"distinct_id":${JSON.stringify(distinctId)},"operations":[${operations.join(',')}]}`
  return { type: 'fault', text, reason, insertId, ...given({ index }) }
}

function textOf({ parts: { event, distinct_id, properties = '{}' } }: SdkEvent): string {
  return `{"event":${JSON.stringify(event ?? null)},"distinct_id":${JSON.stringify(distinct_id ?? null)},"properties":${properties}}`
}
