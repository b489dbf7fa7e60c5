import type { Connection } from '../../../client/connection.js'
import { TallyhouseError } from '../../../client/errors.js'
import { readStoredIds, requireAll, type Sending, type StoredIds } from '../send.js'
import type { LineBatch } from './line-batches.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }

/**
 * Sends the lines of a batch unchanged until they are acknowledged.
 * @returns how many of them the service already had, and where the others are stored; null if the service refused
 * some and stored none
 * @throws TallyhouseError if the batch fails permanently; what `retry` throws
 */
export async function sendLines(
  connection: Connection,
  { body, count }: LineBatch,
  { key, storedBefore, retry, signal }: Pick<Sending, 'key' | 'storedBefore' | 'retry' | 'signal'>,
): Promise<(StoredIds & { known: number }) | null> {
  try {
    const call = {
      method: 'POST',
      path: `/public/import?stored_before=${storedBefore}`,
      body,
      headers: NDJSON,
      idempotencyKey: key,
    } as const
    const result = await connection.call(call, { signal }, retry())
    const known = requireAll(result, count)
    return { known, ...readStoredIds(result, count - known) }
  } catch (error) {
    if (error instanceof TallyhouseError && (error.status === 400 || error.status === 413)) return null
    throw error
  }
}
