import { hash } from 'node:crypto'
import { DAILY_VISITOR_PREFIX, isDailyVisitor } from '../contract/user-names.js'
import type { Sender } from './sender.js'

/**
 * Bytes remembered per id: 4 that choose its lane, then 12 that identify it. Two ids of a project never share them by
 * chance. Finding a collision takes about 2^48 hashes and harms only the project whose keys were used.
 */
export const INSERT_ID_BYTES = 16
const ROUTE_BYTES = 4
const ID_BYTES = INSERT_ID_BYTES - ROUTE_BYTES

/** Ids outside of a write, and who sent them: only ids of the same sender make one known. */
export interface SentIds {
  sender: Sender
  /** INSERT_ID_BYTES each */
  digests: Buffer
}

/** Takes the place of the digest of an event without an id. */
export const NO_INSERT_ID: Buffer = Buffer.alloc(INSERT_ID_BYTES)

/**
 * Writes the digest of an event's id. Ids are unique per user: with another user, the same id belongs to another event.
 */
export function writeInsertId(
  to: Buffer,
  index: number,
  { projectId, distinctId, insertId }: { projectId: string; distinctId: string; insertId: string },
): void {
  const at = index * INSERT_ID_BYTES
  // A request of a daily visitor that is repeated after midnight has another name by then.
  const sender = isDailyVisitor(distinctId) ? DAILY_VISITOR_PREFIX : distinctId
  // The lengths separate the parts, because any part may contain any character.
  const user = `${projectId.length}:${projectId}${sender.length}:${sender}`
  // All daily visitors of a project would have the same lane.
  to.writeUInt32BE(hashUser(sender === distinctId ? user : user + insertId), at)
  to.write(hash('sha256', user + insertId, 'binary'), at + ROUTE_BYTES, ID_BYTES, 'latin1')
}

/**
 * Replaces the digest of an event that is to be stored although its id is known, because it was deleted. The lane stays
 * the same. The event is stored once for each `storedBefore`, epoch ms.
 */
export function renewInsertId(digests: Buffer, index: number, storedBefore: number): void {
  const id = insertIdAt(digests, index)
  id.write(hash('sha256', `${storedBefore}:${id.toString('hex')}`, 'binary'), ROUTE_BYTES, ID_BYTES, 'latin1')
}

/**
 * FNV-1a with the finalizer of MurmurHash3: spreads users over lanes at a tenth of the cost of a cryptographic digest.
 */
function hashUser(user: string): number {
  let bits = 0x811c9dc5
  for (let i = 0; i < user.length; i++) bits = Math.imul(bits ^ user.charCodeAt(i), 0x01000193)
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/**
 * The id of a change of a profile, which is remembered in the lane of the profile.
 * @param text what the client calls it
 */
export function toChangeId(stateKey: string, text: string): Buffer {
  const digest = hash('sha256', `change:${stateKey}${text}`, 'hex')
  const hex = stateKey.slice(0, 2 * ROUTE_BYTES) + digest.slice(0, 2 * ID_BYTES)
  return Buffer.from(hex, 'hex')
}

/** The id of rejected messages that all have ids, by which a repetition of their request is recognised. */
export function toRejectionId(projectId: string, messages: Buffer): Buffer {
  const digest = hash(
    'sha256',
    Buffer.concat([Buffer.from(`rejected:${projectId.length}:${projectId}`), messages]),
    'hex',
  )
  return Buffer.from(digest.slice(0, 2 * INSERT_ID_BYTES), 'hex')
}

/** The lane in which the id at an index is remembered. */
export function findInsertIdLane(insertIds: Buffer, index: number, lanes: number): number {
  return lanes === 1 ? 0 : insertIds.readUInt32BE(index * INSERT_ID_BYTES) % lanes
}

/** The id at an index. */
export function insertIdAt(insertIds: Buffer, index: number): Buffer {
  return insertIds.subarray(index * INSERT_ID_BYTES, (index + 1) * INSERT_ID_BYTES)
}

/** The indexes of the ids that are remembered in one lane. */
export function listInsertIds(insertIds: Buffer, lane: number, lanes: number): number[] {
  const own: number[] = []
  for (let i = 0; i < insertIds.length / INSERT_ID_BYTES; i++) {
    if (findInsertIdLane(insertIds, i, lanes) === lane) own.push(i)
  }
  return own
}

/** Selects the ids that are remembered in one lane. */
export function selectInsertIds(insertIds: Buffer, lane: number, lanes: number): Buffer {
  return Buffer.concat(listInsertIds(insertIds, lane, lanes).map((i) => insertIdAt(insertIds, i)))
}

/** Whether there is an id at an index. */
export function hasInsertId(insertIds: Buffer, index: number): boolean {
  const at = index * INSERT_ID_BYTES
  return NO_INSERT_ID.compare(insertIds, at, at + INSERT_ID_BYTES) !== 0
}
