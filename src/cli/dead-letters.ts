import type { ParseArgsConfig } from 'node:util'
import type { Shards } from '../clickhouse/shards.js'
import { replayDeadLetter } from '../ingest/replay.js'
import { formatPosition, isPositionText, type Position, parsePosition } from '../model/position.js'
import { removeExpiredDeadLetters } from '../projects/expiry.js'
import { readProjects } from '../projects/projects.js'
import {
  countDeadLetters,
  type DeadLetter,
  readDeadLetterBody,
  readDeadLetters,
  walkDeadLetters,
} from '../store/dead-letters.js'
import { jsonLines, replaceControls } from './columns.js'
import { type Command, type CommandIo, findAction, parseInteger, parseOptions, UsageError } from './command.js'
import { writeAll } from './output.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse dead-letters list [--limit N] [--json]
       tallyhouse dead-letters show ID
       tallyhouse dead-letters replay ID...
       tallyhouse dead-letters replay --all

A dead letter is an accepted request, or several that were accepted together, that ClickHouse
refuses to store. It is kept unchanged, and does not block other requests.

list    lists the dead letters that are not stored yet, oldest first, up to --limit (default: 100),
        with the reason for each.
show    writes the body of a dead letter to standard output, byte for byte.
replay  tries to store dead letters again, for example after an update of ClickHouse or of this
        service. The events keep the ids that their response contained. A dead letter that is still
        refused is kept, and the exit code is 1. Ctrl-C lets the current one finish, which can take
        minutes while ClickHouse does not respond; a second Ctrl-C ends the command immediately.
        Rerun it after either: nothing is stored twice.

The service may be running. The store is the one that its settings name: CLICKHOUSE_URL, or
DATA_DIR. Its address is printed to standard error. With several shards, all must be up.`

/** Dead letters of one position that `find` reads. */
const PAGE = 100
const DEFAULT_LIMIT = 100
const MAX_LIMIT = 10_000

interface Arguments {
  limit: number
  json: boolean
  all: boolean
  positions: Position[]
}

interface Action {
  run(shards: Shards, args: Arguments, io: CommandIo): Promise<number>
  /** options of this action; others are refused, because they would have no effect */
  takes: NonNullable<ParseArgsConfig['options']>
}

const ACTIONS: Record<string, Action> = {
  list: { run: list, takes: { limit: { type: 'string' }, json: { type: 'boolean' } } },
  show: { run: show, takes: {} },
  replay: { run: replay, takes: { all: { type: 'boolean' } } },
}

export const command: Command = {
  summary: 'lists, shows and replays requests that could not be stored',
  usage: USAGE,
  async run([name = '', ...rest], io) {
    const action = findAction(ACTIONS, name)
    const args = parse(name, action, rest)
    return await withStore(io, async (shards) => {
      await removeExpiredDeadLetters(shards, await readProjects(shards), Date.now())
      return await action.run(shards, args, io)
    })
  },
}

async function list(shards: Shards, { limit, json }: Arguments, io: CommandIo): Promise<number> {
  const letters = await readDeadLetters(shards, { limit })
  if (json) {
    io.stdout.write(jsonLines(letters.map(toJsonFields)))
  } else {
    const width = Math.max(2, ...letters.map(({ position }) => formatPosition(position).length)) + 2
    io.stdout.write(`${'ID'.padEnd(width)}${row('RECEIVED', 'KIND', 'BYTES', 'PROJECT')}\n`)
    for (const letter of letters) {
      const { id, received_at, kind, bytes, project, reason } = toJsonFields(letter)
      io.stdout.write(`${id.padEnd(width)}${row(received_at, kind, String(bytes), project)}\n  ${firstLine(reason)}\n`)
    }
  }
  const more = letters.length < limit ? 0 : (await countDeadLetters(shards)) - letters.length
  if (more > 0) io.stderr.write(`${more} more: see --limit.\n`)
  return 0
}

async function show(shards: Shards, { positions }: Arguments, io: CommandIo): Promise<number> {
  await writeAll(bodies(await find(shards, positions)), io)
  return 0
}

async function* bodies(letters: DeadLetter[]) {
  for (const letter of letters) yield* await readDeadLetterBody(letter)
}

async function replay(shards: Shards, { all, positions }: Arguments, io: CommandIo): Promise<number> {
  let stored = 0
  let refused = 0
  for await (const letter of all ? walkDeadLetters(shards) : await find(shards, positions)) {
    if (io.signal.aborted) break
    const result = await replayDeadLetter(shards, letter, Date.now())
    if (result.isStored) stored++
    else refused++
    const outcome = result.isStored ? 'stored' : `still refused: ${firstLine(result.reason)}`
    io.stderr.write(`${formatPosition(letter.position)}  ${outcome}\n`)
  }
  io.stdout.write(`${stored} stored, ${refused} still refused.\n`)
  return refused > 0 || io.signal.aborted ? 1 : 0
}

/**
 * Finds dead letters by position. Two journals may have used the same position, so there can be more dead letters
 * than positions.
 * @throws Error if one of them does not exist
 */
async function find(shards: Shards, positions: Position[]): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = []
  for (const at of positions) {
    const found = await readDeadLetters(shards, { limit: PAGE, at: [at] })
    if (found.length === 0)
      throw new Error(`No dead letter ${formatPosition(at)} is waiting. See: tallyhouse dead-letters list`)
    letters.push(...found)
  }
  return letters
}

function parse(name: string, { takes }: Action, args: string[]): Arguments {
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options: takes })
  const given = values as { limit?: string; all?: boolean; json?: boolean }
  const { limit, all, json } = { limit: String(DEFAULT_LIMIT), all: false, json: false, ...given }
  const count = parseInteger('--limit', limit, 1, MAX_LIMIT)
  if (name === 'list' && positionals.length > 0) throw new UsageError('list takes no ID. To see one: show ID.')
  if (name === 'show' && positionals.length !== 1) throw new UsageError('Name the dead letter to show, by its ID.')
  if (name === 'replay' && positionals.length > 0 === all) {
    throw new UsageError('Name the dead letters to replay by their IDs, or use --all.')
  }
  const wrong = positionals.find((id) => !isPositionText(id))
  if (wrong !== undefined) throw new UsageError(`"${wrong}" is not the ID of a dead letter, such as 1760000000000-0.`)
  return { limit: count, json, all, positions: [...new Set(positionals)].map(parsePosition) }
}

/** The fields that `--json` prints. */
function toJsonFields({ position, projectId, kind, size, receivedAt, reason }: DeadLetter) {
  return {
    id: formatPosition(position),
    project: projectId,
    kind,
    bytes: size,
    received_at: new Date(receivedAt).toISOString(),
    reason,
  }
}

function row(received: string, kind: string, bytes: string, project: string): string {
  return `${received.padEnd(26)}${kind.padEnd(10)}${bytes.padStart(9)}  ${project}`
}

/** Shortens a reason to one line without control characters, because it may quote what the client sent. */
function firstLine(reason: string): string {
  const [line = ''] = reason.split('\n', 1)
  return replaceControls(line).slice(0, 300)
}
