import type { ListedUser } from '../../api/users.js'
import { readMembers } from '../../lib/json-text.js'

/** A property of a user for a table: a text, a number that is shown exactly, or other values as JSON; null if not set. */
export function readCell({ text }: Pick<ListedUser, 'text'>, name: string): string | number | null {
  const token = readMembers(text).get(name)
  if (token === undefined || token === 'null') return null
  if (token.startsWith('"')) return JSON.parse(token)
  const number = Number(token)
  return String(number) === token ? number : token
}
