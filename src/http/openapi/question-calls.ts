import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import * as results from '../../contract/answer-schemas.js'
import { AnyQuestion, COUNTING, USERS } from '../../contract/question-schemas.js'
import { EventNames, FieldValues, PropertyNames, warnings, withFields } from '../../contract/schemas.js'
import type { Call } from './call.js'
import { MORE_QUESTIONS } from './question-examples.js'

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

const AnyAnswer = Type.Union([
  answer('series', Type.Array(results.SeriesLine), { approximate: Type.Optional(Type.Literal(true)) }, COUNTING.series),
  answer('funnel', Type.Array(results.FunnelLine), {}, COUNTING.funnel),
  answer('retention', Type.Array(results.Cohort), { averages: results.Averages }, COUNTING.retention),
  answer('paths', results.PathsResults, {}, COUNTING.paths),
  answer('users', results.UsersPage, {}, Type.Union(Object.values(USERS))),
])

/** The calls about questions, by method and path. */
export const QUESTION_CALLS: Record<string, Call> = {
  'POST /public/query': {
    id: 'query',
    tag: 'Questions',
    summary: 'Ask a question about events',
    description:
      'A series, a funnel, retention, paths, or the users behind a number of one. It includes every event that was acknowledged ' +
      'before the call; if ClickHouse does not catch up within 5 s, `pending` says how many are missing. `warnings` names ' +
      'events, properties and values that do not exist, such as misspelled ones, and fields that are ignored.',
    access: 'read',
    body: AnyQuestion,
    more: MORE_QUESTIONS,
    example: {
      kind: 'series',
      series: [{ event: 'signed up', metric: 'users' }],
      from: '2024-12-10',
      to: '2024-12-11',
    },
    response: {
      schema: AnyAnswer,
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
  'GET /public/schema/events': {
    id: 'readEventNames',
    tag: 'Questions',
    summary: 'List the names of events',
    description:
      'How many events there are of each name, deleted ones left out, and the earliest and the latest `timestamp`; the most ' +
      'frequent first, at most 10 000. It includes every event that was acknowledged before the call; if ClickHouse does not ' +
      'catch up within 5 s, `pending` says how many are missing.',
    access: 'read',
    response: {
      schema: EventNames,
      example: {
        status: 1,
        error: null,
        events: [{ event: 'signed up', count: 1204, first_seen: 1_702_252_800_000, last_seen: 1_733_788_800_000 }],
        pending: 0,
      },
    },
    errors: ['invalid_request', 'query_too_large', 'overloaded'],
  },
  'GET /public/schema/properties': {
    id: 'readPropertyNames',
    tag: 'Questions',
    summary: 'List the properties of events',
    description:
      'Names at the top level and within objects, with the types of their values and examples, in the newest events, or in those of one name ' +
      '(`sampled` says how many); the most frequent first. In a project of more than 100 000 events, the first list ' +
      'is of a few events and the next one of more; it may be from the last call.',
    access: 'read',
    parameters: { event: 'signed up' },
    response: {
      schema: PropertyNames,
      example: {
        status: 1,
        error: null,
        properties: [
          { property: 'plan', share: 0.98, types: [{ type: 'string', share: 1 }], examples: ['free', 'pro'] },
        ],
        fields: ['page.url', 'context.browser', 'session.seconds'],
        sampled: 1204,
        pending: 0,
      },
    },
    errors: ['invalid_request', 'query_too_large', 'overloaded'],
  },
  'GET /public/schema/values': {
    id: 'readFieldValues',
    tag: 'Questions',
    summary: 'List the values of a field of events',
    description:
      'In the newest events, or in those of one name (`sampled` says how many); the most frequent first. Values of more than 200 bytes are left ' +
      'out. In a project of more than 100 000 events, the first list is of a few events and the next one of more; ' +
      'it may be from the last call.',
    access: 'read',
    parameters: { field: 'properties.plan', event: 'signed up', search: 'pr', limit: 10 },
    response: {
      schema: FieldValues,
      example: { status: 1, error: null, values: [{ value: 'pro', count: 180 }], sampled: 1204, pending: 0 },
    },
    errors: ['invalid_request', 'query_too_large', 'overloaded'],
  },
}
