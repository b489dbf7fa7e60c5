import { ApiError } from '../../contract/errors.js'
import { EventFault, formatEvent } from '../../contract/event-text.js'
import { isName, MAX_BATCH } from '../../contract/limits.js'
import { given } from '../../lib/given.js'
import { inTurns } from '../../lib/in-turns.js'
import { insertIdsOfParsed } from '../../model/identified-events.js'
import { rejectionId } from '../../model/insert-id.js'
import { applyOperations, identify, type Profile } from '../../model/profile.js'
import { parseOperations } from '../../model/profile-operations.js'
import { formatRejected } from '../../model/rejected.js'
import type { ParsedEvent } from '../../model/verbatim.js'
import { type DeleteParts, deleteProfile } from '../../pipeline/delete-profile.js'
import type { Appends } from '../../pipeline/lane-router.js'
import type { SdkEvent, SdkMessage } from '../../vendors/message.js'

export interface IngestParts extends DeleteParts {
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
type Change = Extract<SdkMessage, { type: 'change' }>

/**
 * Makes everything in a request durable: events first, then aliases, then changes of profiles in their order. What cannot
 * be stored becomes a dead letter, with its reason.
 * @throws ApiError `overloaded` or `unavailable`: a part may be durable, which a repetition does not store again, if the
 *   messages have ids
 */
export async function ingest(
  parts: IngestParts,
  projectId: string,
  messages: SdkMessage[],
  { isAllOrNone = false, mayDelete = false }: IngestOptions = {},
): Promise<Ingested> {
  const faults = messages.filter((message) => message.type === 'fault')
  const events: Identified[] = []
  for (const message of messages) {
    if (message.type !== 'event') continue
    try {
      events.push(identified(message))
    } catch (error) {
      if (!(error instanceof EventFault)) throw error
      const { insertId, index } = message
      const { field, isMissing, message: reason } = error
      faults.push({ type: 'fault', text: textOf(message), reason, field, isMissing, insertId, ...given({ index }) })
    }
  }
  if (isAllOrNone && faults.length > 0) {
    await reject(parts, projectId, faults)
    return { taken: 0, faults }
  }
  for (let start = 0; start < events.length; start += MAX_BATCH) {
    await append(parts, projectId, events.slice(start, start + MAX_BATCH))
  }
  // Before the changes: one that comes under the alias is one of its user.
  await addAliases(parts, projectId, messages)
  faults.push(...(await changeProfiles(parts, projectId, messages, mayDelete)))
  await reject(parts, projectId, faults)
  return { taken: messages.length - faults.length, faults }
}

interface Identified {
  text: string
  identity: Pick<ParsedEvent, 'distinct_id' | 'insert_id'>
}

/** @throws EventFault if it is no event */
function identified({ parts, insertId }: SdkEvent): Identified {
  const insert_id = isName(insertId) ? insertId : null
  const text = formatEvent({ ...parts, insert_id })
  // Checked as it was formatted.
  return { text, identity: { distinct_id: String(parts.distinct_id), insert_id } }
}

/** An event that comes alone shares its entry with others of the moment, as one of `/track` does. */
async function append({ commits }: IngestParts, projectId: string, events: Identified[]): Promise<void> {
  const texts = events.map(({ text }) => text).join(',')
  const identities = events.map(({ identity }) => identity)
  const insertIds = insertIdsOfParsed(projectId, identities)
  if (events.length === 1) await commits.appendEvent(projectId, Buffer.from(texts), insertIds?.digests)
  else await commits.appendBatch(projectId, Buffer.from(`{"events":[${texts}]}`), events.length, { insertIds })
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
async function addAliases({ aliases }: IngestParts, projectId: string, messages: SdkMessage[]): Promise<void> {
  const usersOf = new Map<string, Set<string>>()
  for (const message of messages) {
    if (message.type !== 'alias') continue
    const { distinctId, alias } = message
    const areNames = [distinctId, alias].every((name) => isName(name) && name !== NOBODY)
    if (!areNames || distinctId === alias) continue
    const users = usersOf.get(alias)
    if (users) users.add(distinctId)
    else usersOf.set(alias, new Set([distinctId]))
  }
  await inTurns([...usersOf], async ([alias, users]) => {
    for (const user of users) await aliases.offer(projectId, user, alias)
  })
}

const NO_NAME = 'distinct_id must be a string of 1 to 255 characters.'

/** @returns the faults of the changes that name nobody, or that their profiles refuse */
async function changeProfiles(
  parts: IngestParts,
  projectId: string,
  messages: SdkMessage[],
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
