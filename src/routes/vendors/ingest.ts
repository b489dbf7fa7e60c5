import { ApiError } from '../../contract/errors.js'
import { EventFault, type EventParts, formatEvent } from '../../contract/event-text.js'
import { isName, MAX_BATCH } from '../../contract/limits.js'
import { DAILY_VISITOR_REASON, isDailyVisitor, isPlaceholder } from '../../contract/user-names.js'
import type { Appends } from '../../ingest/group-commit.js'
import type { BufferPool } from '../../lib/buffer-pool.js'
import { omitUndefined } from '../../lib/omit-undefined.js'
import { digestIds } from '../../model/identified-events.js'
import { toRejectionId } from '../../model/insert-id.js'
import { formatRejected } from '../../model/rejected.js'
import type { MessageSource } from '../../model/request-context.js'
import { makeRequestIds, type RequestIds } from '../../model/request-ids.js'
import type { Sender } from '../../model/sender.js'
import { formatEntry, type ParsedEvent } from '../../model/verbatim.js'
import { tooOldReason } from '../../projects/late-events.js'
import type { Toll } from '../../states/toll.js'
import { type Fault, type PeopleParts, PeoplePlan, type PersonMessage, takePeople } from '../../users/people.js'
import type { SdkEvent, SdkMessage } from '../../vendors/message.js'

export interface IngestParts extends PeopleParts {
  /** pool of the entries */
  buffers: BufferPool
  commits: Appends
}

export interface IngestOptions {
  /** whether a single fault prevents everything else from being stored */
  isAllOrNone?: boolean
  /** whether messages may delete profiles; if not, they are ignored */
  mayDelete?: boolean
  /** whether a message may merge two users; otherwise it only links them like a plain identify */
  mayMerge?: boolean
  /** counts the work that the request causes */
  toll?: Toll | null
}

/** The outcome of the messages of a request. */
export interface Ingested {
  /** durable messages, including those that were known before */
  taken: number
  /** messages that became dead letters */
  faults: Fault[]
  /**
   * Valid messages that are not allowed: they link two users, or change the profile of a placeholder name. They become
   * dead letters, too, but the SDK gets a success, because it would retry forever.
   */
  refused: Fault[]
}

/**
 * The decoded messages of a request, ready to be stored. The plan waits for the journal instead of the messages,
 * because thousands of small objects that survive a write cost the garbage collector more time than decoding them.
 */
export interface Plan {
  /** texts of events: each becomes an entry */
  batches: Batch[]
  /** messages that identify a user or change a profile, in the order of the request */
  people: PersonMessage[]
  faults: Fault[]
  refused: Fault[]
  /** number of ignored messages about a placeholder name */
  placeholders: { event: number; link: number; change: number }
  /** messages in the request */
  count: number
}

/** At most MAX_BATCH events. */
interface Batch {
  /** of one event, or of an entry with all of them */
  text: string
  count: number
  ids: RequestIds
}

const UNREADABLE = 'The event cannot be read.'

type Identity = Pick<ParsedEvent, 'distinct_id' | 'insert_id'>

export interface PlanOptions {
  /** the time since which the project's events are kept, epoch ms; absent: all are */
  since?: number | undefined
  /** returns the JSON of an event's context; default: events have none */
  findContext?(source: MessageSource): string | undefined
  /** returns the indexes of the ids that were sent before; default: none was */
  findKnown?(insertIds: Buffer): Promise<readonly number[]>
  /** called before each message; resolves when the request may continue; null: immediately */
  takeTurn(): Promise<void> | null
}

/** Sorts the messages of a request; events that cannot be stored become faults. */
export async function planMessages(
  sender: Sender,
  messages: readonly SdkMessage[],
  { since, findContext = () => undefined, findKnown = async () => [], takeTurn }: PlanOptions,
): Promise<Plan> {
  const people = new PeoplePlan(messages)
  const { placeholders } = people
  const faults: Fault[] = []
  const texts: string[] = []
  const identities: Identity[] = []
  const expired: Expired[] = []
  for (const message of messages) {
    const turn = takeTurn()
    if (turn) await turn
    if (message.type === 'fault') faults.push(message)
    else if (message.type === 'event') addEvent(message, { texts, identities, faults, expired, since, findContext })
    else people.add(message)
  }
  faults.push(...(await listNew(sender, expired, findKnown)))
  for (const { distinct_id } of identities) if (isPlaceholder(distinct_id)) placeholders.event++
  faults.push(...people.faults)
  const { messages: kept, refused } = people
  const plan: Plan = { batches: [], people: kept, faults, refused, placeholders, count: messages.length }
  for (let start = 0; start < texts.length; start += MAX_BATCH) {
    const some = texts.slice(start, start + MAX_BATCH)
    const digests = digestIds(sender.projectId, identities.slice(start, start + MAX_BATCH))
    const [only = ''] = some
    const text = some.length === 1 ? only : formatEntry(some)
    plan.batches.push({ text, count: some.length, ids: makeRequestIds(null, digests) })
  }
  return plan
}

/** An event that is past its project's retention. */
interface Expired {
  identity: Identity
  fault: Fault
}

/** The faults of expired events, except repetitions of events that were accepted before they expired. */
async function listNew(
  { projectId }: Sender,
  expired: readonly Expired[],
  findKnown: NonNullable<PlanOptions['findKnown']>,
): Promise<Fault[]> {
  const digests = digestIds(
    projectId,
    expired.map(({ identity }) => identity),
  )
  const known = new Set(digests ? await findKnown(digests) : [])
  return expired.filter((_, i) => !known.has(i)).map(({ fault }) => fault)
}

interface Sorted {
  texts: string[]
  identities: Identity[]
  faults: Fault[]
  expired: Expired[]
  since: number | undefined
  findContext(source: MessageSource): string | undefined
}

function addEvent(message: SdkEvent, { texts, identities, faults, expired, since, findContext }: Sorted): void {
  const { parts, insertId, source = {} } = message
  const { distinct_id, timestamp } = parts
  const insert_id = isName(insertId) ? insertId : null
  // The values are used only after `formatEvent` has validated them.
  const identity = { distinct_id: distinct_id as string, insert_id }
  try {
    // A spread would take a tenth of the time of the whole message.
    const { event, properties, session_id } = parts
    const context = findContext(source)
    const all = { event, distinct_id, timestamp, properties, insert_id, session_id, context }
    const text = formatEvent(all satisfies Record<keyof EventParts, unknown>)
    if (isDailyVisitor(distinct_id as string))
      throw new EventFault(`distinct_id ${DAILY_VISITOR_REASON}.`, 'distinct_id')
    if (since !== undefined && timestamp !== undefined && Number(timestamp) < since) {
      const fault = toFault(message, new EventFault(`timestamp ${tooOldReason(since)}`, 'timestamp'))
      expired.push({ identity, fault })
      return
    }
    texts.push(text)
    identities.push(identity)
  } catch (error) {
    // Any error is a fault of this message only, and does not affect the others.
    faults.push(toFault(message, error))
  }
}

function toFault(event: SdkEvent, error: unknown): Fault {
  const { index } = event as SdkMessage
  const fault = error instanceof EventFault ? error : null
  const { field, isMissing = false, message: reason = UNREADABLE } = fault ?? {}
  const { insertId } = event
  return {
    type: 'fault',
    text: formatFaultText(event),
    reason,
    isMissing,
    insertId,
    ...omitUndefined({ index, field }),
  }
}

/**
 * Makes everything in a request durable: events first, then what it says about people, for each person in the order of
 * the request. A message that cannot be stored becomes a dead letter with its reason.
 * @throws ApiError `overloaded`, `unavailable` or `rate_limited`: a part may be durable. A retry does not store it
 *   again if the messages have ids. `quota_exceeded`: events were refused, and nothing becomes a dead letter. What the
 *   request says about people is durable, except for changes without ids, which a retry would repeat
 */
export async function ingest(
  parts: IngestParts,
  sender: Sender,
  { batches, people, faults, refused, placeholders, count }: Plan,
  { isAllOrNone = false, ...may }: IngestOptions = {},
): Promise<Ingested> {
  // A message of a few bytes can become a fault of many bytes.
  for (const { text, reason } of faults) may.toll?.touch(text.length + reason.length)
  if (isAllOrNone && faults.length > 0) {
    await reject(parts, sender, faults)
    return { taken: 0, faults, refused: [] }
  }
  const { projectId, keyClass } = sender
  // An SDK may drop a request over the quota, and with it a link that it never sends again.
  const overQuota = await appendWithinQuota(parts, sender, batches)
  const { metrics } = parts.links
  for (const kind of ['event', 'link', 'change'] as const) metrics.placeholders[kind] += placeholders[kind]
  const repeatable = overQuota ? people.filter(isRepeatable) : people
  const taken = await takePeople(parts, projectId, repeatable, { ...may, keyClass })
  if (overQuota) throw overQuota
  faults.push(...taken.faults)
  await reject(parts, sender, faults)
  await reject(parts, sender, refused)
  await Promise.all(taken.refused.map((one) => rejectLink(parts, sender, one)))
  return { taken: count - faults.length, faults, refused: [...refused, ...taken.refused] }
}

/** Lists a refused link, but only once, because an SDK may repeat it on every page load. */
async function rejectLink({ commits, links }: IngestParts, sender: Sender, { reason, text }: Fault): Promise<void> {
  const { projectId } = sender
  const key = `${projectId}\0${text}`
  if (links.listed.get(key)) return
  const body = formatRejected([{ reason, message: text }])
  const ids = makeRequestIds(null, toRejectionId(projectId, body))
  await commits.append({ kind: 'rejected', ...sender, body, count: 1 }, ids)
  links.listed.set(key, true)
}

/** Whether a message takes effect once, however often its request is sent. */
function isRepeatable(message: PersonMessage): boolean {
  return message.type !== 'change' || message.insertId !== undefined
}

/** @returns the refusal if the project has reached its quota of events; the remaining batches are not appended */
async function appendWithinQuota(
  parts: IngestParts,
  sender: Sender,
  batches: readonly Batch[],
): Promise<ApiError | null> {
  try {
    for (const batch of batches) await append(parts, sender, batch)
    return null
  } catch (error) {
    if (error instanceof ApiError && error.code === 'quota_exceeded') return error
    throw error
  }
}

/** A single event shares its entry with other events that arrive at the same time, like those of `/track`. */
async function append({ buffers, commits }: IngestParts, sender: Sender, { text, count, ids }: Batch): Promise<void> {
  const isOne = count === 1
  const body = isOne ? Buffer.from(text) : buffers.encode(text)
  await commits.append({ kind: isOne ? 'event' : 'batch', ...sender, body, count }, ids)
}

/** Stores invalid messages durably; for a retried request only once, if every invalid message has an id. */
async function reject({ commits }: IngestParts, sender: Sender, faults: Fault[]): Promise<void> {
  if (faults.length === 0) return
  const body = formatRejected(faults.map(({ reason, text }) => ({ reason, message: text })))
  const areKnown = faults.every(({ insertId }) => insertId !== undefined)
  const ids = makeRequestIds(null, areKnown ? toRejectionId(sender.projectId, body) : null)
  await commits.append({ kind: 'rejected', ...sender, body, count: 1 }, ids)
}

function formatFaultText({ parts: { event, distinct_id, properties = '{}' } }: SdkEvent): string {
  return `{"event":${JSON.stringify(event ?? null)},"distinct_id":${JSON.stringify(distinct_id ?? null)},"properties":${properties}}`
}
