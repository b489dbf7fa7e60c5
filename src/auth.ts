import type { FastifyRequest, preValidationAsyncHookHandler } from 'fastify'
import { ContractError } from './errors.js'
import type { KeyKind, KeyRing } from './keys.js'
import { clientAddress } from './proxies.js'
import type { WrongKeys } from './rate-limits.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** the project of the request's key */
    projectId: string
    /** what a list of keys and the log call the request's key */
    keyId: string
    key: string
  }
}

const REFUSED: Record<KeyKind, string> = {
  secret: 'This call needs the secret key of the project; the key that came is the public one.',
  public:
    'This call needs the public key of the project; the key that came is the secret one, which must never be in a browser.',
}

/** Lets a request pass that has a key of the wanted kind, before anything else of it is checked. */
export function authenticate(keys: KeyRing, kind: KeyKind, wrongKeys: WrongKeys): preValidationAsyncHookHandler {
  return async (request, reply) => {
    const key = keyOf(request)
    const grant = keys.find(key) ?? (await keys.findNew(key))
    if (!grant && !keys.isComplete) {
      throw new ContractError('unavailable', 'The keys cannot be read at the moment. Try again in a moment.')
    }
    if (!grant) {
      wrongKeys.count(clientAddress(request), reply)
      throw new ContractError('unauthorized', 'The key is not known. Check the key and its project.')
    }
    request.keyId = grant.id
    request.projectId = grant.projectId
    if (grant.kind !== kind) throw new ContractError('wrong_key_kind', REFUSED[kind])
    request.key = key
  }
}

function bodyKey(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('apiKey' in body)) return undefined
  return body.apiKey ?? undefined
}

function keyOf({ headers, body }: FastifyRequest): string {
  const inHeader = headers['x-api-key']
  const inBody = bodyKey(body)
  if (inHeader === undefined && inBody === undefined) {
    throw new ContractError('unauthorized', 'A key is missing: send it as the field apiKey or as the header x-api-key.')
  }
  if (inHeader !== undefined && inBody !== undefined && inHeader !== inBody) {
    throw new ContractError('unauthorized', 'The keys in the header x-api-key and in the field apiKey differ.')
  }
  const text = inBody ?? inHeader
  if (typeof text !== 'string') throw new ContractError('unauthorized', 'The key must be a string.')
  return text
}
