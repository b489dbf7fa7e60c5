import { resolve } from 'node:path'
import { describeNameFault, isName, isTimeZone } from '../../contract/limits.js'
import { TIME_FORMATS } from '../../vendors/time.js'
import { VENDORS, type VendorName } from '../../vendors/vendors.js'
import { replaceControls } from '../columns.js'
import { type Command, type CommandIo, hasOption, parseInteger, parseOptions, UsageError } from '../command.js'
import { counted, number } from '../progress.js'
import { readTarget, TARGET_OPTIONS, TARGET_USAGE } from '../target.js'
import { CELL_TYPES, type CellTypeName } from './cell-types.js'
import { becauseNoEvent } from './describe-input.js'
import { UNACKNOWLEDGED } from './find-stored.js'
import { INPUT_FORMATS } from './formats.js'
import { type Imported, importFile } from './import-file.js'
import { openFile, openStream } from './input.js'
import { findInputs } from './input-files.js'
import { inspect } from './inspect.js'
import { type FieldNames, OWN_NAMES } from './native-rows.js'
import type { ImportOptions, InputOptions } from './options.js'
import { formatUndo } from './resume.js'

const USAGE = `Usage: tallyhouse import [options] [FILE...]
       tallyhouse import --undo [--yes] FILE...
       tallyhouse import --all FOLDER

Sends events from files, or from standard input, to a running service. The input is NDJSON, a JSON
array, or CSV with a header line; it may be compressed with gzip, zstd or (files named .br) Brotli,
or be a zip archive. The files in a folder are imported in the order of their names.
Properties in JSON are sent byte for byte.

${TARGET_USAGE}
  --format FORMAT    ndjson, json (an array) or csv; by default, the first character decides
  --delimiter CHAR   the delimiter of CSV (default: a comma); "tab" for a tab
  --map LIST         the fields or columns of the event, for example
                     event=name,distinct_id=user,timestamp=ts,properties=data; a field that is not
                     in the list keeps its own name
  --event NAME       the event of rows without one
  --types LIST       the types of CSV columns, for example price=number,zip=text; number, boolean,
                     date or text. Without it, a column has the type that all its first cells fit.
                     A cell that does not fit stays text, and is counted; in a column of the list,
                     its row is rejected
  --time FORMAT      the format of times: iso (ISO 8601), or s, ms, us or ns since 1970. Without it,
                     it is detected from the first times
  --time-zone ZONE   the zone of ISO times without one, such as Europe/Berlin (default: UTC);
                     with --from mixpanel, the zone of a project from before 2023
  --dry-run          shows the first events as they would be stored, and what would be left out.
                     Needs no service, and sends nothing
  --from VENDOR      reads the export of another product. mixpanel, amplitude, posthog and segment are
                     read as their endpoints read the same messages: events with their ids, profile
                     changes and aliases. Mixpanel's profiles, PostHog's persons and the user
                     properties of Amplitude's events are set in the profiles. From umami, matomo
                     and ga4, each page view and event is stored with its visitor, visit and browser.
                     plausible exports no events, and the command says what to do
  --parallel N       batches in flight at a time, 1 to 32 (default: 8); with 1, events are stored in
                     the order of the file
  --state FILE       where to keep progress (default: FILE.import.json next to the input)
  --rejects FILE     where to write rejected rows, with line number and reason
                     (default: FILE.rejects.ndjson next to the input)
  --unanswered WHAT  what to do with batches that were sent but not acknowledged if an import
                     resumes more than 23 hours later (the service detects duplicates for 24
                     hours): check looks each batch up in the service, and stops if the outcome is
                     unclear because events have changed since (default); send sends them again;
                     skip leaves them out

The field "properties" holds an event's properties. If a row has it, unknown fields are ignored.
Otherwise, they become the properties; empty CSV cells are left out.

The beginning of each input is checked before anything is sent. If it cannot be right, for example
because a column is missing or no row is an event, nothing is stored, and the command says why.

Transient failures are retried. An interrupted import resumes when you rerun the command, and no
event is stored twice. The exit code is 0 if every row was stored, 1 if not, and 2 for a usage
error.

With --undo, the command deletes the events that the import of each FILE stored, after showing their
number and asking. Events that were already stored, those of other imports of the same rows, and
changes of profiles and aliases stay. --yes deletes without asking; --dry-run only counts. It
needs FILE.import.json and FILE.import.json.ids, which the import wrote, but not FILE itself.
Rerun it if it is interrupted. FILE can be imported again afterwards.

With --all, the command does not talk to a service. While the service is stopped, it restores what
export --all wrote to FOLDER into the empty store that the service's settings name (CLICKHOUSE_URL,
REDIS_URL, DATA_DIR). Rerun it to resume.`

export const command: Command = {
  summary: 'sends events from files to a running service',
  usage: USAGE,
  async run(args, io) {
    if (hasOption(args, 'all')) {
      const [{ transferAll }, { importAll }] = await Promise.all([
        import('../transfer-all.js'),
        import('./import-all.js'),
      ])
      return await transferAll(importAll, args, io)
    }
    const { values, positionals } = parse(args)
    const { paths, unsupported } = await findInputs(positionals.length > 0 ? positionals : ['-'])
    if (unsupported.length > 0) {
      const names = replaceControls(unsupported.join(', '))
      io.stderr.write(`Skipped, because these file types cannot be imported: ${names}.\n`)
    }
    if (paths.length === 0) throw new UsageError('The folder contains no file to import.')
    if (paths.length > 1 && (values.state !== undefined || values.rejects !== undefined)) {
      throw new UsageError('--state and --rejects are for a single input. Run the command once per file.')
    }
    if (paths[0] === '-' && values.state !== undefined) {
      throw new UsageError('An import from standard input cannot be resumed, so --state needs a FILE.')
    }
    for (const own of [values.state, values.rejects]) {
      if (own !== undefined && resolve(own) === resolve(paths[0] ?? '')) {
        throw new UsageError(`${own} is the input, and would be overwritten. Name another file.`)
      }
    }
    if (new Set(paths).size < paths.length) throw new UsageError('A file is listed twice.')
    if (values.undo) return await undo(paths, values, io)
    if (values.yes) throw new UsageError('--yes is for --undo.')
    if (values['dry-run']) return await dryRun(paths, readInputOptions(values), io)
    return await importAllFiles(paths, await readOptions(values, io), io)
  },
}

/** @returns the exit code */
async function importAllFiles(paths: string[], options: ImportOptions, io: CommandIo): Promise<number> {
  let accepted = 0
  let hasAll = true
  const report = (text: string) => void io.stderr.write(`${replaceControls(text)}\n`)
  const startedAt = performance.now()
  for (const path of paths) {
    const imported = await importFile(path, options, io).catch((error: unknown) => {
      if (io.signal.aborted && isAbort(error)) return null
      throw error
    })
    if (!imported) {
      io.stderr.write('Interrupted before anything was sent.\n')
      return 1
    }
    accepted += imported.accepted
    hasAll &&= imported.isWhole && imported.rejected === 0 && !imported.hasChanged
    report(`${path === '-' ? 'standard input' : path}: ${summarize(imported)}.`)
    if (imported.hasChanged) {
      report(
        `${path} has changed during the import, so what was stored may match neither its old nor its new content. To import it as it is now, undo this import first: ${formatUndo(path, options.stateFile)}`,
      )
    }
    if (!imported.isWhole) {
      report(`Interrupted. ${imported.hint}`)
      return 1
    }
  }
  const seconds = (performance.now() - startedAt) / 1000
  if (paths.length > 1) io.stderr.write(`${counted(accepted, 'event')} in ${seconds.toFixed(1)} s.\n`)
  return hasAll ? 0 : 1
}

function summarize({ accepted, rejected, skipped, profiles, known, refused }: Imported): string {
  const changes = profiles ? `, ${counted(profiles, 'profile change')} made` : ''
  const before = known ? `, ${number(known)} already stored` : ''
  const others = skipped > 0 ? `, ${number(skipped)} skipped ${becauseNoEvent(skipped)}` : ''
  const links = refused ? `, ${counted(refused, 'user change')} refused (see the rejects file)` : ''
  return `${counted(accepted, 'event')} stored${before}${changes}, ${number(rejected)} rejected${others}${links}`
}

/** Whether this is the error of an aborted stream or call. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ABORT_ERR' || error.code === 'aborted')
}

/** @returns the exit code */
async function undo(paths: string[], values: Values, io: CommandIo): Promise<number> {
  if (paths[0] === '-') throw new UsageError('--undo needs the FILE that was imported.')
  const { undoImports } = await import('./undo.js')
  const { state: stateFile, yes: isSure, 'dry-run': isDryRun } = values
  return await undoImports(paths, { target: await readTarget(values, io), stateFile, isSure, isDryRun }, io)
}

/**
 * Shows what the inputs would become, without contacting a service.
 * @returns the exit code
 */
async function dryRun(paths: string[], options: InputOptions, io: CommandIo): Promise<number> {
  const { describeDryRun } = await import('./describe-input.js')
  let hasAll = true
  for (const path of paths) {
    const input = path === '-' ? openStream(io.stdin, io.signal) : await openFile(path)
    try {
      const inspected = await inspect(input, options)
      io.stdout.write(describeDryRun(input.name, inspected, options))
      hasAll &&= inspected.faults.length === 0
    } finally {
      if (path === '-') io.stdin.destroy()
    }
  }
  return hasAll ? 0 : 1
}

type Values = ReturnType<typeof parse>['values']

async function readOptions(values: Values, io: CommandIo): Promise<ImportOptions> {
  return {
    ...readInputOptions(values),
    target: await readTarget(values, io),
    parallel: parseInteger('--parallel', values.parallel, 1, 32),
    unacknowledged: parseChoice('--unanswered', values.unanswered, UNACKNOWLEDGED) ?? 'check',
    stateFile: values.state,
    rejectsFile: values.rejects,
  }
}

function readInputOptions(values: Values): InputOptions {
  const options: InputOptions = {
    names: readNames(values.map),
    time: parseChoice('--time', values.time, TIME_FORMATS),
    zone: values['time-zone'],
    event: values.event,
    types: readTypes(values.types),
    from: parseChoice('--from', values.from, Object.keys(VENDORS) as VendorName[]),
    format: parseChoice('--format', values.format, INPUT_FORMATS),
    delimiter: values.delimiter === 'tab' ? '\t' : values.delimiter,
  }
  for (const name of ['event', 'types', 'time-zone'] as const) {
    const isOfMixpanel = options.from === 'mixpanel' && name === 'time-zone'
    if (options.from && !isOfMixpanel && values[name] !== undefined) {
      throw new UsageError(`--from already knows the vendor's fields; leave --${name} out.`)
    }
  }
  if (options.zone !== undefined && !isTimeZone(options.zone)) {
    throw new UsageError('--time-zone must be an IANA name, such as Europe/Berlin.')
  }
  if (options.zone !== undefined && !options.from && options.time !== undefined && options.time !== 'iso') {
    throw new UsageError(`--time-zone is for times in ISO 8601; ${options.time} has no zone.`)
  }
  if (options.event !== undefined && !isName(options.event)) {
    throw new UsageError(`--event ${describeNameFault(options.event)}.`)
  }
  if (options.from && values.map !== undefined) {
    throw new UsageError("--from already knows the vendor's fields; leave --map out.")
  }
  if (!/^[\t !#-~]$/.test(options.delimiter)) {
    throw new UsageError('--delimiter must be one ASCII character other than a quote, or "tab".')
  }
  return options
}

function parse(args: string[]) {
  return parseOptions({
    args,
    allowPositionals: true,
    options: {
      ...TARGET_OPTIONS,
      format: { type: 'string' },
      delimiter: { type: 'string', default: ',' },
      map: { type: 'string' },
      time: { type: 'string' },
      'time-zone': { type: 'string' },
      event: { type: 'string' },
      types: { type: 'string' },
      'dry-run': { type: 'boolean', default: false },
      from: { type: 'string' },
      undo: { type: 'boolean', default: false },
      yes: { type: 'boolean', default: false },
      parallel: { type: 'string', default: '8' },
      state: { type: 'string' },
      unanswered: { type: 'string', default: 'check' },
      rejects: { type: 'string' },
    },
  })
}

function parseChoice<Word extends string>(
  name: string,
  word: string | undefined,
  words: readonly Word[],
): Word | undefined {
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

function readTypes(list: string | undefined): InputOptions['types'] {
  const types: [column: string, type: CellTypeName][] = []
  for (const pair of list?.split(',') ?? []) {
    const [, column = '', word] = /^(.+)=(\w+)$/.exec(pair.trim()) ?? []
    const type = CELL_TYPES.find((candidate) => candidate === word)
    if (!type)
      throw new UsageError(`--types must be like price=number,zip=text. The types are ${CELL_TYPES.join(', ')}.`)
    types.push([column, type])
  }
  return Object.fromEntries(types)
}
