import { parseArgs } from 'node:util'
import { TIME_FORMATS } from '../../vendors/time.js'
import { VENDORS, type VendorName } from '../../vendors/vendors.js'
import { runAll } from '../all.js'
import { type Command, UsageError } from '../command.js'
import { counted, number } from '../progress.js'
import { readTarget, TARGET_USAGE } from '../target.js'
import { type FieldNames, OWN_NAMES } from './event-source.js'
import { UNANSWERED } from './find-stored.js'
import { FORMATS } from './formats.js'
import { type ImportOptions, importFile } from './import-file.js'
import { findInputs } from './input-files.js'

const USAGE = `Usage: tallyhouse import [options] [FILE...]
       tallyhouse import --all FOLDER

Sends the events in files, or in standard input, to a running service. They may be NDJSON, a JSON array or CSV with a header,
each also compressed by gzip, zstd or, in files named .br, Brotli, and in zip archives. Of a folder all files are imported, in the
order of their names. Properties in JSON are sent byte for byte.

${TARGET_USAGE}
  --format FORMAT    ndjson, json (an array) or csv; where it is not given, the first character tells
  --delimiter CHAR   between the cells of CSV; a comma where it is not given, "tab" for a tab
  --map LIST         which fields or columns are the event's, such as event=name,distinct_id=user,timestamp=ts,properties=data;
                     fields that are not in the list are looked for by their own names
  --time FORM        how times are written: iso (ISO 8601; without a zone it is UTC), s or ms (since 1970). Milliseconds
                     where it is not given; an input whose first time does not look like that is not imported
  --from VENDOR      reads the export of mixpanel, amplitude, posthog or segment: events, and what it says of people (Mixpanel's
                     profiles, PostHog's persons, Segment's identify and group, the user properties of Amplitude's events), whose
                     properties are set in their profiles in the order of the file
  --parallel N       batches under way at a time, 1 to 32 (4); with 1, events are stored in the order of the file
  --state FILE       where it is noted what is done; FILE.import.json beside the input where it is not given
  --unanswered WHAT  what is done with batches that were sent before an interruption and not answered, when the import goes on more
                     than 23 hours later, as the service knows for 24 hours what it has: check (looks for each in what the
                     service exports, and stops where it cannot be told, such as when events were changed since), send or skip
  --rejects FILE     where rows go that are no events, with their line and the reason; FILE.rejects.ndjson beside the input

The field properties holds an event's properties. Where a row has none, all its other fields are the properties; from CSV they are
strings, and empty cells are left out. Where a row has it, other fields are left out.

An import that was interrupted goes on when the same command is given again, and stores nothing twice. The exit code is 0 where
every row was stored, 1 where some were not, 2 where the command was not understood.

With --all it does not talk to a service: while the service is stopped, it makes the store that export --all has written into
FOLDER, in the empty one that the service's settings name (CLICKHOUSE_URL, REDIS_URL, DATA_DIR). Run it again to resume.`

export const command: Command = {
  summary: 'sends events from files to a running service',
  usage: USAGE,
  async run(args, io) {
    if (args.some((arg) => /^--all(=|$)/.test(arg))) {
      return await runAll((await import('./import-all.js')).importAll, args, io)
    }
    const { values, positionals } = parse(args)
    const { paths, unsupported } = await findInputs(positionals.length > 0 ? positionals : ['-'])
    if (unsupported.length > 0) io.stderr.write(`Skipped, as no import reads such files: ${unsupported.join(', ')}.\n`)
    if (paths.length === 0) throw new UsageError('There is no file to import in the folder.')
    if (paths.length > 1 && (values.state !== undefined || values.rejects !== undefined)) {
      throw new UsageError('--state and --rejects name the file of one input. Import the others by further commands.')
    }
    if (new Set(paths).size < paths.length) throw new UsageError('A file is named twice.')
    const options: ImportOptions = {
      target: await readTarget(values, io),
      names: readNames(values.map),
      time: oneOf('--time', values.time, TIME_FORMATS),
      from: oneOf('--from', values.from, Object.keys(VENDORS) as VendorName[]),
      format: oneOf('--format', values.format, FORMATS),
      delimiter: values.delimiter === 'tab' ? '\t' : values.delimiter,
      parallel: readParallel(values.parallel),
      unanswered: oneOf('--unanswered', values.unanswered, UNANSWERED) ?? 'check',
      stateFile: values.state,
      rejectsFile: values.rejects,
    }
    if (options.from && values.map !== undefined) {
      throw new UsageError('--from knows the fields of the vendor; leave --map out.')
    }
    if (!/^[\t !#-~]$/.test(options.delimiter)) {
      throw new UsageError('--delimiter must be one ASCII character that is no quote, or "tab".')
    }
    let accepted = 0
    let hasAll = true
    const startedAt = performance.now()
    for (const path of paths) {
      const imported = await importFile(path, options, io).catch((error: unknown) => {
        if (io.signal.aborted && isAbort(error)) return null
        throw error
      })
      if (!imported) {
        io.stderr.write('It was interrupted before it sent anything.\n')
        return 1
      }
      const { isWhole, goOn, ...done } = imported
      accepted += done.accepted
      hasAll &&= isWhole && done.rejected === 0
      const passedOver = done.passedOver > 0 ? `, ${number(done.passedOver)} passed over as no events` : ''
      const profiles = done.profiles ? `, ${counted(done.profiles, 'change')} of profiles made` : ''
      const name = path === '-' ? 'standard input' : path
      io.stderr.write(
        `${name}: ${counted(done.accepted, 'event')} stored${profiles}, ${number(done.rejected)} rejected${passedOver}.\n`,
      )
      if (!isWhole) {
        io.stderr.write(`It was interrupted. ${goOn}\n`)
        return 1
      }
    }
    const seconds = (performance.now() - startedAt) / 1000
    if (paths.length > 1) io.stderr.write(`${counted(accepted, 'event')} in ${seconds.toFixed(1)} s.\n`)
    return hasAll ? 0 : 1
  },
}

/** Of a stream, or of a call. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ABORT_ERR' || error.code === 'aborted')
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        url: { type: 'string' },
        'key-file': { type: 'string' },
        format: { type: 'string' },
        delimiter: { type: 'string', default: ',' },
        map: { type: 'string' },
        time: { type: 'string' },
        from: { type: 'string' },
        parallel: { type: 'string', default: '4' },
        state: { type: 'string' },
        unanswered: { type: 'string', default: 'check' },
        rejects: { type: 'string' },
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function oneOf<Word extends string>(name: string, word: string | undefined, words: readonly Word[]): Word | undefined {
  const found = words.find((candidate) => candidate === word)
  if (word !== undefined && !found) throw new UsageError(`${name} must be one of ${words.join(', ')}.`)
  return found
}

function readNames(map: string | undefined): FieldNames {
  const names = { ...OWN_NAMES }
  for (const pair of map?.split(',') ?? []) {
    const [, field = '', name = ''] = /^([^=]+)=(.+)$/.exec(pair.trim()) ?? []
    if (!Object.hasOwn(names, field) || name === '') {
      throw new UsageError(`--map must be like event=name,distinct_id=user,timestamp=ts,properties=data.`)
    }
    names[field as keyof FieldNames] = name
  }
  return names
}

function readParallel(text: string): number {
  if (!/^\d{1,2}$/.test(text) || Number(text) < 1 || Number(text) > 32) {
    throw new UsageError('--parallel must be a whole number from 1 to 32.')
  }
  return Number(text)
}
