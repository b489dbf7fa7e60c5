import type { EntryKind } from '../journal/journal.js'
import { elements, memberText } from '../json.js'
import type { ClickHouse, Scalars } from './clickhouse.js'
import { Fields, literal } from './fields.js'

/** Stands for an event that was erased, as the ids of those behind it go by their place; no accepted one looks like it. */
const ERASED_EVENT = '{"event":"","distinct_id":""}'

interface Letter {
  position: string
  journal_id: number
  kind: EntryKind
}

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
    const at: Scalars = { position: letter.position, journal: letter.journal_id }
    const where = 'position = {position:UInt64} AND journal_id = {journal:UInt32}'
    const chunks: Buffer[] = []
    for await (const chunk of await clickhouse.bytes(
      `SELECT body FROM dead_letters WHERE ${where} LIMIT 1 FORMAT RawBLOB`,
      at,
    )) {
      chunks.push(chunk)
    }
    const rest = withoutUsers(letter.kind, Buffer.concat(chunks).toString(), projectId, distinctIds)
    if (!rest) {
      found.unreadable++
      continue
    }
    if (rest.users.size === 0) continue
    for (const user of rest.users) found.erased.set(user, (found.erased.get(user) ?? 0) + 1)
    const change = rest.body === null ? `DELETE WHERE ${where}` : `UPDATE body = ${literal(rest.body)} WHERE ${where}`
    await clickhouse.command(`ALTER TABLE dead_letters ${change}`, at, { mutations_sync: '1' })
  }
  return found
}

/** A name with an escape in it can be spelled in many ways, so all letters that have escapes are looked into. */
async function lettersThatMayName(clickhouse: ClickHouse, projectId: string, names: string[]): Promise<Letter[]> {
  const fields = new Fields()
  return await clickhouse.rows<Letter>(
    `SELECT position, journal_id, kind FROM dead_letters
     WHERE project_id IN (${fields.text(projectId)}, '')
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
