import type { ParseArgsConfig } from 'node:util'
import { Connection } from '../client/connection.js'
import type { RememberedIds } from '../contract/id-schemas.js'
import { KEY_CLASSES, type KeyClass } from '../contract/key-class.js'
import { checkService, requireKeyOf } from './check-service.js'
import { alignColumns, formatTime, jsonLines } from './columns.js'
import { type Command, type CommandIo, findAction, parseOptions, UsageError } from './command.js'
import { counted } from './progress.js'
import { readTarget, TARGET_OPTIONS, TARGET_USAGE, type TargetOptions } from './target.js'

const USAGE = `Usage: tallyhouse ids list [options]
       tallyhouse ids forget PROJECT [--kind page|secret] [options]

An event with an insert_id is stored once within seven days, so a running service remembers the ids:
up to MAX_INSERT_IDS for each project, lane and kind of key (page, meaning write and public keys,
or secret). If more arrive, the oldest are forgotten early.

list    prints how many ids of the key's project are remembered, and since when none is missing.
forget  forgets them and frees their memory, even while the journal is full. An event that is sent
        again afterwards is stored again. PROJECT must be the project of the key.

  --kind KIND        only the ids sent with keys of this kind: page or secret
  --json             prints the lines as JSON
${TARGET_USAGE}

The exit code is 0 if the list was printed or the ids were forgotten.`

/** Counting millions of ids takes seconds. */
const TIMEOUT_MS = 120_000

interface Options extends TargetOptions {
  kind?: string
  json?: boolean
}

const ACTIONS = {
  list: { ...TARGET_OPTIONS, json: { type: 'boolean' } },
  forget: { ...TARGET_OPTIONS, kind: { type: 'string' } },
} as const

export const command: Command = {
  summary: 'counts and forgets remembered insert_ids',
  usage: USAGE,
  async run([name, ...args], io) {
    const takes = findAction<NonNullable<ParseArgsConfig['options']>>(ACTIONS, name)
    const { values, positionals } = parseOptions({ args, options: takes, allowPositionals: true })
    const options = values as Options
    const kind = parseKind(options)
    const [project, more] = positionals
    if (name === 'forget' && project === undefined) throw new UsageError('Specify the project: forget PROJECT.')
    const extra = name === 'list' ? project : more
    if (extra !== undefined) throw new UsageError(`Unexpected argument "${extra}".`)
    const { url, secretKey } = await readTarget(options, io)
    const connection = new Connection({ url, secretKey, timeoutMs: TIMEOUT_MS })
    const { project: own } = await checkService(connection, url, 'send', io)
    if (name === 'list') {
      await list(connection, options, io)
    } else {
      requireKeyOf(project ?? '', own)
      await forget(connection, own, kind, io)
    }
    return 0
  },
}

async function list(connection: Connection, { json }: Options, io: CommandIo): Promise<void> {
  const { value } = await connection.call({ method: 'GET', path: '/public/ids' }, { signal: io.signal })
  const { ids } = value as unknown as { ids: RememberedIds[] }
  io.stdout.write(json ? jsonLines(ids) : table(ids))
}

async function forget(
  connection: Connection,
  project: string,
  kind: KeyClass | undefined,
  { signal, stderr }: CommandIo,
): Promise<void> {
  const path = kind === undefined ? '/public/ids' : `/public/ids?kind=${kind}`
  const { value } = await connection.call({ method: 'DELETE', path }, { signal })
  stderr.write(`${counted(Number(value.forgotten), 'id')} of ${project} forgotten.\n`)
}

function table(ids: readonly RememberedIds[]): string {
  const rows = ids.map(({ kind, lane, ids, since }) => [
    kind,
    String(lane),
    String(ids),
    since === null ? '7 days' : `since ${formatTime(since)}`,
  ])
  return alignColumns([['KIND', 'LANE', 'IDS', 'KNOWN'], ...rows])
}

function parseKind({ kind }: Options): KeyClass | undefined {
  const known = KEY_CLASSES.find((one) => one === kind)
  if (kind !== undefined && !known) throw new UsageError(`--kind must be page or secret, not "${kind}".`)
  return known
}
