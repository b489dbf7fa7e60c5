import type { KeyClass } from '../contract/key-class.js'

/**
 * A project and the class of key that it used. `insert_id`s and `Idempotency-Key`s are remembered separately for each.
 */
export interface Sender {
  projectId: string
  keyClass: KeyClass
}

/** The name under which the journals store a sender: `page:shop`. */
export function senderName({ projectId, keyClass }: Sender): string {
  return `${keyClass}:${projectId}`
}

/** Parses the result of `senderName`. */
export function parseSender(name: string): Sender {
  const at = name.indexOf(':')
  return { keyClass: name.slice(0, at) === 'secret' ? 'secret' : 'page', projectId: name.slice(at + 1) }
}
