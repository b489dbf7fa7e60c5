import { ApiError } from '../contract/errors.js'
import type { KeyClass } from '../contract/key-class.js'
import { describeNameFault, isName } from '../contract/limits.js'
import { isPlaceholder, isReserved } from '../contract/user-names.js'
import { forEachInBatches } from '../lib/for-each-in-batches.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { applyOperations, clearProperties, ensureProfile, identify, type Profile } from '../model/profile.js'
import { type Operation, parseOperations } from '../model/profile-operations.js'
import { type Toll, withUserToll } from '../states/toll.js'
import type { SdkMessage } from '../vendors/message.js'
import { type AliasLinks, type FoundUser, REFUSALS } from './aliases/alias-links.js'
import { type DeleteParts, deleteProfile } from './delete-profile.js'

export interface PeopleParts extends DeleteParts {
  links: AliasLinks
}

export type Fault = Extract<SdkMessage, { type: 'fault' }>
type Alias = Extract<SdkMessage, { type: 'alias' }>
type Change = Extract<SdkMessage, { type: 'change' }>
type Delete = Extract<SdkMessage, { type: 'delete' }>

/** A message that identifies a user, or changes a profile. */
export type PersonMessage = Alias | Change | Delete

/** The rights of a request's messages, which depend on its key, and how they are applied. */
export interface PeopleOptions {
  /** class of the request's key; determines the share of the journal and the ids that they count towards */
  keyClass: KeyClass
  mayDelete?: boolean
  mayMerge?: boolean
  /** counts the work that the messages cause */
  toll?: Toll | null
  /** whether changes take effect as of their own times, because they come late, like those of an import */
  byTime?: boolean
  /** whether an explicit alias that names another user is refused instead of only counted */
  reportsConflicts?: boolean
}

const UNREADABLE = 'The change of the profile cannot be read.'

function describeNoName(distinctId: unknown): string {
  return `distinct_id ${describeNameFault(distinctId)}.`
}

/** The reason for refusing to change the profile of a placeholder or reserved name. */
function describeNoProfile(name: string): string {
  const why = isReserved(name) ? 'is reserved' : 'is what clients send if they have no id'
  return `${JSON.stringify(name)} ${why}, so it has no profile.`
}

/** Sorts the messages about people, without those about placeholders and reserved names. */
export class PeoplePlan {
  /** messages in the order of the request */
  readonly messages: PersonMessage[] = []
  readonly faults: Fault[] = []
  readonly refused: Fault[] = []
  readonly placeholders = { event: 0, link: 0, change: 0 }
  /** elements of the request that are stored as events */
  readonly #events: ReadonlySet<number | undefined>
  /** by element, name and id: how many changes there were */
  readonly #counts = new Map<string, number>()

  constructor(messages: readonly SdkMessage[]) {
    this.#events = new Set(
      messages.flatMap(({ type, index }) => (type === 'event' && index !== undefined ? index : [])),
    )
  }

  add(message: PersonMessage): void {
    if (message.type === 'change') this.#addChange(message)
    else if (message.type === 'alias') this.#addAlias(message)
    else this.#addDelete(message)
  }

  #addAlias(message: Alias): void {
    const names = [message.distinctId, message.alias]
    // The event that contains the link is stored, but has no other effect.
    if (!names.every((name) => isName(name)) || names.some((name) => isReserved(name))) return
    if (names.some((name) => isPlaceholder(name))) this.placeholders.link++
    else if (message.distinctId !== message.alias) this.messages.push(message)
  }

  #addDelete(message: Delete): void {
    const { distinctId, isGroup = false, index } = message
    if (isName(distinctId) && isReserved(distinctId) === isGroup) {
      this.messages.push(message)
      return
    }
    const reason = isName(distinctId) ? describeNoProfile(distinctId) : describeNoName(distinctId)
    const text = `{"distinct_id":${JSON.stringify(distinctId)},"delete":true}`
    this.refused.push({ type: 'fault', text, reason, ...omitUndefined({ index }) })
  }

  #addChange(message: Change): void {
    const { distinctId, isGroup = false, index } = message
    if (!isName(distinctId)) {
      this.faults.push(createFault(message, describeNoName(distinctId)))
      return
    }
    if (isGroup ? isReserved(distinctId) : !isReserved(distinctId) && !isPlaceholder(distinctId)) {
      this.messages.push(this.#withOwnId(message))
      return
    }
    if (!isReserved(distinctId)) this.placeholders.change++
    // If the element also has an event, the event contains the data of the change.
    if (!this.#events.has(index)) this.refused.push(createFault(message, describeNoProfile(distinctId)))
  }

  /** An element may contain several changes of one profile, whose ids have to differ. */
  #withOwnId(change: Change): Change {
    const { insertId, distinctId, index = 0 } = change
    if (insertId === undefined) return change
    const key = JSON.stringify([index, distinctId, insertId])
    const before = this.#counts.get(key) ?? 0
    this.#counts.set(key, before + 1)
    return before === 0 ? change : { ...change, insertId: `${before}:${insertId}` }
  }
}

/**
 * Applies the messages about people: those of one person, under any of their names, in the order of the request, and
 * those of different people concurrently.
 * @returns `faults`: changes that profiles refuse; `refused`: links between two users that the key may not merge
 */
export async function takePeople(
  parts: PeopleParts,
  projectId: string,
  messages: readonly PersonMessage[],
  options: PeopleOptions,
): Promise<{ faults: Fault[]; refused: Fault[] }> {
  const result: { faults: Fault[]; refused: Fault[] } = { faults: [], refused: [] }
  if (messages.length === 0) return result
  const changes = messages.filter((message) => message.type === 'change')
  if (changes.length === messages.length) {
    result.faults.push(...(await applyAll(parts, projectId, changes, options)))
    return result
  }
  const groups = await groupByPerson(parts, projectId, messages)
  await forEachInBatches(groups, (group) => takeGroup(parts, projectId, group, options, result))
  return result
}

/** Groups messages by person: by names that are linked in the messages or in the store. */
async function groupByPerson(
  { aliases }: PeopleParts,
  projectId: string,
  messages: readonly PersonMessage[],
): Promise<PersonMessage[][]> {
  const leaders = new Map<string, string>()
  const find = (name: string): string => {
    let at = name
    for (let next = leaders.get(at); next !== undefined && next !== at; next = leaders.get(at)) at = next
    leaders.set(name, at)
    return at
  }
  const join = (a: string, b: string) => leaders.set(find(a), find(b))
  for (const message of messages) if (message.type === 'alias') join(message.distinctId, message.alias)
  const names = new Set(
    messages.flatMap((one) => (one.type === 'alias' ? [one.distinctId, one.alias] : one.distinctId)),
  )
  await forEachInBatches([...names], async (name) => {
    join(name, await aliases.resolve(projectId, name))
  })
  const groups = new Map<string, PersonMessage[]>()
  for (const message of messages) {
    const leader = find(message.distinctId)
    const group = groups.get(leader)
    if (group) group.push(message)
    else groups.set(leader, [message])
  }
  return [...groups.values()]
}

async function takeGroup(
  parts: PeopleParts,
  projectId: string,
  messages: readonly PersonMessage[],
  options: PeopleOptions,
  { faults, refused }: { faults: Fault[]; refused: Fault[] },
): Promise<void> {
  const { mayDelete = false, mayMerge = false } = options
  let waiting: Change[] = []
  // SDKs repeat a link with each event. By link: why it was refused, or null.
  const done = new Map<string, Fault | null>()
  const flush = async () => {
    const changes = waiting
    waiting = []
    faults.push(...(await applyAll(parts, projectId, changes, options)))
  }
  for (const message of messages) {
    if (message.type === 'change') {
      waiting.push(message)
    } else if (message.type === 'alias') {
      const link = message.link === 'merge' && !mayMerge ? { ...message, link: 'said' as const } : message
      const key = JSON.stringify([link.distinctId, link.alias, link.link])
      if (!done.has(key)) {
        await flush()
        done.set(key, await takeLink(parts, projectId, link, options))
      }
      const fault = done.get(key)
      if (fault) refused.push({ ...fault, ...omitUndefined({ index: message.index }) })
    } else if (mayDelete) {
      await flush()
      await deleteProfile(parts, projectId, message.distinctId)
      done.clear()
    }
  }
  await flush()
}

/** @returns the fault of a link between two users; one of a device that belongs to another user is only counted */
async function takeLink(
  { links }: PeopleParts,
  projectId: string,
  message: Alias,
  { reportsConflicts = false, keyClass, toll = null }: PeopleOptions,
): Promise<Fault | null> {
  const refusal = await links.link(projectId, { ...message, caller: { keyClass, toll } })
  if (refusal === null || refusal === 'nobody') return null
  links.logRefusal(projectId)
  if (refusal === 'other_user' && !(reportsConflicts && message.link !== 'inferred')) return null
  const { distinctId, alias, index } = message
  const text = JSON.stringify({ distinct_id: distinctId, alias })
  return { type: 'fault', text, reason: REFUSALS[refusal], ...omitUndefined({ index }) }
}

/**
 * Applies changes of any profiles; changes of one user are applied in order.
 * @returns the faults of those that are refused
 */
async function applyAll(
  parts: PeopleParts,
  projectId: string,
  changes: readonly Change[],
  options: PeopleOptions,
): Promise<Fault[]> {
  // All start in the same turn, so that the changes of one user keep their order, no matter which of its names they
  // use, unless one of these is linked at the same time.
  const users = await Promise.all(changes.map(({ distinctId }) => parts.links.findUser(projectId, distinctId)))
  const faults = await Promise.all(
    changes.map((change, i) => apply(parts, projectId, { change, found: users[i] }, options)),
  )
  return faults.filter((fault) => fault !== null)
}

/** @returns the fault of a change that the profile refuses */
async function apply(
  { links }: PeopleParts,
  projectId: string,
  { change, found }: { change: Change; found: FoundUser | undefined },
  { byTime = false, keyClass, toll = null }: PeopleOptions,
): Promise<Fault | null> {
  const { distinctId: name, operations: texts, clears = false, identifies = false, insertId, time } = change
  try {
    let operations: Operation[] | undefined
    const revise = (profile: Profile | null) => {
      // Parse the operations here, because the store applies changes one after another and lets others go first in
      // between.
      operations ??= texts.flatMap(parseOperations)
      const now = Date.now()
      const at = byTime ? time : undefined
      const before = clears ? clearProperties(profile, now, at) : profile
      const after = operations.length > 0 ? applyOperations(before, operations, now, at) : before
      return identifies ? identify(after, null, now) : ensureProfile(after, now)
    }
    const change = withUserToll<Profile>((profile) => readable(() => revise(profile)), toll)
    await links.changeProfile(projectId, { name, ...omitUndefined({ found }) }, change, { keyClass, insertId })
    return null
  } catch (error) {
    // Exceeding a limit is not the message's fault: a retry of the request stores it.
    if (!(error instanceof ApiError) || error.status >= 500 || error.limit !== undefined) throw error
    return createFault(change, error.message)
  }
}

/** Turns any error of reading a message into a fault of that message. */
function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError('invalid_request', UNREADABLE, { cause: error })
  }
}

function createFault({ distinctId, operations, insertId, index }: Change, reason: string): Fault {
  const text = `{"distinct_id":${JSON.stringify(distinctId)},"operations":[${operations.join(',')}]}`
  return { type: 'fault', text, reason, insertId, ...omitUndefined({ index }) }
}
