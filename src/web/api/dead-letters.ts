import type { DeadLetterPage, ReplayedDeadLetters } from '../../contract/dead-letter-schemas.js'
import { call } from './call.js'

/** @throws CallError */
export async function listDeadLetters(page: number, limit: number, signal?: AbortSignal): Promise<DeadLetterPage> {
  const query = new URLSearchParams({ page: String(page), limit: String(limit) })
  return await call<DeadLetterPage>('GET', `/public/dead-letters?${query}`, undefined, signal)
}

/** Tries to store dead letters again, at most 100. @throws CallError */
export async function replayDeadLetters(ids: string[]): Promise<ReplayedDeadLetters> {
  return await call<ReplayedDeadLetters>('POST', '/public/dead-letters/replay', { ids })
}
