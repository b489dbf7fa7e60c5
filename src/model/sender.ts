/**
 * The classes of keys: those that may be in a web page, where anybody reads them, and secret ones. What comes with one of them
 * never makes an event of the other known, or uses up what the other may have remembered.
 */
export type KeyClass = 'page' | 'secret'

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
