import type { KeyClass } from '../contract/key-class.js'

/**
 * A project and the class of key that it used. `insert_id`s and `Idempotency-Key`s are remembered separately for each.
 */
export interface Sender {
  projectId: string
  keyClass: KeyClass
}

/** By project, for each class of key. There are as many names as senders, and operators create the projects. */
const NAMES: Record<KeyClass, Map<string, string>> = { page: new Map(), secret: new Map() }

/**
 * The name under which the journals store a sender: `page:shop`. It is used as the key of maps for each event, and a
 * string that was just joined would have to be hashed each time.
 */
export function senderName({ projectId, keyClass }: Sender): string {
  const names = NAMES[keyClass]
  let name = names.get(projectId)
  if (name === undefined) {
    name = `${keyClass}:${projectId}`
    names.set(projectId, name)
  }
  return name
}

/** Parses the result of `senderName`. */
export function parseSender(name: string): Sender {
  const at = name.indexOf(':')
  return { keyClass: name.slice(0, at) === 'secret' ? 'secret' : 'page', projectId: name.slice(at + 1) }
}
