import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Shards } from '../clickhouse/shards.js'
import type { RowFormat } from '../contract/formats.js'
import { ExportQuery } from '../contract/query-schemas.js'
import { acceptedFormat } from '../http/accept.js'
import { describeCalls, EXAMPLE_EVENT } from '../http/openapi/description.js'
import { rowHeaders, sendHeadOnly } from '../http/reply.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { formatCursor } from '../model/cursor.js'
import { firstIdAfter, lastIdAt } from '../model/event-id.js'
import { readCursor } from '../reads/event-reads.js'
import type { Barrier } from '../reads/read-barrier.js'
import { findRunEnd, readEventRun } from '../store/event-export.js'

export interface ExportOptions {
  shards: Shards
  barrier: Pick<Barrier, 'waitForProject'>
}

const CALLS = describeCalls('Events', {
  exportEvents: {
    schema: { querystring: ExportQuery },
    summary: 'Export all events as one stream',
    description:
      'Every event that was acknowledged before the call, in the order of acceptance, as fast as ClickHouse returns them. NDJSON, CSV ' +
      'or Parquet, by `format` or `Accept`. If reading fails after it has begun, the connection breaks before the response is ' +
      'complete. A later call with the `x-next-cursor` of this one starts where it ended: nothing is skipped or repeated.',
    parameters: { format: 'ndjson' },
    response: { type: 'ndjson', example: `${JSON.stringify(EXAMPLE_EVENT)}\n` },
    headers: {
      'x-next-cursor': 'The cursor from which a later call resumes after this export.',
      'x-has-more': 'Whether there are more events already, because of `limit`.',
      'x-pending':
        'How many accepted events are missing because the store did not catch up within 5 s. They come after `x-next-cursor`.',
    },
  },
})

/** All events of a project as one stream. */
export const exports: FastifyPluginAsyncTypebox<ExportOptions> = async (app, { shards, barrier }) => {
  app.get('/export', CALLS.exportEvents, async (request, reply) => {
    const { projectId, query, headers, signal, method } = request
    const { event, distinct_id: distinctId, from, to, session_id: sessionId, limit } = query
    const startAt = query.cursor === undefined ? undefined : readCursor(query.cursor, 'asc').id
    const { stored, pending } = await barrier.waitForProject(projectId)
    const filter = omitUndefined({ event, distinctId, from, to, sessionId })
    const events = { projectId, ...filter, ...omitUndefined({ startAt }), upTo: lastIdAt(stored) }
    // Later events sort after this id, so the cursor is known before the first row is sent.
    const before = limit === undefined ? null : await findRunEnd(shards, events, limit, { signal })
    const next = laterId(before ?? firstIdAfter(stored), startAt)
    const format = query.format ?? rowFormat(headers.accept)
    reply.headers(rowHeaders(format, { next: formatCursor(next), hasMore: before !== null, pending }))
    if (method === 'HEAD') return sendHeadOnly(reply)
    return await readEventRun(shards, format, { ...events, before }, { signal })
  })
}

/** Chooses the format; NDJSON for a program that accepts anything. */
function rowFormat(accept: string | undefined): RowFormat {
  const format = acceptedFormat(accept)
  return format === 'json' ? 'ndjson' : format
}

/** The id from which to resume the export; never before its start, even if the cursor was for a later time. */
function laterId(id: string, startAt: string | undefined): string {
  return startAt !== undefined && startAt > id ? startAt : id
}
