import { text } from 'node:stream/consumers'
import type { Shards } from '../clickhouse/shards.js'
import { using } from '../lib/using.js'
import { openFiles } from '../store/open.js'
import { describeSqlError, readSql } from '../store/sql.js'
import { type Command, type CommandIo, parseInteger, parseOptions, UsageError } from './command.js'
import { OutputError, writeAll } from './output.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse sql [options] [QUERY]

Runs a query on the store in ClickHouse's SQL and prints the result, for example

  tallyhouse sql "SELECT event, count() FROM events GROUP BY event ORDER BY 2 DESC"

Without QUERY, the query is read from standard input. Queries are read-only: they cannot
change anything, nor read files or other servers.

  --format FORMAT    table, tsv, csv, ndjson, json or parquet, or the name of any ClickHouse format,
                     such as Vertical. The default is table on a terminal, tsv otherwise; a FORMAT
                     clause in the query takes precedence
  --files FOLDER     query the files of FOLDER rather than the store: file('NAME') is the table in a
                     file, such as one written by tallyhouse export; file('*.parquet'), in several
  --timeout SECONDS  when to cancel the query, 1 to 3600 (default: 60)

The tables are events, profiles, sessions, aliases, saved (questions and boards), api_keys (hashes
only), key_usage, audit, projects (their settings), project_usage and dead_letters, and those that
docs/sql.md lists. Profiles, sessions, aliases, saved, keys and projects show their current state
without FINAL. Events of the last second may still be in the journal.

With several shards, these are the first shard's own tables; the ones whose names end in _all, such
as events_all, have the rows of all shards. A query that names a table without _all still runs, with
a warning on standard error.

The store is the one that the service's settings name: CLICKHOUSE_URL, or DATA_DIR. It does not
matter whether the service is running. Its address is printed to standard error.`

/** ClickHouse's names for our short ones, with a header line if the format has one. */
const FORMATS: Record<string, string> = {
  table: 'PrettyCompact',
  tsv: 'TSVWithNames',
  csv: 'CSVWithNames',
  ndjson: 'JSONEachRow',
  json: 'JSON',
  parquet: 'Parquet',
}
const MAX_SECONDS = 3600

export const command: Command = {
  summary: 'runs a read-only SQL query on the store',
  usage: USAGE,
  async run(args, io) {
    const { format, limitSeconds, query, files } = await parse(args, io)
    const readsFiles = files !== undefined
    const print = async (shards: Shards) => {
      try {
        const result = await readSql(shards, query, { format, limitSeconds, readsFiles, signal: io.signal })
        for (const table of result.ofFirstShard) {
          io.stderr.write(
            `${table} covers only the first of ${shards.all.length} shards; ${table}_all covers all of them.\n`,
          )
        }
        await writeAll(result.rows, io)
        return 0
      } catch (error) {
        if (io.signal.aborted) throw new Error('The query was interrupted.', { cause: error })
        if (error instanceof OutputError) throw error
        throw new Error(describeSqlError(error, limitSeconds), { cause: error })
      }
    }
    return await (readsFiles ? using(openFiles(files), ({ shards }) => print(shards)) : withStore(io, print))
  },
}

async function parse(args: string[], io: CommandIo) {
  const { values, positionals } = parseOptions({
    args,
    allowPositionals: true,
    options: { format: { type: 'string' }, timeout: { type: 'string', default: '60' }, files: { type: 'string' } },
  })
  if (positionals.length > 1) {
    throw new UsageError('Put the query in quotes: it must be one argument.')
  }
  const name = values.format ?? (io.stdout.isTTY ? 'table' : 'tsv')
  const format = Object.hasOwn(FORMATS, name) ? (FORMATS[name] ?? name) : name
  if (!/^[A-Za-z]\w*$/.test(format)) throw new UsageError(`--format must be the name of a format, not "${format}".`)
  const limitSeconds = parseInteger('--timeout', values.timeout, 1, MAX_SECONDS)
  const [query = await text(io.stdin)] = positionals
  if (query.trim() === '') throw new UsageError('The query is empty. Pass it as an argument, or on standard input.')
  return { format, limitSeconds, query, files: values.files }
}
