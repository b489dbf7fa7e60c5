import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Shards } from '../clickhouse/shards.js'
import type { ReplayedDeadLetters } from '../contract/dead-letter-schemas.js'
import { invalidFields } from '../contract/errors.js'
import { hangUpSignal } from '../http/reply.js'
import { replayDeadLetter } from '../ingest/replay.js'
import type { Journal } from '../journal/journal.js'
import { formatPosition, isPositionText, parsePosition } from '../model/position.js'
import type { Expiry } from '../projects/expiry.js'
import type { Barrier } from '../reads/read-barrier.js'
import { listDeadLetters, readDeadLetters } from '../store/dead-letters.js'
import { toOffset } from '../store/page.js'
import { CALLS } from './dead-letters.calls.js'

export interface DeadLettersOptions {
  shards: Shards
  noteDeletion: Journal['noteDeletion']
  barrier: Barrier
  expiry: Pick<Expiry, 'expireDeadLetters'>
}

/** Maximum length of an entry, and of a reason, which may quote an entry. */
const MAX_CHARACTERS = 10_000
/** Two journals may have used the same position. */
const MAX_PER_ID = 10
/** Dead letters are replayed one after another; those that are not reached within this time are reported as refused. */
const REPLAY_MS = 30_000

/** Lists and replays the dead letters of a project. */
export const deadLetters: FastifyPluginAsyncTypebox<DeadLettersOptions> = async (
  app,
  { shards, noteDeletion, barrier, expiry },
) => {
  app.get('/dead-letters', CALLS.readDeadLetters, async ({ projectId, query }) => {
    const { limit, page } = query
    await barrier.requireProject(projectId)
    // Expired events must not be shown or replayed, even before the next run removes them.
    await expiry.expireDeadLetters(projectId)
    const wanted = { projectId, limit: limit + 1, offset: toOffset(page, limit), maxCharacters: MAX_CHARACTERS }
    const found = await listDeadLetters(shards, wanted)
    return {
      status: 1,
      error: null,
      dead_letters: found.slice(0, limit).map(({ position, kind, reason, receivedAt, replayedAt, entry }) => ({
        id: formatPosition(position),
        kind,
        reason: reason.slice(0, MAX_CHARACTERS).toWellFormed(),
        received_at: receivedAt,
        replayed_at: replayedAt,
        entry,
      })),
      page,
      limit,
      hasMore: found.length > limit,
    }
  })

  app.post('/dead-letters/replay', CALLS.replayDeadLetters, async ({ projectId, body }, reply) => {
    checkIds(body.ids)
    const replayed = await replay(projectId, [...new Set(body.ids)], hangUpSignal(reply))
    return { status: 1, error: null, ...replayed }
  })

  async function replay(projectId: string, ids: string[], signal: AbortSignal) {
    const until = performance.now() + REPLAY_MS
    const result = { replayed: 0, refused: [] as ReplayedDeadLetters['refused'] }
    const at = ids.map(parsePosition)
    await expiry.expireDeadLetters(projectId)
    const found = await readDeadLetters(shards, { limit: at.length * MAX_PER_ID, at, projectId })
    const waiting = new Set(found.map(({ position }) => formatPosition(position)))
    for (const id of ids) {
      if (!waiting.has(id)) result.refused.push({ id, reason: 'No dead letter with this id is waiting.' })
    }
    for (const deadLetter of found) {
      if (signal.aborted) break
      const id = formatPosition(deadLetter.position)
      const outcome =
        performance.now() > until
          ? { isStored: false as const, reason: 'The replay ran out of time before this one. Replay it again.' }
          : await replayDeadLetter(shards, deadLetter, Date.now(), noteDeletion)
      if (outcome.isStored) result.replayed++
      else result.refused.push({ id, reason: outcome.reason.slice(0, MAX_CHARACTERS).toWellFormed() })
    }
    return result
  }
}

/** @throws ApiError `invalid_request` that names the invalid ids */
function checkIds(ids: string[]): void {
  const message = 'must be the id of a dead letter, such as 1760000000000-0'
  const details = ids.flatMap((id, i) => (isPositionText(id) ? [] : [{ path: `/ids/${i}`, message }]))
  if (details.length > 0) throw invalidFields(details)
}
