import type { Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import type { LineBatch } from './line-batches.js'
import { IMPORT_RETRY, requireAll } from './send.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }

/**
 * Sends the lines of a batch as they are, until they are acknowledged.
 * @param key the `Idempotency-Key`
 * @returns false if the service refuses some of them, and has stored none
 * @throws TallyhouseError if the batch fails for good
 */
export async function sendLines(
  connection: Connection,
  { body, count }: LineBatch,
  key: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const call = { method: 'POST', path: '/public/import', body, headers: NDJSON, idempotencyKey: key } as const
    requireAll(await connection.call(call, { signal }, IMPORT_RETRY), count)
    return true
  } catch (error) {
    if (error instanceof TallyhouseError && (error.status === 400 || error.status === 413)) return false
    throw error
  }
}
