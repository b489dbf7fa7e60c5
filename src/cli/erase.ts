import { createReadStream } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { Connection } from '../client/connection.js'
import type { ErasedUser, ErasedUsers } from '../contract/schemas.js'
import { piecesAsync } from '../lib/pieces.js'
import { checkService } from './check-service.js'
import { replaceControls } from './columns.js'
import { type Command, type CommandIo, parseOptions, UsageError } from './command.js'
import { counted, number } from './progress.js'
import { readTarget, TARGET_OPTIONS, TARGET_USAGE } from './target.js'

const USAGE = `Usage: tallyhouse erase --distinct-id ID [--distinct-id ID]... [options]
       tallyhouse erase --file LIST [options]

Erases users and all their data from a running service: profile, events, sessions, events that are
not in ClickHouse yet, and dead letters. Prints one line per user that says what was removed.

  --distinct-id ID   a user
  --file LIST        a file with one distinct_id per line; - is standard input
  --json             prints the lines as JSON
${TARGET_USAGE}

Once a user's line is printed, no response contains the user's data. ClickHouse takes longer to
remove the data from disk; the command waits until it can say when that is done. Interrupting it
then changes nothing. Backups are not touched. You can rerun the command at any time. The exit code
is 0 if everything was erased.`

/** Users per call. */
const BATCH = 100
/** The service waits for the store and for the purge before it responds. */
const TIMEOUT_MS = 120_000
/** How often, and for how long, to ask the service whether the data has left the disk. */
const PURGE_POLL_MS = 2_000
const PURGE_LIMIT_MS = 60 * 60 * 1000

export const command: Command = {
  summary: 'erases users with all their data',
  usage: USAGE,
  async run(args, io) {
    const { names, file, json, ...target } = parse(args)
    const { url, secretKey } = await readTarget(target, io)
    const connection = new Connection({ url, secretKey, timeoutMs: TIMEOUT_MS })
    const erase = async (distinct_ids: string[]): Promise<ErasedUsers> => {
      const call = { method: 'POST', path: '/public/users/erase', body: JSON.stringify({ distinct_ids }) } as const
      const { value } = await connection.call(call, { signal: io.signal })
      return value as unknown as ErasedUsers
    }

    const total = { users: 0, unknown: 0, events: 0, sessions: 0, dead_letters: 0 }
    let unreadable = 0
    let last: { users: string[]; response: ErasedUsers } | null = null
    for await (const users of piecesAsync(file === undefined ? names : lines(file, io), BATCH)) {
      if (!last) await checkService(connection, url, 'read', io)
      const response = await erase(users)
      for (const user of response.erased) {
        io.stdout.write(`${json ? JSON.stringify(user) : describeErased(user)}\n`)
        total.users++
        if (isUnknown(user)) total.unknown++
        total.events += user.events
        total.sessions += user.sessions
        total.dead_letters += user.dead_letters
      }
      unreadable = Math.max(unreadable, response.unreadable_dead_letters)
      last = { users, response }
    }
    if (!last) throw new UsageError('The list contains no distinct_id.')
    const { users, unknown, events, sessions, dead_letters } = total
    io.stderr.write(
      `${counted(users, 'user')}, ${number(unknown)} of them unknown: ${counted(events, 'event')}, ${counted(sessions, 'session')} and parts of ${counted(dead_letters, 'dead letter')} were removed.\n`,
    )
    if (unreadable > 0) {
      io.stderr.write(
        `${counted(unreadable, 'dead letter')} may name one of them, but cannot be read. See: tallyhouse dead-letters list\n`,
      )
    }
    const { gone_at: goneAt, purge_error } = await whenGone(last.response, () => erase(last.users.slice(0, 1)), io)
    io.stderr.write(
      goneAt !== null
        ? `The data leaves the disks of ClickHouse by ${new Date(goneAt).toISOString()}; backups still contain it.\n`
        : purge_error
          ? `The data no longer appears in any response, but it is still on disk. ${purge_error}\n`
          : 'ClickHouse is still rewriting its tables. Rerun the command to see when the data has left its disks.\n',
    )
    return goneAt === null || unreadable > 0 ? 1 : 0
  },
}

/**
 * Waits until the data has left the disk. Erasing again changes nothing, and its response has the state of the purge.
 */
async function whenGone(
  first: ErasedUsers,
  again: () => Promise<ErasedUsers>,
  { stderr, signal }: CommandIo,
): Promise<ErasedUsers> {
  const isOver = ({ gone_at, purge_error }: ErasedUsers) => gone_at !== null || Boolean(purge_error)
  if (isOver(first)) return first
  stderr.write('ClickHouse is removing the data from disk.\n')
  const deadline = Date.now() + PURGE_LIMIT_MS
  let response = first
  while (!isOver(response) && Date.now() < deadline && !signal.aborted) {
    await wait(PURGE_POLL_MS, undefined, { signal }).catch(() => undefined)
    if (!signal.aborted) response = await again()
  }
  return response
}

function parse(args: string[]) {
  const { values } = parseOptions({
    args,
    options: {
      'distinct-id': { type: 'string', multiple: true },
      file: { type: 'string' },
      ...TARGET_OPTIONS,
      json: { type: 'boolean', default: false },
    },
  })
  const { 'distinct-id': names = [], ...others } = values
  if ((names.length === 0) === (values.file === undefined)) {
    throw new UsageError('Name the users to erase: --distinct-id ID, or --file LIST.')
  }
  return { names, file: undefined, ...others }
}

/**
 * The names in a list. `readline` would also split at characters that a name may contain, such as a carriage return,
 * and the parts are names of other users.
 */
async function* lines(file: string, { stdin }: CommandIo): AsyncGenerator<string> {
  const input: AsyncIterable<Buffer> = file === '-' ? stdin : createReadStream(file)
  // It removes a byte order mark, with which Windows programs start files.
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of input) {
    const parts = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n')
    rest = parts.pop() ?? ''
    yield* parts.map(withoutReturn).filter(Boolean)
  }
  yield* [withoutReturn(`${rest}${decoder.decode()}`)].filter(Boolean)
}

function withoutReturn(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line
}

function isUnknown({ profile, events, sessions, dead_letters }: ErasedUser): boolean {
  return !profile && events + sessions + dead_letters === 0
}

function describeErased(user: ErasedUser): string {
  const name = replaceControls(user.distinct_id)
  if (isUnknown(user)) return `${name}: no such user`
  const letters = user.dead_letters > 0 ? `, ${counted(user.dead_letters, 'dead letter')}` : ''
  return `${name}: ${user.profile ? 'profile' : 'no profile'}, ${counted(user.events, 'event')}, ${counted(user.sessions, 'session')}${letters}`
}
