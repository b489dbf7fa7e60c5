import { QuestionAnswer } from '../../contract/schemas.js'
import type { Call } from './call.js'

/** The calls about questions, by method and path. */
export const QUESTION_CALLS: Record<string, Call> = {
  'POST /public/query': {
    id: 'query',
    tag: 'Questions',
    summary: 'Ask a question about events',
    description:
      'A series, a funnel, retention, paths, or the users behind a number of one. It includes every event that was acknowledged ' +
      'before the call; if ClickHouse does not catch up within 5 s, `pending` says how many are missing.',
    access: 'read',
    example: {
      kind: 'series',
      series: [{ event: 'signed up', metric: 'users' }],
      from: '2024-12-10',
      to: '2024-12-11',
    },
    response: {
      schema: QuestionAnswer,
      example: {
        status: 1,
        error: null,
        kind: 'series',
        results: [
          {
            series: 0,
            breakdown: [],
            total: 1,
            points: [{ at: '2024-12-10T00:00:00+00:00', value: 1, complete: true }],
          },
        ],
        query: {
          kind: 'series',
          from: '2024-12-10',
          to: '2024-12-11',
          timezone: 'UTC',
          week_start: 'monday',
          where: null,
          series: [{ event: 'signed up', where: null, metric: 'users' }],
          interval: 'day',
          breakdown: [],
          limit: 10,
          other: true,
          approximate: false,
        },
        pending: 0,
        elapsed_ms: 12,
      },
    },
    errors: ['query_too_large', 'overloaded'],
  },
}
