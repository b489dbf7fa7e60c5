import { BatchQuery, SendQuery } from '../contract/query-schemas.js'
import { Accepted, BatchBody, Done, TrackBody } from '../contract/schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'
import { orScanned } from '../http/validator.js'
import { MAX_BATCH_WEIGHT } from '../json/complexity.js'

const BATCH_IDS =
  'What the request has stored: one id, or several separated by commas, for `POST /public/events/delete`; `none` if the ' +
  '`insert_id`s of all its events were known. A retry with the same `Idempotency-Key` gets the same.'

/**
 * In bytes. A smaller event is cheaper outside the pool: it is copied into an entry while it is
 * still young garbage.
 */
const MIN_POOLED_EVENT = 4 * 1024
/** The config of calls that send many events. */
const BATCH = { access: 'send', isBatch: true, pooledFrom: 0, maxWeight: MAX_BATCH_WEIGHT } as const

export const CALLS = describeCalls('Events', {
  track: {
    schema: { body: orScanned(TrackBody), querystring: SendQuery, response: { 200: Done } },
    config: { access: 'send', pooledFrom: MIN_POOLED_EVENT },
    summary: 'Ingest one event',
    description:
      'Acknowledged once the event is durable. With `insert_id`, it is stored once, however often it is sent within 7 days, alone or ' +
      'in a batch; a repetition gets the same response, without `x-event-id`.',
    example: {
      event: 'signed up',
      distinct_id: 'ada',
      properties: { plan: 'pro', price: 9.9 },
      timestamp: EXAMPLE_TIME,
    },
    isIdempotent: true,
    headers: { 'x-event-id': 'The event’s `eventId`.' },
    errors: ['too_old', 'quota_exceeded', 'overloaded'],
  },
  trackBatch: {
    schema: { body: orScanned(BatchBody), querystring: BatchQuery, response: { 200: Accepted } },
    config: BATCH,
    summary: 'Ingest 1 to 1000 events, all or none',
    description:
      'If one event is invalid, nothing is stored; `details` names the invalid ones by index, at most 100 of them. Of the events ' +
      'with one `insert_id` only the first within 7 days is stored; `accepted` counts the others, too. ' +
      '`warnings` names fields that are ignored, at most 20; of a large batch, those of its first events.',
    example: {
      events: [
        { event: 'signed up', distinct_id: 'ada', timestamp: EXAMPLE_TIME },
        { event: 'order paid', distinct_id: 'grace', properties: { total: 12.5 } },
      ],
    },
    isIdempotent: true,
    response: { example: { accepted: 2 } },
    headers: { 'x-batch-ids': BATCH_IDS },
    errors: ['too_many_events', 'too_old', 'quota_exceeded', 'overloaded'],
  },
  importEvents: {
    schema: { body: orScanned(BatchBody), querystring: BatchQuery, response: { 200: Accepted } },
    config: BATCH,
    summary: 'Ingest 1 to 1000 lines, one event each, all or none',
    description:
      'NDJSON: each line holds an event as `/public/track/batch` takes it, or as `/public/export` returns it; blank lines are skipped. ' +
      'Everything else is as for a batch: `/events/0` in `details` is the first line that is not blank. A line with unknown ' +
      'fields and no `properties` is refused. Send the key in the header.',
    example: `${JSON.stringify({ event: 'signed up', distinct_id: 'ada', timestamp: EXAMPLE_TIME })}\n${JSON.stringify({
      event: 'order paid',
      distinct_id: 'grace',
      properties: { total: 12.5 },
    })}\n`,
    isIdempotent: true,
    response: { example: { accepted: 2 } },
    headers: { 'x-batch-ids': BATCH_IDS },
    errors: ['too_many_events', 'too_old', 'quota_exceeded', 'overloaded'],
  },
})
