import type { KeyClass } from '../contract/key-class.js'

/** Who sends: a project, with one class of its keys. `insert_id`s and `Idempotency-Key`s are remembered for each apart. */
export interface Sender {
  projectId: string
  keyClass: KeyClass
}

/** A sender in one word, as the journals store it: `page:shop`. */
export function senderName({ projectId, keyClass }: Sender): string {
  return `${keyClass}:${projectId}`
}

/** The opposite of `senderName`. */
export function parseSender(name: string): Sender {
  const at = name.indexOf(':')
  return { keyClass: name.slice(0, at) === 'secret' ? 'secret' : 'page', projectId: name.slice(at + 1) }
}
