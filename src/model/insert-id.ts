import { hash } from 'node:crypto'

/**
 * What is remembered of an id: 4 bytes by which its lane is chosen, then 12 that tell it from the others. Two ids of a
 * project with the same bytes do not occur by chance; a collision found on purpose, over 2^48 hashes, harms only the
 * project whose keys were used.
 */
export const INSERT_ID_BYTES = 16
const ROUTE_BYTES = 4
const ID_BYTES = INSERT_ID_BYTES - ROUTE_BYTES

/** In the place of an event without an id. */
export const NO_INSERT_ID: Buffer = Buffer.alloc(INSERT_ID_BYTES)

/** Writes the digest of an event's id. An id belongs to a user: the same one with another user is another event's. */
export function writeInsertId(
  to: Buffer,
  index: number,
  { projectId, distinctId, insertId }: { projectId: string; distinctId: string; insertId: string },
): void {
  const at = index * INSERT_ID_BYTES
  // Lengths keep the parts apart, as any character may be in any of them.
  const user = `${projectId.length}:${projectId}${distinctId.length}:${distinctId}`
  to.writeUInt32BE(routeOf(user), at)
  to.write(hash('sha256', user + insertId, 'binary'), at + ROUTE_BYTES, ID_BYTES, 'latin1')
}

/** FNV-1a with the last step of MurmurHash3, which spreads users over lanes for a tenth of what a digest costs. */
function routeOf(user: string): number {
  let bits = 0x811c9dc5
  for (let i = 0; i < user.length; i++) bits = Math.imul(bits ^ user.charCodeAt(i), 0x01000193)
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** The digest of the id of a change of a profile, which is remembered in the lane of the profile. */
export function changeId(stateKey: string, insertId: string): Buffer {
  const digest = hash('sha256', `change:${stateKey}${insertId}`, 'hex')
  return Buffer.from(stateKey.slice(0, 2 * ROUTE_BYTES) + digest.slice(0, 2 * ID_BYTES), 'hex')
}

/** The digest of rejected messages, all of which have ids, so that a repetition of their request is known. */
export function rejectionId(projectId: string, messages: Buffer): Buffer {
  const digest = hash(
    'sha256',
    Buffer.concat([Buffer.from(`rejected:${projectId.length}:${projectId}`), messages]),
    'hex',
  )
  return Buffer.from(digest.slice(0, 2 * INSERT_ID_BYTES), 'hex')
}

/** The lane in which the id at an index is remembered. */
export function laneOfInsertId(insertIds: Buffer, index: number, lanes: number): number {
  return lanes === 1 ? 0 : insertIds.readUInt32BE(index * INSERT_ID_BYTES) % lanes
}

/** Of these ids, those that are remembered in one lane. */
export function insertIdsOfLane(insertIds: Buffer, lane: number, lanes: number): Buffer {
  const own: Buffer[] = []
  for (let at = 0; at < insertIds.length; at += INSERT_ID_BYTES) {
    const isOwn = laneOfInsertId(insertIds, at / INSERT_ID_BYTES, lanes) === lane
    if (isOwn) own.push(insertIds.subarray(at, at + INSERT_ID_BYTES))
  }
  return Buffer.concat(own)
}

/** Whether there is an id at an index. */
export function hasInsertId(insertIds: Buffer, index: number): boolean {
  const at = index * INSERT_ID_BYTES
  return NO_INSERT_ID.compare(insertIds, at, at + INSERT_ID_BYTES) !== 0
}
