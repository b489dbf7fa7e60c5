import { loadConfig, MAX_LANES } from '../../config.js'
import { type Command, parseOptions, UsageError } from '../command.js'
import { setLanes } from './set.js'
import { showLanes } from './show.js'

const USAGE = `Usage: tallyhouse lanes [--json]
       tallyhouse lanes set N

Without set, shows the layout of the store, how much waits in each lane, and the size of each shard.
The service may be running or not.

set changes the store to N lanes, and to the shards that CLICKHOUSE_URL names. Run it with the new
settings: REDIS_URL with one server for all lanes, or one for each, the current ones first and in
the same order (for fewer lanes, still all current ones); CLICKHOUSE_URL with the current shards
first. Shards can be added, not removed.

  1. Running services are told to refuse writes: a 503 with Retry-After.
  2. Everything that they accepted is stored, by them or by this command.
  3. Data that only the journals have moves to the new lanes: idempotency keys, insert_ids, and the
     values of profiles and sessions whose last change is a dead letter. Stored rows stay.
  4. The new layout is recorded. From then on, services with the old settings refuse everything:
     start them with the new ones.

You can interrupt or kill it at any step: run it again, and it resumes. With the embedded journal,
stop the service first.`

export const command: Command = {
  summary: 'shows the lanes and shards of the store, and changes their number',
  usage: USAGE,
  async run(args, io) {
    const { json, lanes } = parse(args)
    if (lanes === null) return await showLanes(loadConfig(io.env), json, io)
    return await setLanes(loadConfig({ ...io.env, LANES: String(lanes) }), io)
  },
}

function parse(args: string[]): { json: boolean; lanes: number | null } {
  const { values, positionals } = parseOptions({
    args,
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const { json } = values
  const [verb, count = '', ...more] = positionals
  if (verb === undefined) return { json, lanes: null }
  if (verb !== 'set' || json) throw new UsageError('Use `lanes`, `lanes --json` or `lanes set N`.')
  const lanes = /^\d{1,3}$/.test(count) ? Number(count) : 0
  if (lanes < 1 || lanes > MAX_LANES) throw new UsageError(`Specify the number of lanes: 1 to ${MAX_LANES}.`)
  if (more.length > 0) throw new UsageError(`Unexpected argument "${more[0]}".`)
  return { json, lanes }
}
