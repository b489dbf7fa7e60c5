import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Command, CommandIo } from '../../src/cli/command.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { type Client, dataFolder, PUBLIC_KEY, type Scope, SECRET_KEY } from '../helper.js'
import { type Node, shardsUrl } from '../nodes.js'

/** Creates a store on the first nodes, with an embedded journal per lane. */
export async function settingsOn(
  t: Scope,
  nodes: Node[],
  { database, lanes, shards }: { database: string; lanes: number; shards: number },
): Promise<NodeJS.ProcessEnv> {
  return {
    ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0' },
    CLICKHOUSE_URL: shardsUrl(nodes.slice(0, shards)).replaceAll(/\/analytics\b/g, `/${database}`),
    DATA_DIR: await dataFolder(t),
    LANES: String(lanes),
  }
}

export function ioOf(env: NodeJS.ProcessEnv, signal: AbortSignal = new AbortController().signal, stdin = '') {
  const stdout = new PassThrough()
  const stderr = new PassThrough()
  const io: CommandIo = { env, stdin: Readable.from([Buffer.from(stdin)]), stdout, stderr, signal }
  const said = [text(stdout), text(stderr)]
  const end = async () => {
    stdout.end()
    stderr.end()
    const [printed = '', noted = ''] = await Promise.all(said)
    return { printed, noted }
  }
  return { io, end }
}

/** Runs a command in this process. */
export async function run(command: Command, args: string[], env: NodeJS.ProcessEnv, stdin = '') {
  const { io, end } = ioOf(env, undefined, stdin)
  const code = await command.run(args, io)
  return { code, ...(await end()) }
}

export const USERS = Array.from({ length: 20 }, (_, i) => `user-${i}`)

/** Stores events of every user on every shard, profiles and sessions of every lane. */
export async function fill({ call, browser }: Client): Promise<void> {
  const batch = USERS.map((distinct_id, i) => ({ event: 'e', distinct_id, properties: { i } }))
  for (let key = 0; key < 6; key++) {
    const answer = await call('POST', '/public/track/batch', { events: batch }, { 'idempotency-key': `batch-${key}` })
    if (answer.statusCode !== 200) throw new Error(answer.body)
  }
  for (const distinct_id of USERS) {
    await call('POST', '/public/users/identify', { distinct_id, properties: { visits: 1, 'a "name"': '\u2028' } })
    await browser('/public/sessions/start', { distinct_id, session_id: `s of ${distinct_id}`, properties: {} })
  }
  await call('DELETE', '/public/users/user-7')
}

export const perShard = async (shards: Shards, query: string) =>
  (await shards.each(({ clickhouse }) => clickhouse.rows<{ n: string }>(query))).map(([row]) => Number(row?.n))

export const EVENTS = 'SELECT count() AS n FROM events'
