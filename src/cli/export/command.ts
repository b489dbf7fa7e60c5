import { extname } from 'node:path'
import { Connection } from '../../client/connection.js'
import type { RowFormat } from '../../contract/formats.js'
import { MAX_EXPORT } from '../../contract/limits.js'
import { parseCursor } from '../../model/cursor.js'
import { type Command, hasOption, parseInteger, UsageError } from '../command.js'
import { parseEventOptions, readTime, warnOfUnknownEvent } from '../event-options.js'
import { counted, number } from '../progress.js'
import { READ_TARGET_USAGE, readTarget } from '../target.js'
import { exportEvents } from './export-file.js'

const OUTPUT_FORMATS: readonly RowFormat[] = ['ndjson', 'csv', 'parquet']
/** Endings of compressed files. */
const COMPRESSED = new Set(['gz', 'zst', 'br', 'zip', 'bz2', 'xz'])
/**
 * Keeps files small enough to be read again after an interruption. Readers only hold one row group in memory anyway.
 */
const ROWS_PER_FILE = 1_000_000

const USAGE = `Usage: tallyhouse export [options]
       tallyhouse export --all FOLDER

Exports the events of a project, or a selection of them, in the order in which they were accepted.

${READ_TARGET_USAGE}
  --format FORMAT    ndjson, csv or parquet (default: the extension of FILE, or else ndjson)
  --output FILE      where to write the events (default: standard output). Parquet needs a
                     folder for its numbered files, which Parquet readers read as one table (for
                     example events-*.parquet)
  --rows-per-file N  maximum number of events in a Parquet file (default: 1 000 000)
  --event NAME       only events with this name
  --distinct-id ID   only events of this user
  --session-id ID    only events of this session
  --from TIME        only events at or after this time, in milliseconds since 1970 or ISO 8601 (UTC
                     if it has no zone)
  --to TIME          only events before this time
  --since CURSOR     only events accepted after an earlier export, which printed this cursor
  --state FILE       where to keep progress (default: FILE.export.json next to the output)

Transient failures are retried. An interrupted export to a file resumes when you rerun the command;
one that is complete is not repeated until you remove FILE and FILE.export.json.
At the end, the command compares the number of events with the service's own count, and prints the
cursor from which a later export continues. The exit code is 0 if all events were written, 1 if
not, and 2 for a usage error.

With --all, the command does not talk to a service. While the service is stopped, it reads the store
and the journal that the service's settings name (CLICKHOUSE_URL, REDIS_URL, DATA_DIR) and writes
everything to FOLDER: all projects, events with their ids, profiles, sessions, keys and dead
letters. import --all restores it elsewhere. Rerun it to resume.`

export const command: Command = {
  summary: 'writes events of a running service to a file',
  usage: USAGE,
  async run(args, io) {
    if (hasOption(args, 'all')) {
      const [{ transferAll }, { exportAll }] = await Promise.all([
        import('../transfer-all.js'),
        import('./export-all.js'),
      ])
      return await transferAll(exportAll, args, io)
    }
    const values = parseEventOptions(args, {
      format: { type: 'string' },
      output: { type: 'string' },
      'rows-per-file': { type: 'string' },
      since: { type: 'string' },
      state: { type: 'string' },
    })
    const output = values.output === undefined || values.output === '-' ? null : values.output
    const ending = extname(output ?? '')
      .slice(1)
      .toLowerCase()
    if (COMPRESSED.has(ending)) {
      throw new UsageError(
        `Exports are not compressed, so the name ${output} would be misleading. Pipe the output to gzip.`,
      )
    }
    const byName = OUTPUT_FORMATS.find((candidate) => candidate === ending) ?? 'ndjson'
    const format = OUTPUT_FORMATS.find((candidate) => candidate === (values.format ?? byName))
    if (!format) throw new UsageError(`--format must be one of ${OUTPUT_FORMATS.join(', ')}.`)
    if (format === 'parquet' && output === null) {
      throw new UsageError('Parquet is written to several files. Name a folder for them with --output.')
    }
    if (output === null && values.state !== undefined) {
      throw new UsageError('An export to standard output cannot be resumed, so --state needs --output.')
    }
    if (values.since !== undefined && parseCursor(values.since)?.order !== 'asc') {
      throw new UsageError('--since must be a cursor that an earlier export printed.')
    }
    const rowsPerFile = readRowsPerFile(values['rows-per-file'], format)
    const options = {
      target: await readTarget(values, io),
      format,
      rowsPerFile,
      filter: {
        event: values.event,
        distinct_id: values['distinct-id'],
        session_id: values['session-id'],
        from: readTime('--from', values.from),
        to: readTime('--to', values.to),
      },
      since: values.since ?? null,
      output,
      stateFile: values.state,
    }
    const { rows, next, pending, isWhole } = await exportEvents(options, io)
    io.stderr.write(`${counted(rows, 'event')} exported${output === null ? '' : ` to ${output}`}.\n`)
    if (rows === 0 && values.event !== undefined) {
      await warnOfUnknownEvent(new Connection(options.target), values.event, io)
    }
    if (next !== null) io.stderr.write(`To export later events: --since ${next}\n`)
    if (pending > 0) {
      io.stderr.write(`${number(pending)} more were accepted but are not in the store yet. Rerun the command.\n`)
    } else if (!isWhole) {
      io.stderr.write(`Interrupted.${output === null ? '' : ' Rerun the command to resume.'}\n`)
    }
    return isWhole ? 0 : 1
  },
}

function readRowsPerFile(text: string | undefined, format: RowFormat): number {
  if (text === undefined) return ROWS_PER_FILE
  if (format !== 'parquet') throw new UsageError('--rows-per-file needs --format parquet.')
  return parseInteger('--rows-per-file', text, 1, MAX_EXPORT)
}
