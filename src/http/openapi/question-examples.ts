import type { AnyAnswer, QuestionInput } from '../../contract/questions.js'
import type { Call } from './call.js'

const range = { from: '2024-12-10', to: '2024-12-11' }
const filled = { ...range, timezone: 'UTC', week_start: 'monday', where: null, sessions: 'id' } as const
const named = (event: string) => ({ event, where: null })

const of: QuestionInput & { kind: 'series' } = {
  kind: 'series',
  series: [{ event: 'signed up', metric: 'users' }],
  ...range,
}

const EXAMPLES: Record<
  string,
  [question: QuestionInput, answer: Pick<AnyAnswer, 'kind' | 'results' | 'query'> & object]
> = {
  funnel: [
    { kind: 'funnel', steps: [{ event: 'signed up' }, { event: 'order paid' }], window: '14d', ...range },
    {
      kind: 'funnel',
      results: [
        {
          breakdown: [],
          steps: [
            { users: 10, of_first: 1, of_previous: 1, median_ms: null, mean_ms: null },
            { users: 4, of_first: 0.4, of_previous: 0.4, median_ms: 86_400_000, mean_ms: 90_000_000 },
          ],
          complete: true,
        },
      ],
      query: {
        kind: 'funnel',
        ...filled,
        steps: [named('signed up'), named('order paid')],
        window: '14d',
        order: 'ordered',
        exclude: [],
        breakdown: [],
        limit: 10,
      },
    },
  ],
  retention: [
    { kind: 'retention', start: { event: 'signed up' }, return: { event: '*' }, intervals: 2, ...range },
    {
      kind: 'retention',
      results: [
        {
          cohort: '2024-12-10',
          size: 10,
          cells: [
            { interval: 0, users: 6, complete: true },
            { interval: 1, users: 0, complete: false },
          ],
        },
      ],
      averages: [
        { interval: 0, share: 0.6 },
        { interval: 1, share: null },
      ],
      query: {
        kind: 'retention',
        ...filled,
        start: named('signed up'),
        return: named('*'),
        cohort: 'first',
        unit: 'day',
        mode: 'calendar',
        count: 'on',
        intervals: 2,
      },
    } as Pick<AnyAnswer, 'kind' | 'results' | 'query'>,
  ],
  paths: [
    { kind: 'paths', start: { event: 'signed up' }, steps: 1, ...range },
    {
      kind: 'paths',
      results: {
        nodes: [
          { step: 0, event: 'signed up', users: 10 },
          { step: 1, event: 'activated', users: 6 },
        ],
        links: [{ step: 0, from: 'signed up', to: 'activated', users: 6 }],
      },
      query: { kind: 'paths', ...filled, start: named('signed up'), end: null, steps: 1, window: '30m', limit: 10 },
    },
  ],
  users: [
    { kind: 'users', of, cell: { series: 0 } },
    {
      kind: 'users',
      results: { users: ['ada'], count: 1, page: 1, limit: 50, hasMore: false },
      query: {
        kind: 'users',
        of: {
          kind: 'series',
          ...filled,
          series: [{ ...named('signed up'), metric: 'users' }],
          interval: 'day',
          breakdown: [],
          limit: 10,
          other: true,
          approximate: false,
        },
        cell: { series: 0, breakdown: [] },
        limit: 50,
        page: 1,
      },
    },
  ],
}

/** A question of every other kind than `series`, and its answer. */
export const MORE_QUESTIONS: NonNullable<Call['more']> = Object.fromEntries(
  Object.entries(EXAMPLES).map(([kind, [body, answer]]) => {
    return [kind, { body, response: { status: 1, error: null, ...answer, pending: 0, elapsed_ms: 12 } }]
  }),
)
