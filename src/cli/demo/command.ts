import { setMaxListeners } from 'node:events'
import { type Call, Connection } from '../../client/connection.js'
import { DAY_MS, HOUR_MS } from '../../contract/durations.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { checkService, TRANSFER_RETRY } from '../check-service.js'
import { type Command, type CommandIo, parseInteger, parseOptions, UsageError } from '../command.js'
import { readTime } from '../event-options.js'
import { HttpTransport } from '../http/keep-alive-fetch.js'
import { counted, ProgressLine } from '../progress.js'
import { defaultUrl, normalizeUrl, readTarget, TARGET_OPTIONS } from '../target.js'
import { openProject, PROJECT } from './keys.js'
import { removeDemo } from './remove.js'
import { type Sent, shopYear } from './shop.js'

const USAGE = `Usage: tallyhouse demo [options]
       tallyhouse demo --remove [--url URL]

Sends a year of data from an invented shop to a running service: visits with page views and
sources, sign-ups, purchases, profiles, and visitors who become customers. Query it with tallyhouse
query; docs/questions.md has examples.

  --events N         how many events (default: 1000000)
  --seed N           a different seed generates a different shop (default: 1)
  --until TIME       the end of the year, in UTC: a date, or a time such as 2024-01-31T12:00:00Z
                     (default: when the project "demo" was created; with --key-file, the last full
                     hour)
  --url URL          address of the service (default: http://HOST:PORT from the settings)
  --key-file FILE    a file that contains a secret key; its project, which must not be "demo", gets
                     the data. Without it, the command creates a secret and a read key for the
                     project "demo" in the store that the settings name, and prints them

  --remove           revokes all keys of the project "demo" in that store, and removes all its data,
                     so the next demo starts afresh

The same options generate the same data, and events sent within the last few days are not stored
again, so you can rerun an interrupted command; it says how. With another seed or number of events,
the data is added to the existing data: remove that first, or use another project. The exit code is
0 if everything was sent or removed.`

/** Concurrent calls. */
const IN_FLIGHT = 16
const NDJSON = { 'content-type': 'application/x-ndjson' }
const MAX_EVENTS = 100_000_000

export const command: Command = {
  summary: 'fills a project with a year of data from an invented shop',
  usage: USAGE,
  async run(args, io) {
    const { events, seed, until: wanted, url, keyFile, remove } = await parse(args, io)
    if (remove) return await removeDemo(url, io)
    const { secretKey, begun } =
      keyFile === undefined
        ? await openProject(io, url)
        : { ...(await readTarget({ url, 'key-file': keyFile }, io)), begun: undefined }
    const transport = new HttpTransport()
    const connection = new Connection({ url, secretKey, fetch: transport.fetch })
    const until = wanted ?? begun ?? Math.floor(Date.now() / HOUR_MS) * HOUR_MS
    const again =
      wanted === undefined && begun === undefined
        ? `Rerun the command with --until ${new Date(until).toISOString()}`
        : 'Rerun the command'
    let sent = 0
    let isDone = false
    try {
      const { project } = await checkService(connection, url, 'send', io)
      if (begun === undefined) requireOther(project)
      const progress = new ProgressLine(io.stderr, 'sent', () => ({ events: sent, part: sent / events }))
      try {
        await sendAll(connection, toCalls(shopYear({ events, seed, until, begun })), io.signal, (count) => {
          sent += count
        })
        isDone = !io.signal.aborted
      } finally {
        progress.stop()
      }
    } finally {
      transport.close()
      if (sent > 0 || isDone)
        io.stderr.write(`${counted(sent, 'event')} sent.${isDone ? '' : ` ${again} to finish.`}\n`)
    }
    return isDone ? 0 : 1
  },
}

/**
 * Refuses a key of the project `demo`: the ids of its events depend on when its first key was made, so sending with
 * this key would add all of the data again.
 * @throws Error if this is that project
 */
function requireOther(project: string): void {
  if (project !== PROJECT) return
  throw new Error(
    `The key belongs to project "${PROJECT}". Run the command without --key-file, on the machine of the store.`,
  )
}

interface Planned {
  call: Call
  /** events in the call */
  count: number
}

/** Makes calls that can be repeated: events and changes of profiles have insert_ids, or set the same values again. */
function* toCalls(shop: Iterable<Sent>): Generator<Planned, void, undefined> {
  let lines: string[] = []
  let changes: object[] = []
  const flushEvents = (): Planned => {
    const call = { method: 'POST', path: '/public/import', body: lines.join('\n'), headers: NDJSON } as const
    const count = lines.length
    lines = []
    return { call, count }
  }
  const flushChanges = (): Planned => {
    const call = { method: 'POST', path: '/public/users/batch', body: JSON.stringify({ changes }) } as const
    changes = []
    return { call, count: 0 }
  }
  for (const sent of shop) {
    if (sent.type === 'event') {
      lines.push(JSON.stringify(sent.event))
      if (lines.length === MAX_BATCH) yield flushEvents()
    } else {
      const { distinct_id, alias, properties, timestamp } = sent
      changes.push({ distinct_id, alias })
      changes.push({ distinct_id, identified: true, operations: { $set: properties }, timestamp })
      if (changes.length === MAX_BATCH) yield flushChanges()
    }
  }
  if (lines.length > 0) yield flushEvents()
  if (changes.length > 0) yield flushChanges()
}

/** @throws TallyhouseError of the first call that fails permanently */
async function sendAll(
  connection: Connection,
  calls: Iterator<Planned>,
  signal: AbortSignal,
  onSent: (events: number) => void,
): Promise<void> {
  const failed = new AbortController()
  setMaxListeners(2 * IN_FLIGHT, signal)
  const sender = async () => {
    while (!signal.aborted && !failed.signal.aborted) {
      const { value, done } = calls.next()
      if (done) return
      await connection.call(value.call, { signal }, TRANSFER_RETRY)
      onSent(value.count)
    }
  }
  const senders = Array.from({ length: IN_FLIGHT }, async () => {
    try {
      await sender()
    } catch (error) {
      failed.abort()
      if (!signal.aborted) throw error
    }
  })
  const failure = (await Promise.allSettled(senders)).find((result) => result.status === 'rejected')
  if (failure) throw failure.reason
}

async function parse(args: string[], io: CommandIo) {
  const { values } = parseOptions({
    args,
    options: {
      events: { type: 'string', default: '1000000' },
      seed: { type: 'string', default: '1' },
      until: { type: 'string' },
      ...TARGET_OPTIONS,
      remove: { type: 'boolean', default: false },
    },
  })
  const { remove, 'key-file': keyFile } = values
  if (remove && keyFile !== undefined)
    throw new UsageError('--remove removes the project "demo" only, and needs no key.')
  const time = readTime('--until', values.until)
  const until = time === undefined ? undefined : Number(time)
  if (until !== undefined && until <= 366 * DAY_MS) throw new UsageError('--until must be in 1971 or later.')
  return {
    events: parseInteger('--events', values.events, 1, MAX_EVENTS),
    seed: parseInteger('--seed', values.seed, 0, 2 ** 32 - 1),
    until,
    url: normalizeUrl(values.url ?? (await defaultUrl(io.env))),
    keyFile,
    remove,
  }
}
