import type { Append } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import type { WaitingEvent } from './commit-parts.js'

const OPEN = Buffer.from('{"events":[')
const COMMA = Buffer.from(',')
const CLOSE = Buffer.from(']}')

/** The entry that events of one sender share. */
export function entryOfEvents(events: WaitingEvent[], pool: BufferPool): Append {
  const { sender } = events[0] ?? {}
  if (!sender) throw new RangeError('an entry has at least one event')
  const body = joinEvents(
    events.map(({ body }) => body),
    pool,
  )
  const append: Append = { type: 'append', ...sender, count: events.length, body }
  const keys = events.map(({ key }) => key).filter((key) => key !== null)
  if (keys.length > 0) return { ...append, eventKeys: keys }
  const ids = events.map(({ insertId }) => insertId).filter((id) => id !== null)
  if (ids.length === 0) return append
  return { ...append, insertIds: { sender, digests: Buffer.concat(ids.map(({ digests }) => digests)) } }
}

/** Copies events into the body of one entry and releases them. */
export function joinEvents(events: Buffer[], pool: BufferPool): Buffer {
  const parts: Buffer[] = [OPEN]
  let length = OPEN.length + CLOSE.length - COMMA.length
  for (const event of events) {
    parts.push(event, COMMA)
    length += event.length + COMMA.length
  }
  parts[parts.length - 1] = CLOSE
  const body = pool.concat(parts, length)
  for (const event of events) pool.release(event)
  return body
}
