import { DeadLetterPage, DeadLettersQuery, ReplayBody, ReplayedDeadLetters } from '../contract/dead-letter-schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'

const id = '1733788800000-0'

export const CALLS = describeCalls('Operation', {
  readDeadLetters: {
    schema: { querystring: DeadLettersQuery },
    summary: 'List dead letters, newest first',
    description:
      'Requests of the project that ClickHouse refused, and messages of other vendors’ SDKs that are not events, each with the ' +
      'reason. Those that were replayed since are included. `limit` is at most 100.',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: DeadLetterPage,
      example: {
        dead_letters: [
          {
            id,
            kind: 'events',
            reason: 'ClickHouse error 27: Cannot parse input',
            received_at: EXAMPLE_TIME,
            replayed_at: null,
            entry: '{"events":[{"event":"signed up","distinct_id":"ada"}]}',
          },
        ],
        page: 1,
        limit: 10,
        hasMore: false,
      },
    },
  },
  replayDeadLetters: {
    schema: { body: ReplayBody },
    summary: 'Try to store up to 100 dead letters again',
    description:
      'For example after an update. Events keep the ids that their response contained, and are stored once, however often ' +
      'they are replayed. `refused` says why the others were not stored.',
    example: { ids: [id] },
    response: {
      schema: ReplayedDeadLetters,
      example: { replayed: 0, refused: [{ id, reason: 'No dead letter with this id is waiting.' }] },
    },
  },
})
