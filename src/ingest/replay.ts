import { buffer } from 'node:stream/consumers'
import type { ClickHouse } from '../clickhouse/client.js'
import { isDataError } from '../clickhouse/errors.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import type { Entry, Journal } from '../journal/journal.js'
import { elementTexts } from '../json/texts.js'
import { chooseLane } from '../model/choose-lane.js'
import { formatPosition } from '../model/position.js'
import { type StateKind, toStateKey } from '../model/state-key.js'
import { EntryError, findErasedIndexes, rewriteEntry } from '../model/verbatim.js'
import { type DeadLetter, insertReplay, readDeadLetterBody } from '../store/dead-letters.js'
import { logChange } from '../store/event-changes.js'
import { deleteEventsOfEntry, type EntryPlace, hasEventsOfEntry, logReplay } from '../store/events.js'
import { REPLAYED } from '../store/insert.js'
import { readLayouts } from '../store/layouts.js'
import { VERSIONED_TABLES } from '../store/newest-rows.js'
import { openTables } from '../store/tables.js'

/** The result of a replay. The reason is ClickHouse's, or says why the entry cannot be parsed. */
export type Replay = { isStored: true } | { isStored: false; reason: string }

/** How long to wait for an INSERT that was sent: events erased since can only be deleted after it. */
const UNINTERRUPTED = new AbortController().signal
const NEVER_STORED = 'its messages are not valid events or changes; correct them and send them again'

/**
 * Stores the entry of a dead letter under its original event ids, on the shard that has the dead letter, and marks that
 * as replayed; states go to the shards of their lanes. Idempotent, even if run concurrently: the INSERT's token prevents
 * duplicates for as long as ClickHouse remembers it, and a search for the ids after that. Every shard is searched,
 * because after the import of a whole store the events may not be on the shard of the dead letter.
 * @param now epoch ms
 * @param noteDeletion called after events that the dead letter no longer holds were deleted; see Journal
 * @throws StoreError, StoreUnreachableError if the store cannot accept anything now; the replay can be retried
 */
export async function replayDeadLetter(
  shards: Shards,
  deadLetter: DeadLetter,
  now: number,
  noteDeletion: Journal['noteDeletion'] = async () => undefined,
): Promise<Replay> {
  const { kind } = deadLetter
  if (kind === 'rejected') return { isStored: false, reason: NEVER_STORED }
  const replay =
    kind === 'events'
      ? await replayEvents(shards, deadLetter, noteDeletion)
      : await replayStates(shards, deadLetter, kind)
  if (replay.isStored) await insertReplay(deadLetter, now)
  return replay
}

async function replayEvents(
  shards: Shards,
  deadLetter: DeadLetter,
  noteDeletion: Journal['noteDeletion'],
): Promise<Replay> {
  const { position, journalId, projectId, kind, receivedAt } = deadLetter
  const { clickhouse } = deadLetter.shard
  const place = { projectId, position, journalId }
  const isThere = await hasEventsOfEntry(shards, place)
  const replay = await logReplay(clickhouse, place, async (): Promise<Replay> => {
    // Log them again: the process that stored them may have died before it did.
    if (isThere) return { isStored: true }
    const body = await buffer(await readDeadLetterBody(deadLetter))
    const skip = findErasedIndexes(body)
    const entry = { position, projectId, kind, count: 0, receivedAt, body, ...(skip.length > 0 && { skip }) }
    return await insert(clickhouse, journalId, entry)
  })
  if (replay.isStored) await deleteErased(shards, deadLetter, place, noteDeletion)
  return replay
}

/**
 * Deletes events that the dead letter no longer holds, because their users were erased since the body was read. A
 * replay that died before this point may have left some. The events of users who are erased later are deleted by the
 * erasure itself, which handles events after dead letters.
 */
async function deleteErased(
  shards: Shards,
  deadLetter: DeadLetter,
  place: EntryPlace,
  noteDeletion: Journal['noteDeletion'],
): Promise<void> {
  const body = await buffer(await readDeadLetterBody(deadLetter))
  const erased = body.length === 0 ? 'all' : findErasedIndexes(body)
  if (erased !== 'all' && erased.length === 0) return
  try {
    await deleteEventsOfEntry(shards, place, erased)
  } finally {
    // Do this even if a shard has failed, because the events of the others are gone.
    await noteDeletion(deadLetter.projectId)
  }
}

/** Stores the rows of a dead letter of states, each on the shard where it is looked up. */
async function replayStates(shards: Shards, deadLetter: DeadLetter, kind: StateKind): Promise<Replay> {
  const { position, journalId, projectId, receivedAt } = deadLetter
  const entry = { position, projectId, kind, count: 0, receivedAt }
  const body = await buffer(await readDeadLetterBody(deadLetter))
  for (const [{ clickhouse }, rows] of await groupByShard(shards, deadLetter, kind, body)) {
    const store = async (): Promise<Replay> => {
      const replay = await insert(clickhouse, journalId, { ...entry, body: Buffer.from(rows.join(',')) })
      if (replay.isStored) await deleteErasedStates(clickhouse, deadLetter, kind, rows)
      return replay
    }
    const changed = new Map([[projectId, { kind: 'calls' as const, keys: null }]])
    const replay = kind === 'sessions' ? await logChange(clickhouse, changed, store) : await store()
    if (!replay.isStored) return replay
  }
  return { isStored: true }
}

/**
 * The rows of a dead letter of states, by the shard of their lane. After the import of a whole store, or a change of the
 * layout, that is not always the shard of the dead letter.
 */
async function groupByShard(
  shards: Shards,
  { shard }: DeadLetter,
  kind: StateKind,
  body: Buffer,
): Promise<Map<Shard, string[]>> {
  const whole = new Map([[shard, [body.toString()]]])
  const { active } = shards.areSeveral ? await readLayouts(shards.first) : { active: null }
  const groups = new Map<Shard, string[]>()
  try {
    for (const text of elementTexts(`[${body}]`)) {
      const row = JSON.parse(text) as Record<string, string>
      const stateKey = toStateKey(kind, row.project_id ?? '', row[VERSIONED_TABLES[kind].key] ?? '')
      const home = active ? shards.at(chooseLane(stateKey, active.lanes) % shards.all.length) : shard
      groups.set(home, [...(groups.get(home) ?? []), text])
    }
    return groups
  } catch {
    // ClickHouse says what is wrong with it.
    return whole
  }
}

/**
 * Deletes the states of users who were erased from the dead letter since its rows were read, like `deleteErased`. A
 * deletion is a row with the next version, so only later changes are newer.
 */
async function deleteErasedStates(
  clickhouse: ClickHouse,
  deadLetter: DeadLetter,
  kind: StateKind,
  stored: readonly string[],
): Promise<void> {
  const left = new Set(elementTexts(`[${await buffer(await readDeadLetterBody(deadLetter))}]`))
  const erased = stored.filter((text) => !left.has(text))
  if (erased.length === 0) return
  const tables = openTables(clickhouse, { id: deadLetter.journalId })
  const rows = erased.map((text) => {
    const { project_id = '', [VERSIONED_TABLES[kind].key]: name = '' } = JSON.parse(text) as Record<string, string>
    return tables[kind].row(project_id, name, null)
  })
  const { position, projectId, receivedAt } = deadLetter
  const deletion = { position: position + 1n, projectId, kind, count: 0, receivedAt, body: Buffer.from(rows.join(',')) }
  await tables.insert(kind, [deletion], '', UNINTERRUPTED)
}

/** Like the writer: inserts the entry unchanged, and rewritten if ClickHouse rejects that. */
async function insert(clickhouse: ClickHouse, journalId: number, entry: Entry): Promise<Replay> {
  const tables = openTables(clickhouse, { id: journalId })
  const token = `${journalId}:${formatPosition(entry.position)}${REPLAYED}`
  try {
    await tables.insert(entry.kind, [entry], token, UNINTERRUPTED)
    return { isStored: true }
  } catch (error) {
    if (!isDataError(error)) throw error
    if (entry.kind !== 'events') return { isStored: false, reason: error.reason }
  }
  try {
    await tables.insert('events', [{ ...entry, body: rewriteEntry(entry.body) }], token, UNINTERRUPTED)
    return { isStored: true }
  } catch (error) {
    if (!isDataError(error) && !(error instanceof EntryError)) throw error
    return { isStored: false, reason: error.reason }
  }
}
