import { isNumber } from '../json/texts.js'
import { readJson } from '../json/value.js'

/** A message of a request that cannot be stored. */
export interface Rejected {
  /** why it cannot be stored; may quote the message */
  reason: string
  /** the text that was sent, without the API key */
  message: string
}

/** The body of an entry of kind `rejected`. */
export interface RejectedBody {
  /** the reasons of all messages, in one string */
  reason: string
  messages: readonly Rejected[]
}

/** Maximum number of different reasons in `RejectedBody.reason`. */
const MAX_REASONS = 5

/**
 * The members in which SDKs send the names of users. Only here does a number count as a name: elsewhere, it is more
 * likely a price or an amount.
 */
const NAME_MEMBERS: ReadonlySet<string | undefined> = new Set([
  ...['userId', 'anonymousId', 'previousId', 'profileId', 'alias'],
  ...['user_id', 'device_id', 'global_user_id', 'distinct_id', '$user_id', '$device_id', '$distinct_id'],
  ...['$distinct_ids', '$identified_id', '$anon_id', '$anon_distinct_id', '$distinct_id_before_identity'],
])

export function formatRejected(messages: readonly Rejected[]): Buffer {
  const reasons = [...new Set(messages.map(({ reason }) => reason))]
  const more = reasons.length > MAX_REASONS ? ['…'] : []
  const reason = [...reasons.slice(0, MAX_REASONS), ...more].join('; ')
  return Buffer.from(JSON.stringify({ reason, messages } satisfies RejectedBody))
}

export function parseRejected(body: Buffer | string): RejectedBody {
  return JSON.parse(body.toString()) as RejectedBody
}

/** Drops the messages that name one of these users, and returns which of the users they name. */
export function withoutNamed(
  { messages }: RejectedBody,
  names: ReadonlySet<string>,
): { users: Set<string>; left: Rejected[] } {
  const users = new Set<string>()
  const left = messages.filter(({ message }) => {
    const named = namedIn(message, names)
    for (const name of named) users.add(name)
    return named.length === 0
  })
  return { users, left }
}

/**
 * Finds the names that occur as a string anywhere in a message, or as a number in `NAME_MEMBERS`, which names a user as
 * it is spelled.
 */
function namedIn(message: string, names: ReadonlySet<string>): string[] {
  const json = readJson(Buffer.from(message))
  if (!json) return [...names].filter((name) => message.includes(name))
  const found: string[] = []
  for (const [member, leaf] of json.leaves()) {
    const { text } = leaf
    const name = isNumber(text) && NAME_MEMBERS.has(member) ? text : leaf.value
    if (typeof name === 'string' && names.has(name)) found.push(name)
  }
  return found
}
