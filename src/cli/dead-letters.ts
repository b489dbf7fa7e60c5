import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import type { ClickHouse } from '../clickhouse/client.js'
import { formatPosition, type Position, parsePosition } from '../model/position.js'
import { replayDeadLetter } from '../pipeline/replay.js'
import { countDeadLetters, type DeadLetter, readDeadLetterBody, readDeadLetters } from '../store/dead-letters.js'
import { type Command, type CommandIo, UsageError } from './command.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse dead-letters list [--limit N] [--json]
       tallyhouse dead-letters show ID
       tallyhouse dead-letters replay ID...
       tallyhouse dead-letters replay --all

A dead letter is an accepted request, or several that were accepted together, that ClickHouse could not read in any
spelling. It is kept as it is, and nothing else waits for it.

list    shows the letters that wait, oldest first, up to --limit (100), with the reason for each.
show    writes a letter's body to the output, byte for byte.
replay  stores letters, as after an update of ClickHouse or of this service. The events get the ids that they were
        answered with. One that was stored is not offered again; one that is still refused stays, and the exit code is 1.
        A replay may be cut off and repeated at any time: nothing is stored twice.

The service may run meanwhile. Its own settings say where the letters are: CLICKHOUSE_URL, or DATA_DIR.`

/** Letters that are asked for at once by `replay --all`. */
const PAGE = 100
const DEFAULT_LIMIT = 100
const MAX_LIMIT = 10_000
const ID = /^\d{1,15}-\d{1,5}$/

interface Arguments {
  limit: number
  json: boolean
  all: boolean
  positions: Position[]
}

type Action = (clickhouse: ClickHouse, args: Arguments, io: CommandIo) => Promise<number>

const ACTIONS: Record<string, Action> = { list, show, replay }

export const command: Command = {
  summary: 'lists, shows and replays what could not be stored',
  usage: USAGE,
  async run([name = '', ...rest], io) {
    const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined
    if (!action) throw new UsageError('Say what to do with the dead letters: list, show or replay.')
    const args = parse(name, rest)
    return await withStore(io, (clickhouse) => action(clickhouse, args, io))
  },
}

async function list(clickhouse: ClickHouse, { limit, json }: Arguments, io: CommandIo): Promise<number> {
  const letters = await readDeadLetters(clickhouse, { limit })
  if (json) {
    for (const letter of letters) io.stdout.write(`${JSON.stringify(described(letter))}\n`)
  } else {
    const width = Math.max(2, ...letters.map(({ position }) => formatPosition(position).length)) + 2
    io.stdout.write(`${'ID'.padEnd(width)}${row('RECEIVED', 'KIND', 'BYTES', 'PROJECT')}\n`)
    for (const letter of letters) {
      const { id, received_at, kind, bytes, project, reason } = described(letter)
      io.stdout.write(`${id.padEnd(width)}${row(received_at, kind, String(bytes), project)}\n  ${firstLine(reason)}\n`)
    }
  }
  const more = letters.length < limit ? 0 : (await countDeadLetters(clickhouse)) - letters.length
  if (more > 0) io.stderr.write(`${more} more: see --limit.\n`)
  return 0
}

async function show(clickhouse: ClickHouse, { positions }: Arguments, io: CommandIo): Promise<number> {
  for (const letter of await find(clickhouse, positions)) {
    await pipeline(await readDeadLetterBody(clickhouse, letter), io.stdout, { end: false })
  }
  return 0
}

async function replay(clickhouse: ClickHouse, { all, positions }: Arguments, io: CommandIo): Promise<number> {
  let stored = 0
  let refused = 0
  for await (const letter of all ? waiting(clickhouse) : await find(clickhouse, positions)) {
    if (io.signal.aborted) break
    const result = await replayDeadLetter(clickhouse, letter, Date.now(), io.signal)
    if (result.isStored) stored++
    else refused++
    const said = result.isStored ? 'stored' : `still refused: ${firstLine(result.reason)}`
    io.stderr.write(`${formatPosition(letter.position)}  ${said}\n`)
  }
  io.stdout.write(`${stored} stored, ${refused} still refused.\n`)
  return refused > 0 || io.signal.aborted ? 1 : 0
}

async function* waiting(clickhouse: ClickHouse): AsyncGenerator<DeadLetter> {
  let after: DeadLetter | undefined
  do {
    const letters = await readDeadLetters(clickhouse, { limit: PAGE, ...(after && { after }) })
    yield* letters
    after = letters.at(-1)
  } while (after)
}

/** All of the named letters, or none: two journals may have given the same position, so there may be more than names. */
async function find(clickhouse: ClickHouse, positions: Position[]): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = []
  for (const at of positions) {
    const found = await readDeadLetters(clickhouse, { limit: PAGE, at })
    if (found.length === 0) throw new Error(`No dead letter ${formatPosition(at)} waits. See: dead-letters list.`)
    letters.push(...found)
  }
  return letters
}

function parse(name: string, args: string[]): Arguments {
  const { values, positionals } = parsed(args)
  const { limit, all, json } = { limit: String(DEFAULT_LIMIT), all: false, json: false, ...values }
  const count = Number(limit)
  if (!/^\d+$/.test(limit) || count < 1 || count > MAX_LIMIT) {
    throw new UsageError(`--limit must be a whole number from 1 to ${MAX_LIMIT}.`)
  }
  if (name === 'list' && positionals.length > 0) throw new UsageError('list takes no ID. To see one: show ID.')
  if (name === 'show' && positionals.length !== 1) throw new UsageError('Name the one letter to show, by its ID.')
  if (name === 'replay' && positionals.length > 0 === all) {
    throw new UsageError('Name the letters to replay by their IDs, or say --all.')
  }
  const wrong = positionals.find((id) => !ID.test(id))
  if (wrong !== undefined) throw new UsageError(`"${wrong}" is no ID of a dead letter, such as 1760000000000-0.`)
  return { limit: count, json, all, positions: [...new Set(positionals)].map(parsePosition) }
}

function parsed(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: { limit: { type: 'string' }, all: { type: 'boolean' }, json: { type: 'boolean' } },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** As `--json` shows it. */
function described({ position, projectId, kind, size, receivedAt, reason }: DeadLetter) {
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

/** A reason quotes what the client sent: one line of it, with nothing that a terminal would obey. */
function firstLine(reason: string): string {
  const [line = ''] = reason.split('\n', 1)
  return line.replace(/\p{Cc}/gu, '\uFFFD').slice(0, 300)
}
