import { parseArgs } from 'node:util'
import type { RowFormat } from '../../contract/formats.js'
import { parseCursor } from '../../model/cursor.js'
import { toMilliseconds } from '../../vendors/time.js'
import { runAll } from '../all.js'
import { type Command, UsageError } from '../command.js'
import { counted, number } from '../progress.js'
import { readTarget, TARGET_USAGE } from '../target.js'
import { exportEvents } from './export-file.js'

const FORMATS: readonly RowFormat[] = ['ndjson', 'csv', 'parquet']

const USAGE = `Usage: tallyhouse export [options]
       tallyhouse export --all FOLDER

Writes the events of a project in the order in which they were accepted, all of them or those that are asked for.

${TARGET_USAGE}
  --format FORMAT    ndjson, csv or parquet; ndjson where it is not given
  --output FILE      where the events go; standard output where it is not given. Parquet needs a folder: it gets numbered files
                     of up to 10 000 events each, which readers of Parquet take as one table (such as events-*.parquet)
  --event NAME       only events of this name
  --distinct-id ID   only those of this user
  --from TIME        only those at this time or later, in milliseconds since 1970 or ISO 8601 (UTC where it names no zone)
  --to TIME          only those before this time
  --since CURSOR     only those that were accepted after an earlier export, which said this cursor at its end
  --state FILE       where it is noted what is done; FILE.export.json beside the output where it is not given

An export to a file that was interrupted goes on when the same command is given again. At the end the number of events is
checked against the service's own count, and the cursor is said with which a later export goes on from there. The exit code is
0 where all events were written, 1 where they were not, 2 where the command was not understood.

With --all it does not talk to a service: it reads the store and the journal that the service's settings name (CLICKHOUSE_URL,
REDIS_URL, DATA_DIR) while the service is stopped, and writes everything into FOLDER: all projects, events with their ids,
profiles, sessions, keys and dead letters. import --all makes the same store of it elsewhere. Run it again to resume.`

export const command: Command = {
  summary: 'writes events of a running service to a file',
  usage: USAGE,
  async run(args, io) {
    if (args.some((arg) => /^--all(=|$)/.test(arg))) {
      return await runAll((await import('./export-all.js')).exportAll, args, io)
    }
    const values = parse(args)
    const format = FORMATS.find((candidate) => candidate === values.format)
    if (!format) throw new UsageError(`--format must be one of ${FORMATS.join(', ')}.`)
    const output = values.output === undefined || values.output === '-' ? null : values.output
    if (format === 'parquet' && output === null) {
      throw new UsageError('Parquet is written to several files. Name a folder for them with --output.')
    }
    if (output === null && values.state !== undefined) {
      throw new UsageError('Standard output cannot be gone on with, so --state needs --output.')
    }
    if (values.since !== undefined && parseCursor(values.since)?.order !== 'asc') {
      throw new UsageError('--since must be a cursor that an earlier export said at its end.')
    }
    const options = {
      target: await readTarget(values, io),
      format,
      filter: {
        event: values.event,
        distinct_id: values['distinct-id'],
        from: readTime('--from', values.from),
        to: readTime('--to', values.to),
      },
      since: values.since ?? null,
      output,
      stateFile: values.state,
    }
    const { rows, next, pending, isWhole } = await exportEvents(options, io)
    io.stderr.write(`${counted(rows, 'event')} exported${output === null ? '' : ` to ${output}`}.\n`)
    if (next !== null) io.stderr.write(`Later ones: --since ${next}\n`)
    if (pending > 0) {
      io.stderr.write(
        `${number(pending)} more were accepted that the store does not have yet. Give the same command again.\n`,
      )
    } else if (!isWhole) {
      io.stderr.write(`It was interrupted.${output === null ? '' : ' Give the same command again to go on.'}\n`)
    }
    return isWhole ? 0 : 1
  },
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        url: { type: 'string' },
        'key-file': { type: 'string' },
        format: { type: 'string', default: 'ndjson' },
        output: { type: 'string' },
        event: { type: 'string' },
        'distinct-id': { type: 'string' },
        from: { type: 'string' },
        to: { type: 'string' },
        since: { type: 'string' },
        state: { type: 'string' },
      },
    }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Digits are milliseconds, as in the service's own query; no ISO time is made of digits alone. */
function readTime(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^\d+$/.test(text)) return text
  const ms = toMilliseconds(text, 'iso')
  if (ms === null || ms < 0)
    throw new UsageError(`${name} must be milliseconds since 1970, or like 2024-01-31T12:00:00Z.`)
  return String(ms)
}
