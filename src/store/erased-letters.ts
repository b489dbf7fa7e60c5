import { randomInt } from 'node:crypto'
import type { EntryKind } from '../journal/journal.js'
import { elements, memberText } from '../json.js'
import type { ClickHouse, Scalars } from './clickhouse.js'
import { IS_CURRENT } from './dead-letters.js'
import { Fields, literal } from './fields.js'

/** Stands for an event that was erased, as the ids of those behind it go by their place; no accepted one looks like it. */
const ERASED_EVENT = '{"event":"","distinct_id":""}'

/** What stands for a reason from its first colon on, as that may quote what was erased. */
const ERASED_REASON = ': what it said of the data went with an erased user'
/** Above a letter's revision, so that two processes that rewrite it at a time do not choose the same. */
const REVISION_STEP = 2 ** 32
/** Of one letter, while other processes erase from it as well. */
const MAX_TRIES = 10

interface Letter {
  position: string
  journal_id: number
  kind: EntryKind
  revision: string
}

const ONE_LETTER = 'position = {position:UInt64} AND journal_id = {journal:UInt32}'

export interface ErasedLetters {
  /** how many letters held something, by distinct_id */
  erased: Map<string, number>
  /** letters that name a user, but are no JSON, so that it cannot be said what of them is the user's */
  unreadable: number
}

/** Takes what is of these users out of the dead letters, the replayed ones included; a letter of which nothing is left goes. */
export async function eraseFromDeadLetters(
  clickhouse: ClickHouse,
  projectId: string,
  distinctIds: ReadonlySet<string>,
): Promise<ErasedLetters> {
  const found: ErasedLetters = { erased: new Map(), unreadable: 0 }
  for (const letter of await lettersThatMayName(clickhouse, projectId, [...distinctIds])) {
    const users = await eraseFromLetter(clickhouse, letter, projectId, distinctIds)
    if (!users) found.unreadable++
    for (const user of users ?? []) found.erased.set(user, (found.erased.get(user) ?? 0) + 1)
  }
  return found
}

/** @returns whose something was in it; undefined where it cannot be read */
async function eraseFromLetter(
  clickhouse: ClickHouse,
  { position, journal_id: journal, kind, revision }: Letter,
  projectId: string,
  distinctIds: ReadonlySet<string>,
): Promise<Set<string> | undefined> {
  let base: bigint | null = BigInt(revision)
  for (let tries = 1; base !== null; tries++) {
    const at = { position, journal, revision: base }
    const chunks: Buffer[] = []
    for await (const chunk of await clickhouse.bytes(
      `SELECT body FROM dead_letters WHERE ${ONE_LETTER} AND revision = {revision:UInt64} LIMIT 1 FORMAT RawBLOB`,
      at,
    )) {
      chunks.push(chunk)
    }
    const rest = withoutUsers(kind, Buffer.concat(chunks).toString(), projectId, distinctIds)
    if (!rest || rest.users.size === 0) return rest?.users
    if (rest.body === null) {
      await deleteLetter(clickhouse, 'revision <= {revision:UInt64}', at)
      return rest.users
    }
    const found = await replaceLetter(clickhouse, at, rest.body)
    if (found === base) return rest.users
    if (tries === MAX_TRIES) throw new Error(`A dead letter at ${position} is erased from by others as well.`)
    base = found
  }
  return new Set()
}

/**
 * Gives a letter a new body. Where another revision came in between, the new one is taken back, as it holds what somebody
 * else has erased meanwhile: of several that come at a time one at most stands, and the letter never goes.
 * @param at the letter, and the revision that the new body was made of
 * @returns that revision where the new one has taken its place, else the one that has; null where the letter has gone
 */
async function replaceLetter(
  clickhouse: ClickHouse,
  at: { position: string; journal: number; revision: bigint },
  body: string,
): Promise<bigint | null> {
  const next = at.revision + BigInt(1 + randomInt(REVISION_STEP))
  const fields = new Fields()
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id, revision)
     SELECT project_id, position, kind, concat(splitByChar(':', reason)[1], ${fields.text(ERASED_REASON)}),
       ${literal(body)}, received_at, journal_id, {next:UInt64}
     FROM dead_letters WHERE ${ONE_LETTER} AND revision = {revision:UInt64} LIMIT 1`,
    { ...at, ...fields.parameters, next },
  )
  const [other] = await clickhouse.rows<{ revision: string }>(
    `SELECT revision FROM dead_letters WHERE ${ONE_LETTER} AND revision != {next:UInt64} ORDER BY revision DESC LIMIT 1`,
    { ...at, next },
  )
  const found = other === undefined ? null : BigInt(other.revision)
  const isTaken = found === at.revision
  await deleteLetter(clickhouse, isTaken ? 'revision < {next:UInt64}' : 'revision = {next:UInt64}', { ...at, next })
  return found
}

/** By its numbers alone, as the text of a mutation stays on disk until a later one is done. */
async function deleteLetter(clickhouse: ClickHouse, revisions: string, at: Scalars): Promise<void> {
  await clickhouse.command(`ALTER TABLE dead_letters DELETE WHERE ${ONE_LETTER} AND ${revisions}`, at, {
    mutations_sync: '1',
  })
}

/** A name with an escape in it can be spelled in many ways, so all letters that have escapes are looked into. */
async function lettersThatMayName(clickhouse: ClickHouse, projectId: string, names: string[]): Promise<Letter[]> {
  const fields = new Fields()
  return await clickhouse.rows<Letter>(
    `SELECT position, journal_id, kind, revision FROM dead_letters
     WHERE ${IS_CURRENT} AND project_id IN (${fields.text(projectId)}, '')
       AND (position(body, '\\\\') > 0 OR arrayExists(name -> position(body, name) > 0, ${fields.array(names)}))
     ORDER BY position, journal_id`,
    fields.parameters,
  )
}

/**
 * @param body of a letter
 * @returns whose something was in it, and the body without that, null where nothing else was in it; undefined where the
 * body cannot be read
 */
export function withoutUsers(
  kind: EntryKind,
  body: string,
  projectId: string,
  distinctIds: ReadonlySet<string>,
): { users: Set<string>; body: string | null } | undefined {
  try {
    const list = kind === 'events' ? (memberText(checked(body), 'events') ?? '[]') : checked(`[${body}]`)
    const users = new Set<string>()
    const all = elements(list).map(({ start, end }) => {
      const text = list.slice(start, end)
      const { project_id = projectId, distinct_id } = JSON.parse(text) as { project_id?: string; distinct_id?: unknown }
      if (typeof distinct_id !== 'string' || !distinctIds.has(distinct_id)) return text
      if (kind !== 'events' && project_id !== projectId) return text
      users.add(distinct_id)
      return null
    })
    const left = all.filter((text) => text !== null && text !== ERASED_EVENT)
    if (left.length === 0) return { users, body: null }
    if (kind !== 'events') return { users, body: left.join(',') }
    return { users, body: `{"events":[${all.map((text) => text ?? ERASED_EVENT).join(',')}]}` }
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined
    throw error
  }
}

/** @throws SyntaxError where the text is no JSON */
function checked(text: string): string {
  JSON.parse(text)
  return text
}
