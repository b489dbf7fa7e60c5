import type { Static } from '@sinclair/typebox'
import { EventParams, EventsQuery, NoQuery } from '../contract/query-schemas.js'
import { DeleteBatchesBody, DeletedBatches, Done, EditBody, EventPage, OneEvent } from '../contract/schemas.js'
import { describeCalls, EXAMPLE_EVENT } from '../http/openapi/description.js'

export const CALLS = describeCalls('Events', {
  readEvents: {
    schema: { querystring: EventsQuery },
    summary: 'Read events in the order of acceptance, or newest first',
    description:
      'Paging by `cursor` (the `next` of an earlier response) never skips or repeats an event, and neither does paging by ' +
      '`page` unless events are deleted in the meantime, which shifts later pages. The list includes every event acknowledged ' +
      'before the call; if ClickHouse does not catch up within 5 s, `pending` says how many are missing. NDJSON, CSV and Parquet, chosen by `format` or `Accept`, contain only rows, and the other fields become ' +
      'headers. The response is streamed; if reading fails after it has begun, the connection breaks before the response is ' +
      'complete. If a filter finds little within the time limit, a page requested without `page` contains what was found, perhaps ' +
      'nothing, and a `next` from which the search resumes.',
    parameters: { limit: 10, page: 1 },
    response: {
      schema: EventPage,
      example: { events: [EXAMPLE_EVENT], page: 1, limit: 10, hasMore: false, next: null, pending: 0 },
    },
    formats: ['ndjson', 'csv', 'parquet'],
    headers: {
      'x-next-cursor': '`next`, if the response has rows only; absent after the last page.',
      'x-has-more': '`hasMore`, if the response has rows only.',
      'x-pending': '`pending`, if the response has rows only.',
    },
  },
  readEvent: {
    schema: { params: EventParams, querystring: NoQuery },
    summary: 'Read one event',
    parameters: { eventId: EXAMPLE_EVENT.eventId },
    response: { schema: OneEvent, example: { event: EXAMPLE_EVENT } },
    errors: ['not_found'],
  },
  editEvent: {
    schema: { params: EventParams, body: EditBody, response: { 200: Done } },
    summary: 'Replace the properties of an event',
    description: 'Takes effect immediately.',
    parameters: { eventId: EXAMPLE_EVENT.eventId },
    example: { properties: { plan: 'free' } },
    errors: ['not_found'],
  },
  deleteEvent: {
    schema: { params: EventParams, querystring: NoQuery, response: { 200: Done } },
    summary: 'Delete an event',
    description: 'Takes effect immediately.',
    parameters: { eventId: EXAMPLE_EVENT.eventId },
    errors: ['not_found'],
  },
  deleteBatches: {
    schema: { querystring: NoQuery, body: DeleteBatchesBody, response: { 200: DeletedBatches } },
    audit: ({ body: { batches, dry_run: isDryRun } }: { body: Static<typeof DeleteBatchesBody> }) =>
      isDryRun ? null : { action: 'batches_deleted', changes: { batches: { from: null, to: new Set(batches).size } } },
    summary: 'Delete what batches have stored',
    description:
      'Deletes the events that 1 to 1000 requests to `/public/track/batch` or `/public/import` have stored, by the ids in ' +
      '`x-batch-ids` of their responses. An event that was skipped because its `insert_id` was known belongs to the request ' +
      'that stored it, and stays. Takes effect immediately, and can be repeated.',
    example: { batches: ['0193ae307c4200005eed1234'], dry_run: true },
    response: { example: { events: 1000, with_insert_id: 0 } },
  },
})
