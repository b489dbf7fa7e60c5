import { NoQuery, PropertiesQuery, ValuesQuery } from '../contract/query-schemas.js'
import { EventNames, FieldValues, PropertyNames } from '../contract/schemas.js'
import { describeCalls } from '../http/openapi/description.js'

export const CALLS = describeCalls('Questions', {
  readEventNames: {
    schema: { querystring: NoQuery },
    summary: 'List the names of events',
    description:
      'How many events there are of each name, deleted ones left out, and the earliest and the latest `timestamp`; the most ' +
      'frequent first, at most 10 000. It includes every event that was acknowledged before the call; if ClickHouse does not ' +
      'catch up within 5 s, `pending` says how many are missing.',
    response: {
      schema: EventNames,
      example: {
        events: [{ event: 'signed up', count: 1204, first_seen: 1_702_252_800_000, last_seen: 1_733_788_800_000 }],
        pending: 0,
      },
    },
    errors: ['query_too_large', 'overloaded'],
  },
  readPropertyNames: {
    schema: { querystring: PropertiesQuery },
    summary: 'List the properties of events',
    description:
      'Names at the top level and within objects, with the types of their values and examples, in the newest events, or in the newest events of one name ' +
      '(`sampled` says how many); the most frequent first. In a project of more than 100 000 events, the first list ' +
      'covers a few events and the next one more; it may be from the last call.',
    parameters: { event: 'signed up' },
    response: {
      schema: PropertyNames,
      example: {
        properties: [
          { property: 'plan', share: 0.98, types: [{ type: 'string', share: 1 }], examples: ['free', 'pro'] },
        ],
        fields: ['page.url', 'context.browser', 'session.seconds'],
        sampled: 1204,
        pending: 0,
      },
    },
    errors: ['query_too_large', 'overloaded'],
  },
  readFieldValues: {
    schema: { querystring: ValuesQuery },
    summary: 'List the values of a field of events',
    description:
      'In the newest events, or in those of one name (`sampled` says how many); the most frequent first. Values of more than 200 bytes are left ' +
      'out. In a project of more than 100 000 events, the first list covers a few events and the next one more; ' +
      'it may be from the last call.',
    parameters: { field: 'properties.plan', event: 'signed up', search: 'pr', limit: 10 },
    response: { schema: FieldValues, example: { values: [{ value: 'pro', count: 180 }], sampled: 1204, pending: 0 } },
    errors: ['query_too_large', 'overloaded'],
  },
})
