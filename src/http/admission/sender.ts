import type { FastifyRequest } from 'fastify'
import { keyClassOf } from '../../keys/keys.js'
import type { Sender } from '../../model/sender.js'

/** Who sends a request that was admitted by a key. */
export function senderOf({ projectId, keyKind }: Pick<FastifyRequest, 'projectId' | 'keyKind'>): Sender {
  if (keyKind === null) throw new Error('the request has no known key')
  return { projectId, keyClass: keyClassOf(keyKind) }
}
