import type { ParseArgsConfig } from 'node:util'
import { Connection } from '../client/connection.js'
import { pathTo, pathToAlias } from '../client/tallyhouse.js'
import type { UserAliases } from '../contract/schemas.js'
import { checkService } from './check-service.js'
import { replaceControls } from './columns.js'
import { type Command, type CommandIo, findAction, parseOptions, UsageError } from './command.js'
import { readTarget, TARGET_OPTIONS, TARGET_USAGE, type TargetOptions } from './target.js'

const USAGE = `Usage: tallyhouse aliases list --distinct-id ID [options]
       tallyhouse aliases remove --distinct-id ID --alias NAME --yes [options]

Lists the aliases of a user of a running service, and removes one that was made by mistake.

list    lists the aliases of a user, by any of its names, one per line; at most 1000.
remove  removes an alias: it becomes a separate user again, with its own profile and events.
        Stored events are not rewritten, so making the alias again joins the two as before. Without
        --yes, it only says what it would do.

  --distinct-id ID   the user
  --alias NAME       the alias to remove
  --json             prints the list as JSON
${TARGET_USAGE}

The exit code is 0 if the list was printed or the alias was removed, and 1 if not.`

interface Options extends TargetOptions {
  'distinct-id'?: string
  alias?: string
  yes?: boolean
  json?: boolean
}

type Run = (connection: Connection, distinctId: string, options: Options, io: CommandIo) => Promise<number>

const COMMON = { 'distinct-id': { type: 'string' }, ...TARGET_OPTIONS } as const
const ACTIONS: Record<string, { run: Run; takes: NonNullable<ParseArgsConfig['options']> }> = {
  list: { run: list, takes: { ...COMMON, json: { type: 'boolean' } } },
  remove: { run: remove, takes: { ...COMMON, alias: { type: 'string' }, yes: { type: 'boolean' } } },
}

export const command: Command = {
  summary: 'lists the aliases of a user, and removes one',
  usage: USAGE,
  async run([name, ...args], io) {
    const { run, takes } = findAction(ACTIONS, name)
    const values = parseOptions({ args, options: takes }).values as Options
    const distinctId = values['distinct-id']
    if (distinctId === undefined) throw new UsageError('Specify the user: --distinct-id ID.')
    if (name === 'remove' && values.alias === undefined) throw new UsageError('Specify the alias: --alias NAME.')
    const { url, secretKey } = await readTarget(values, io)
    const connection = new Connection({ url, secretKey })
    await checkService(connection, url, 'read', io)
    return await run(connection, distinctId, values, io)
  },
}

async function readAliases(connection: Connection, distinctId: string, { signal }: CommandIo): Promise<UserAliases> {
  const path = `${pathTo('users', distinctId)}/aliases`
  const { value } = await connection.call({ method: 'GET', path }, { signal })
  return value as unknown as UserAliases
}

async function list(connection: Connection, distinctId: string, { json }: Options, io: CommandIo): Promise<number> {
  const { distinct_id, aliases, hasMore } = await readAliases(connection, distinctId, io)
  if (json) io.stdout.write(`${JSON.stringify({ distinct_id, aliases, hasMore })}\n`)
  else io.stdout.write(aliases.map((alias) => `${replaceControls(alias)}\n`).join(''))
  if (aliases.length === 0) io.stderr.write(`${replaceControls(distinct_id)} has no aliases.\n`)
  else if (distinct_id !== distinctId)
    io.stderr.write(`${replaceControls(distinctId)} is an alias of ${replaceControls(distinct_id)}.\n`)
  if (hasMore) io.stderr.write('There are more.\n')
  return 0
}

async function remove(connection: Connection, distinctId: string, options: Options, io: CommandIo): Promise<number> {
  const { alias = '', yes = false } = options
  const path = pathToAlias(distinctId, alias)
  if (!yes) {
    const { aliases, hasMore } = await readAliases(connection, distinctId, io)
    if (!hasMore && !aliases.includes(alias)) {
      throw new Error('The user has no such alias. See: tallyhouse aliases list --distinct-id ID.')
    }
    io.stderr.write(
      `${replaceControls(alias)} would be a separate user again, apart from ${replaceControls(distinctId)}. To confirm, add --yes.\n`,
    )
    return 1
  }
  await connection.delete(path, { signal: io.signal })
  io.stderr.write(`${replaceControls(alias)} is a separate user again, apart from ${replaceControls(distinctId)}.\n`)
  return 0
}
