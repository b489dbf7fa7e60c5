import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import * as results from '../contract/answer-schemas.js'
import { AnyQuestion, COUNTING, USERS } from '../contract/question-schemas.js'
import type { AnyAnswer, QuestionInput } from '../contract/questions.js'
import { QuestionBody, warnings, withFields } from '../contract/schemas.js'
import { type CallDescription, describeCalls } from '../http/openapi/description.js'

const answer = <T extends TProperties>(kind: string, schema: TSchema, extra: T, question: TSchema) =>
  withFields({
    kind: Type.Literal(kind),
    results: schema,
    ...extra,
    query: { ...question, description: 'The question with every default filled in.' },
    pending: Type.Integer({ description: 'Accepted events that the answer does not count yet.' }),
    elapsed_ms: Type.Integer(),
    warnings,
  })

const QuestionAnswer = Type.Union([
  answer('series', Type.Array(results.SeriesLine), { approximate: Type.Optional(Type.Literal(true)) }, COUNTING.series),
  answer('funnel', Type.Array(results.FunnelLine), {}, COUNTING.funnel),
  answer('retention', Type.Array(results.Cohort), { averages: results.Averages }, COUNTING.retention),
  answer('paths', results.PathsResults, {}, COUNTING.paths),
  answer('users', results.UsersPage, {}, Type.Union(Object.values(USERS))),
])

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
const MORE_QUESTIONS: NonNullable<CallDescription['more']> = Object.fromEntries(
  Object.entries(EXAMPLES).map(([kind, [body, answer]]) => {
    return [kind, { body, response: { ...answer, pending: 0, elapsed_ms: 12 } }]
  }),
)

export const CALLS = describeCalls('Questions', {
  query: {
    schema: { body: QuestionBody },
    config: { access: 'read' },
    summary: 'Ask a question about events',
    description:
      'A series, a funnel, retention, paths, or the users behind a number of an answer. The answer includes every event ' +
      'acknowledged before the call; if ClickHouse does not catch up within 5 s, `pending` says how many are missing. `warnings` names ' +
      'events, properties and values that do not exist, such as misspelled ones, and fields that are ignored.',
    body: AnyQuestion,
    more: MORE_QUESTIONS,
    example: {
      kind: 'series',
      series: [{ event: 'signed up', metric: 'users' }],
      from: '2024-12-10',
      to: '2024-12-11',
    },
    response: {
      schema: QuestionAnswer,
      example: {
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
          ...filled,
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
})
