import { randomInt } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'
import { literal, type Parameters, QueryParameters } from '../clickhouse/parameters.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import { ANONYMOUS } from '../contract/user-names.js'
import type { EntryKind } from '../journal/journal.js'
import { elementTexts, memberText } from '../json/texts.js'
import type { BatchPlace } from '../model/batch-id.js'
import { formatRejected, parseRejected, withoutNamed } from '../model/rejected.js'
import { BATCH_TAIL, findHead } from '../model/scanned-body.js'
import type { StateKind } from '../model/state-key.js'
import { ERASED_EVENT } from '../model/verbatim.js'
import { type Deletion, DeletionCounter } from './deleted-events.js'
import { deduplicateBy } from './insert.js'
import { VERSIONED_TABLES } from './newest-rows.js'

/** Replaces everything after the first colon of ClickHouse's reason, because that may quote erased data. */
const ERASED_REASON = ': details were removed with erased data'
/** A new revision is higher by a random number up to this, so that an erasure recognizes its own revision. */
const REVISION_STEP = 2 ** 32
/** Attempts to erase from one dead letter while other processes erase from it as well. */
const MAX_TRIES = 100

interface DeadLetterKey {
  position: string
  journal_id: number
  kind: EntryKind
}

/** A revision of a dead letter. */
type LetterRevision = { position: string; journal: number; revision: bigint }

const IS_ENTRY = 'position = {position:UInt64} AND journal_id = {journal:UInt32}'
const IS_REPLAYED = '(journal_id, position) IN (SELECT journal_id, position FROM dead_letter_replays)'

export interface ErasedDeadLetters {
  /** by distinct_id: the number of dead letters with data of that user */
  erased: Map<string, number>
  /** dead letters that contain a user's name but are not JSON, so that nothing can be erased from them */
  unreadable: number
}

/** What is removed: the data of users, events or sessions from before a time (epoch ms), or events by their indexes. */
type Target = ReadonlySet<string> | 'everyone' | { before: number } | { indexes: ReadonlySet<number> }

/** A state with a row in a dead letter. Even if the store lacks the state, the journal keeps it until it is deleted. */
export interface ErasedState {
  kind: StateKind
  name: string
  distinctId: string
}

/** Called with states before they are removed from a dead letter; if it throws, they stay there for a retry. */
type OnStates = (states: readonly ErasedState[]) => Promise<void>

/**
 * Removes the data of these users from the dead letters of all shards, including replayed ones. Deletes those without
 * any other data.
 * @param isErased which kinds; default: all
 */
export async function eraseFromDeadLetters(
  shards: Shards,
  projectId: string,
  distinctIds: ReadonlySet<string>,
  onStates?: OnStates,
  isErased: (kind: EntryKind) => boolean = () => true,
): Promise<ErasedDeadLetters> {
  const removal = { projectId, who: distinctIds, onStates }
  const { erased, unreadable } = await eraseFrom(shards, removal, async ({ clickhouse }) => {
    const found = await findNaming(clickhouse, [projectId, ''], [...distinctIds])
    return found.filter(({ kind }) => isErased(kind))
  })
  return { erased, unreadable }
}

/** The aliases in dead letters that point, or once pointed, at one of these names. */
export async function findAliasesInDeadLetters(
  shards: Shards,
  projectId: string,
  names: ReadonlySet<string>,
): Promise<string[]> {
  const removal = { projectId, who: names, onStates: undefined }
  const found = await shards.each(async ({ clickhouse }) => {
    const aliases: string[] = []
    for (const key of await findNaming(clickhouse, [projectId, ''], [...names])) {
      const current = key.kind === 'aliases' ? await readRevision(clickhouse, key) : undefined
      const states = (current && withoutUsers(key.kind, current, removal)?.states) ?? []
      aliases.push(...states.map(({ name }) => name))
    }
    return aliases
  })
  return found.flat()
}

/**
 * Like `eraseFromDeadLetters`, for all data of a project. Deletes its own dead letters, and removes its rows from those
 * with rows of several projects.
 * @returns the number of dead letters with data of the project, and of those that may have some but cannot be read
 */
export async function eraseProjectFromDeadLetters(
  shards: Shards,
  projectId: string,
  onStates?: OnStates,
): Promise<{ erased: number; unreadable: number }> {
  const own = await shards.count((clickhouse) => deleteAllOfProject(clickhouse, projectId))
  const { letters, unreadable } = await eraseFrom(shards, { projectId, who: 'everyone', onStates }, ({ clickhouse }) =>
    findNaming(clickhouse, [''], [projectId]),
  )
  return { erased: own + letters, unreadable }
}

/**
 * Removes from the dead letters of a project the events that are older than a time; an event without a time is as old
 * as its dead letter, and so are SDK messages and entries that cannot be read. Profiles and sessions stay.
 * @param before epoch ms
 * @returns the number of dead letters that were changed or deleted
 */
export async function expireDeadLetters(shards: Shards, projectId: string, before: number): Promise<number> {
  // Everything in these dead letters is old, so they need not be read one by one.
  const old = `received_at < ${Math.trunc(before)}
    AND (kind = 'rejected' OR kind = 'events' AND isValidJSON(body) AND NOT arrayExists(
      event -> JSONExtractFloat(event, 'timestamp') >= ${Math.trunc(before)}, JSONExtractArrayRaw(body, 'events')))`
  const own = await shards.count((clickhouse) => deleteAllOfProject(clickhouse, projectId, old))
  const { letters } = await eraseFrom(shards, { projectId, who: { before }, onStates: undefined }, ({ clickhouse }) =>
    findDeadLettersBefore(clickhouse, projectId, before),
  )
  return own + letters
}

/**
 * Removes from the dead letters of a project the sessions that were last changed before a time.
 * @param before epoch ms
 * @returns the number of dead letters that were changed or deleted
 */
export async function expireSessionsInDeadLetters(
  shards: Shards,
  projectId: string,
  before: number,
  onStates: OnStates,
): Promise<number> {
  const removal = { projectId, who: { before }, onStates }
  const { letters } = await eraseFrom(shards, removal, async ({ clickhouse }) => {
    const found = await findNaming(clickhouse, [projectId, ''], [projectId])
    return found.filter(({ kind }) => kind === 'sessions')
  })
  return letters
}

/** Events of a project: one of them, or without an index, all of an entry. */
type EventsPlace = BatchPlace & { index?: number }

/**
 * Removes events from the dead letters that have them, so that no replay brings them back, and no list shows them. Call
 * this before deleting them from the table of events, because a dead letter may be replayed at the same time.
 * @param limitMs as for `DeletionCounter.open`
 * @returns whether any of them was in a dead letter
 */
export async function eraseEventsFromDeadLetters(
  clickhouse: ClickHouse,
  projectId: string,
  places: readonly EventsPlace[],
  limitMs?: number,
): Promise<boolean> {
  const found = await findDeadLettersAt(clickhouse, projectId, places)
  if (found.length === 0) return false
  const counter = await DeletionCounter.open(clickhouse, projectId, limitMs)
  let wasThere = false
  for (const key of found) {
    const removal = { projectId, who: erasedAt(key, places), onStates: undefined }
    const users = await eraseFromOne(clickhouse, counter, key, removal)
    if (users?.size) wasThere = true
  }
  return wasThere
}

/** Counts the events of entries that are in dead letters which were not replayed. */
export async function countEventsInDeadLetters(
  shards: Shards,
  projectId: string,
  places: readonly EventsPlace[],
): Promise<{ events: number; withInsertId: number }> {
  const count = { events: 0, withInsertId: 0 }
  await shards.each(async ({ clickhouse }) => {
    for (const key of await findDeadLettersAt(clickhouse, projectId, places)) {
      const current = await readRevision(clickhouse, key)
      if (!current || current.isReplayed) continue
      const removal = { projectId, who: erasedAt(key, places), onStates: undefined }
      const rest = withoutUsers(key.kind, current, removal)
      count.events += rest?.erasedEvents ?? 0
      count.withInsertId += rest?.erasedIds ?? 0
    }
  })
  return count
}

/** The dead letters of the entries of events. */
async function findDeadLettersAt(
  clickhouse: ClickHouse,
  projectId: string,
  places: readonly EventsPlace[],
): Promise<DeadLetterKey[]> {
  const fields = new QueryParameters()
  const positions = [...new Set(places.map(({ position }) => String(position)))]
  const found = await clickhouse.rows<DeadLetterKey>(
    `SELECT DISTINCT position, journal_id, kind FROM dead_letters
     WHERE project_id = ${fields.text(projectId)} AND kind = 'events'
       AND position IN (SELECT arrayJoin(arrayMap(text -> toUInt64(text), ${fields.array(positions)})))`,
    fields.parameters,
  )
  return found.filter((key) => places.some((place) => isAt(key, place)))
}

function isAt(key: DeadLetterKey, { position, journalId }: BatchPlace): boolean {
  return key.position === String(position) && key.journal_id === journalId
}

/** Which events of a dead letter are at one of these places. */
function erasedAt(key: DeadLetterKey, places: readonly EventsPlace[]): Target {
  const own = places.filter((place) => isAt(key, place))
  const indexes = own.flatMap(({ index }) => index ?? [])
  return indexes.length < own.length ? 'everyone' : { indexes: new Set(indexes) }
}

/** The data to erase from dead letters. */
interface Removal {
  projectId: string
  who: Target
  onStates: OnStates | undefined
}

/** @returns `letters`: the number of dead letters with data to erase */
async function eraseFrom(
  shards: Shards,
  removal: Removal,
  find: (shard: Shard) => Promise<DeadLetterKey[]>,
): Promise<ErasedDeadLetters & { letters: number }> {
  const found = { erased: new Map<string, number>(), unreadable: 0, letters: 0 }
  await shards.each(async (shard) => {
    const keys = await find(shard)
    if (keys.length === 0) return
    const counter = await DeletionCounter.open(shard.clickhouse, removal.projectId)
    for (const key of keys) {
      const users = await eraseFromOne(shard.clickhouse, counter, key, removal)
      if (users?.size) found.letters++
      if (!users) found.unreadable++
      for (const user of users ?? []) found.erased.set(user, (found.erased.get(user) ?? 0) + 1)
    }
  })
  return found
}

/** What a revision of a dead letter contains. */
interface Content {
  body: string
  /** epoch ms */
  receivedAt: number
  /** number of events in the body */
  eventCount: number
}

/** Reads the current revision of a dead letter; undefined if it was deleted. */
async function readRevision(clickhouse: ClickHouse, { position, journal_id: journal }: DeadLetterKey) {
  const [row] = await clickhouse.rows<{
    revision: string
    body: string
    received_at: string
    event_count: number
    revisions: string
    is_replayed: 0 | 1
  }>(
    `SELECT revision, base64Encode(body) AS body, received_at, event_count, count() OVER () AS revisions,
       ${IS_REPLAYED} AS is_replayed
     FROM dead_letters WHERE ${IS_ENTRY} ORDER BY revision DESC LIMIT 1`,
    { position, journal },
  )
  return (
    row && {
      at: { position, journal, revision: BigInt(row.revision) },
      body: Buffer.from(row.body, 'base64').toString(),
      receivedAt: Number(row.received_at),
      eventCount: row.event_count,
      isAlone: Number(row.revisions) === 1,
      isReplayed: row.is_replayed === 1,
    }
  )
}

/** @returns the users whose data was removed; undefined if the dead letter cannot be read */
async function eraseFromOne(
  clickhouse: ClickHouse,
  counter: DeletionCounter,
  key: DeadLetterKey,
  removal: Removal,
): Promise<Set<string> | undefined> {
  const users = new Set<string>()
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const current = await readRevision(clickhouse, key)
    if (!current) return users
    const { at } = current
    const rest = withoutUsers(key.kind, current, removal)
    if (!rest) return undefined
    if (rest.states.length > 0) await removal.onStates?.(rest.states)
    const isNamed = rest.users.size > 0
    for (const user of rest.users) users.add(user)
    let revision: bigint | null = at.revision
    const erase = async () => {
      if (rest.body === null) await deleteRevisions(clickhouse, 'revision <= {revision:UInt64}', at)
      else revision = await replaceBody(clickhouse, at, rest)
      return revision !== null
    }
    // The events of a replayed dead letter are in the store, and counted when they are deleted there.
    const isCounted = rest.erasedEvents > 0 && !current.isReplayed
    if (isNamed && isCounted) await counter.run(removal.projectId, eraseEvents(at, rest.erasedEvents, erase))
    else if (isNamed) await erase()
    if (revision === null) continue
    if (isNamed && rest.body === null) return users
    // This also deletes revisions left over from an interrupted erasure.
    if (isNamed || !current.isAlone)
      await deleteRevisions(clickhouse, 'revision < {revision:UInt64}', { ...at, revision })
    return users
  }
  throw new Error(`Too many processes are erasing from the dead letter at ${key.position}. Try again.`)
}

/** The deletion of events from a dead letter. All of them still exist until the new revision is stored. */
function eraseEvents(at: LetterRevision, count: number, run: () => Promise<boolean>): Deletion {
  const query = `SELECT if(max(revision) = {revision:UInt64}, {count:UInt64}, 0) AS count FROM dead_letters WHERE ${IS_ENTRY}`
  return { count, left: { query, parameters: { ...at, revision: String(at.revision), count } }, run }
}

/**
 * Gives a dead letter a new body. The INSERT's token names the revision that it replaces, so ClickHouse accepts only
 * one successor of each revision. That serializes concurrent erasures in all processes.
 * @returns the new revision; null if another erasure has already replaced this one
 */
async function replaceBody(
  clickhouse: ClickHouse,
  at: LetterRevision,
  { body, reason, events }: Rest,
): Promise<bigint | null> {
  const next = at.revision + BigInt(1 + randomInt(REVISION_STEP))
  const fields = new QueryParameters()
  const newReason =
    reason === undefined ? `concat(splitByChar(':', reason)[1], ${fields.text(ERASED_REASON)})` : literal(reason)
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id, revision, event_count)
     SELECT project_id, position, kind, ${newReason}, ${literal(body ?? '')},
       received_at, journal_id, {next:UInt64}, {events:UInt32}
     FROM dead_letters WHERE ${IS_ENTRY} AND revision = {revision:UInt64} LIMIT 1`,
    { ...at, ...fields.parameters, next, events },
    deduplicateBy(`${at.journal}:${at.position}:revision after ${at.revision}`),
  )
  const isThere = await clickhouse.rows(
    `SELECT 1 FROM dead_letters WHERE ${IS_ENTRY} AND revision = {next:UInt64} LIMIT 1`,
    { ...at, next },
  )
  return isThere.length > 0 ? next : null
}

/** Deletes by numbers only: a mutation's text stays on disk until a later one is done, so it must not name a user. */
async function deleteRevisions(clickhouse: ClickHouse, revisions: string, at: Parameters): Promise<void> {
  await clickhouse.command(`ALTER TABLE dead_letters DELETE WHERE ${IS_ENTRY} AND ${revisions}`, at, {
    mutations_sync: '1',
  })
}

/** @returns the number of dead letters that were deleted */
async function deleteAllOfProject(clickhouse: ClickHouse, projectId: string, which = '1'): Promise<number> {
  const parameters = { project: projectId }
  const counter = await DeletionCounter.open(clickhouse, projectId)
  const matched = `project_id = {project:String} AND ${which}`
  const found = await clickhouse.rows<Record<'journal' | 'last' | 'letters' | 'count', string>>(
    countInDeadLetters(
      matched,
      'journal_id AS journal, max(position) AS last, count() AS letters, ',
      'GROUP BY journal_id',
    ),
    parameters,
  )
  if (found.length === 0) return 0
  // Delete only what was counted, and nothing stored since.
  const bounds = found.map(({ journal, last }) => `(journal_id = ${journal} AND position <= ${last})`)
  const counted = `${matched} AND (${bounds.join(' OR ')})`
  const sum = (field: 'letters' | 'count') => found.reduce((all, row) => all + Number(row[field]), 0)
  const run = () =>
    clickhouse.command(`ALTER TABLE dead_letters DELETE WHERE ${counted}`, parameters, { mutations_sync: '1' })
  const count = sum('count')
  const left = { query: countInDeadLetters(counted), parameters }
  if (count === 0) await run()
  else await counter.run(projectId, { count, left, run })
  return sum('letters')
}

/** SQL that counts the events in matching dead letters that were not replayed. */
function countInDeadLetters(condition: string, columns = '', grouped = ''): string {
  return `SELECT ${columns}sumIf(events, NOT is_replayed) AS count FROM (
      SELECT journal_id, position, argMax(if(kind = 'events', event_count, 0), revision) AS events,
        any(${IS_REPLAYED}) AS is_replayed
      FROM dead_letters WHERE ${condition} GROUP BY journal_id, position) ${grouped}`
}

/** Dead letters that may contain one of these names, including all with escapes, because a name can be escaped. */
async function findNaming(clickhouse: ClickHouse, projects: string[], names: string[]): Promise<DeadLetterKey[]> {
  const fields = new QueryParameters()
  return await clickhouse.rows<DeadLetterKey>(
    `SELECT DISTINCT position, journal_id, kind FROM dead_letters
     WHERE project_id IN ${fields.array(projects)}
       AND (position(body, '\\\\') > 0 OR arrayExists(name -> position(body, name) > 0, ${fields.array(names)}))
     ORDER BY position, journal_id`,
    fields.parameters,
  )
}

/** Dead letters with events that are older than a time, and all that ClickHouse's parser refuses. */
async function findDeadLettersBefore(
  clickhouse: ClickHouse,
  project: string,
  before: number,
): Promise<DeadLetterKey[]> {
  const isOld = `ifNull(JSONExtract(event, 'timestamp', 'Nullable(Float64)'), received_at) < {before:Float64}`
  return await clickhouse.rows<DeadLetterKey>(
    `SELECT DISTINCT position, journal_id, kind FROM dead_letters
     WHERE project_id = {project:String} AND kind = 'events'
       AND (NOT isValidJSON(body)
         OR arrayExists(event -> event != {erased:String} AND ${isOld}, JSONExtractArrayRaw(body, 'events')))
     ORDER BY position, journal_id`,
    { project, before, erased: ERASED_EVENT },
  )
}

const NO_EVENTS = { events: 0, erasedEvents: 0, erasedIds: 0 }

/** A dead letter without the data of some users. */
interface Rest {
  /** users whose data was in the body */
  users: Set<string>
  /** states of these users */
  states: ErasedState[]
  /** null if nothing is left */
  body: string | null
  /** the reason for what is left; absent if it is ClickHouse's */
  reason?: string
  /** number of remaining events */
  events: number
  /** number of events removed from the body */
  erasedEvents: number
  /** number of those with an `insert_id` */
  erasedIds: number
}

/** @returns undefined if the body cannot be read */
function withoutUsers(
  kind: EntryKind,
  { body, receivedAt, eventCount }: Content,
  { projectId, who }: Removal,
): Rest | undefined {
  try {
    if (kind === 'rejected') {
      // `everyone` and `before` do not apply to this kind of dead letter.
      const { users, left } = withoutNamed(parseRejected(body), who instanceof Set ? who : new Set())
      if (left.length === 0) return { users, states: [], body: null, ...NO_EVENTS }
      const rest = formatRejected(left).toString()
      return { users, states: [], body: rest, ...NO_EVENTS, reason: parseRejected(rest).reason }
    }
    const list = kind === 'events' ? (memberText(checkJson(body), 'events') ?? '[]') : checkJson(`[${body}]`)
    const users = new Set<string>()
    const states: ErasedState[] = []
    let erasedIds = 0
    const all = elementTexts(list).map((text, index) => {
      const row = JSON.parse(text) as Record<string, unknown>
      const { project_id = projectId, distinct_id } = row
      const time = kind === 'events' ? (row.timestamp ?? receivedAt) : toLastChange(row)
      if (
        typeof distinct_id !== 'string' ||
        text === ERASED_EVENT ||
        !isErased(who, { distinctId: distinct_id, time, index })
      )
        return text
      if (kind !== 'events' && project_id !== projectId) return text
      users.add(distinct_id)
      if (typeof row.insert_id === 'string') erasedIds++
      if (kind !== 'events')
        states.push({ kind, name: String(row[VERSIONED_TABLES[kind].key]), distinctId: distinct_id })
      return null
    })
    const left = all.filter((text) => text !== null && text !== ERASED_EVENT)
    if (kind !== 'events') return { users, states, body: left.length === 0 ? null : left.join(','), ...NO_EVENTS }
    const events = { events: left.length, erasedEvents: all.filter((text) => text === null).length, erasedIds }
    if (left.length === 0) return { users, states, body: null, ...events }
    const head = findHead(Buffer.from(body.slice(0, 1)))
    return { users, states, body: `${head}${all.map((text) => text ?? ERASED_EVENT)}${BATCH_TAIL}`, ...events }
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof TypeError)) throw error
    const hasExpired = kind === 'events' && typeof who === 'object' && 'before' in who && receivedAt < who.before
    if (!hasExpired) return undefined
    return { users: new Set([ANONYMOUS]), states: [], body: null, ...NO_EVENTS, erasedEvents: eventCount }
  }
}

/** When a state was last changed. A row that marks its deletion has no time, and must keep hiding the rows before it. */
function toLastChange({ updated_at, is_deleted }: Record<string, unknown>): unknown {
  return is_deleted === 1 ? undefined : updated_at
}

function isErased(
  who: Target,
  { distinctId, time, index }: { distinctId: string; time: unknown; index: number },
): boolean {
  if (who === 'everyone') return true
  if ('indexes' in who) return who.indexes.has(index)
  return 'before' in who ? typeof time === 'number' && time < who.before : who.has(distinctId)
}

/** @throws SyntaxError if the text is not JSON */
function checkJson(text: string): string {
  JSON.parse(text)
  return text
}
