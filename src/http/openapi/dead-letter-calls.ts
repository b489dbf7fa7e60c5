import { DeadLetterPage, ReplayedDeadLetters } from '../../contract/dead-letter-schemas.js'
import type { Call } from './call.js'

const id = '1733788800000-0'
const success = { status: 1, error: null }

/** The calls about dead letters, by method and path. */
export const DEAD_LETTER_CALLS: Record<string, Call> = {
  'GET /public/dead-letters': {
    id: 'readDeadLetters',
    tag: 'Operation',
    summary: 'Read pages of what could not be stored, newest first',
    description:
      'Requests of the project that ClickHouse refused, and messages of other vendors’ SDKs that are not events, each with the ' +
      'reason. Those that were replayed since are included. `limit` is at most 100.',
    access: 'read',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: DeadLetterPage,
      example: {
        ...success,
        dead_letters: [
          {
            id,
            kind: 'events',
            reason: 'ClickHouse error 27: Cannot parse input',
            received_at: 1_733_788_800_000,
            replayed_at: null,
            entry: '{"events":[{"event":"signed up","distinct_id":"ada"}]}',
          },
        ],
        page: 1,
        limit: 10,
        hasMore: false,
      },
    },
    errors: ['invalid_request'],
  },
  'POST /public/dead-letters/replay': {
    id: 'replayDeadLetters',
    tag: 'Operation',
    summary: 'Try to store up to 100 dead letters again',
    description:
      'For example after an update. Events keep the ids that their response contained, and are stored once, however often ' +
      'they are replayed. `refused` says why the others were not stored.',
    access: 'manage',
    example: { ids: [id] },
    response: {
      schema: ReplayedDeadLetters,
      example: { ...success, replayed: 0, refused: [{ id, reason: 'No dead letter with this id is waiting.' }] },
    },
    errors: [],
  },
}
