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

/** Finds the names that occur as a value anywhere in a message: vendors use different fields. */
function namedIn(message: string, names: ReadonlySet<string>): string[] {
  const found: string[] = []
  try {
    JSON.parse(message, (_name, value) => {
      if (typeof value === 'string' && names.has(value)) found.push(value)
      return null
    })
  } catch {
    for (const name of names) if (message.includes(name)) found.push(name)
  }
  return found
}
