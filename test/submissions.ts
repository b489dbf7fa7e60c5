import type { Submission } from '../src/ingest/group-commit.js'
import type { Sender } from '../src/model/sender.js'

/** A single event, as a route submits it. */
export function eventFrom(sender: Sender, body: Buffer): Submission {
  return { kind: 'event', ...sender, body, count: 1 }
}

/** A batch, as a route submits it. */
export function batchFrom(sender: Sender, body: Buffer, count: number): Submission {
  return { kind: 'batch', ...sender, body, count }
}
