import { Connection } from '../client/connection.js'
import { type LiveText, liveTexts } from '../client/live.js'
import type { StoredEvent } from '../contract/responses.js'
import { memberText } from '../json/texts.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { parseEventId } from '../model/event-id.js'
import { checkService } from './check-service.js'
import { replaceControls } from './columns.js'
import { type Command, UsageError } from './command.js'
import { parseEventOptions, readTime, warnOfUnknownEvent } from './event-options.js'
import { OutputError, writeAll } from './output.js'
import { READ_TARGET_USAGE, readTarget } from './target.js'

const USAGE = `Usage: tallyhouse tail [options]

Prints events as they arrive, until Ctrl-C. A broken stream is resumed where it ended, so no event
is skipped or printed twice.

${READ_TARGET_USAGE}
  --format FORMAT    ndjson (default), an event per line as export writes it, or short: time, name,
                     user and properties
  --event NAME       only events with this name
  --distinct-id ID   only events of this user
  --session-id ID    only events of this session
  --from TIME        only events at or after this time, in milliseconds since 1970 or ISO 8601 (UTC
                     if it has no zone)
  --to TIME          only events before this time
  --after ID         starts after the event with this eventId (default: with events accepted from now
                     on)

The exit code is 0 after Ctrl-C or if the output is closed by its reader, 1 if the service cannot
be reached at the start or refuses the stream, or the output cannot be written, and 2 for a usage
error.`

export const command: Command = {
  summary: 'prints events of a running service as they arrive',
  usage: USAGE,
  async run(args, io) {
    const values = parseEventOptions(args, { format: { type: 'string', default: 'ndjson' }, after: { type: 'string' } })
    const { format, after } = values
    if (format !== 'ndjson' && format !== 'short') throw new UsageError('--format must be ndjson or short.')
    if (after !== undefined && !parseEventId(after)) throw new UsageError('--after must be the eventId of an event.')
    const { url, secretKey } = await readTarget(values, io)
    const from = readTime('--from', values.from)
    const to = readTime('--to', values.to)
    const connection = new Connection({ url, secretKey })
    const events = liveTexts(connection, {
      ...omitUndefined({
        event: values.event,
        distinct_id: values['distinct-id'],
        session_id: values['session-id'],
        lastEventId: after,
      }),
      ...(from !== undefined && { from: Number(from) }),
      ...(to !== undefined && { to: Number(to) }),
      signal: io.signal,
      onReconnect: (reason) => {
        io.stderr.write(`${reason?.message ?? 'The service ended the stream.'} Connecting again.\n`)
      },
    })
    try {
      await checkService(connection, url, 'read', io)
      if (values.event !== undefined) void warnOfUnknownEvent(connection, values.event, io)
      const width = io.stdout.isTTY ? io.stdout.columns : undefined
      await writeAll(lines(events, format === 'short' ? (event) => shortLine(event, width) : line), io)
    } catch (error) {
      if (!io.signal.aborted || error instanceof OutputError) throw error
    }
    return 0
  },
}

async function* lines(events: AsyncIterable<LiveText>, show: (event: LiveText) => string) {
  for await (const event of events) yield `${show(event)}\n`
}

/** Puts an event on one line. Line breaks occur only between tokens. */
function line({ text }: LiveText): string {
  return text.replaceAll('\n', ' ')
}

function shortLine({ text }: LiveText, width: number | undefined): string {
  const { timestamp, event, distinct_id } = JSON.parse(text) as StoredEvent
  const parts = [timeText(timestamp), event, distinct_id, memberText(text, 'properties') ?? '{}']
  return replaceControls(parts.join('  '), ' ').slice(0, width)
}

/** Formats a time. A `timestamp` may be beyond the range of `Date`. */
function timeText(ms: number): string {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString()
}
