import type { Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import type { LineBatch } from './line-batches.js'
import { IMPORT_RETRY, requireAll, type Sending } from './send.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }

/**
 * Sends the lines of a batch as they are, until they are acknowledged.
 * @returns how many of them the service had before; null if the service refuses some of them, and has stored none
 * @throws TallyhouseError if the batch fails for good
 */
export async function sendLines(
  connection: Connection,
  { body, count }: LineBatch,
  { key, storedBefore, signal }: Sending,
): Promise<number | null> {
  try {
    const call = {
      method: 'POST',
      path: `/public/import?stored_before=${storedBefore}`,
      body,
      headers: NDJSON,
      idempotencyKey: key,
    } as const
    return requireAll(await connection.call(call, { signal }, IMPORT_RETRY), count)
  } catch (error) {
    if (error instanceof TallyhouseError && (error.status === 400 || error.status === 413)) return null
    throw error
  }
}
