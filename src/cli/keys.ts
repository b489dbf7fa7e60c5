import type { ParseArgsConfig } from 'node:util'
import type { ClickHouse } from '../clickhouse/client.js'
import { type Grant, hashKey, KEY_KINDS, type KeyKind, makeKey, type StoredKey, storedKey } from '../keys/keys.js'
import { isOrigin } from '../lib/is-origin.js'
import { insertKeys, type KeyRecord, listKeys, readKeys, revokeKeys } from '../store/api-keys.js'
import { type Command, type CommandIo, parseOptions, UsageError } from './command.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse keys create --project NAME [--kind KIND]
                              [--origin https://SITE]... [--events-only]
       tallyhouse keys list [--project NAME] [--kind KIND] [--json]
       tallyhouse keys rotate --project NAME [--kind KIND] [--grace 24h]
       tallyhouse keys revoke ID...

create  makes a public and a secret key, or one key of the given kind. A project is created with
        its first key, and can have any number of each kind: public keys make session calls, write
        keys send events and profile changes and may be in a browser, read keys read, and secret
        keys do everything but session calls.
          --origin       for a write or public key: only pages of this origin may use it; can be
                         repeated. It keeps other sites' pages out, but not a program that
                         pretends to be a page.
          --events-only  for a write key: it sends events and session calls, and cannot change
                         users.
list    lists the stored keys; it never shows a key itself.
rotate  makes a new key of each kind that the project has; if keys of a kind differ in their origins
        or calls, one for each such group. The old keys stay valid for --grace (for example 30m, 24h
        or 7d; 0 to end them now), so that clients can switch without a gap.
revoke  revokes keys, named by their ID in the list or by the whole key.

A key is shown only once, when it is made. Running services accept it immediately, or within a
second while many wrong keys arrive, and refuse a revoked key within 10 s. The keys in PUBLIC_API_KEY
and SECRET_KEY are not stored here; change them in the settings.

The keys are in the store that the service's settings name: CLICKHOUSE_URL, or DATA_DIR. The store
must exist: start the service once before. Its address is printed to standard error.`

const KINDS = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(KEY_KINDS)
/** Kinds that `create` makes by default. */
const PAIR: KeyKind[] = ['public', 'secret']
/** Variable names for a settings file. Only the first two are settings of the service. */
const VARIABLE: Record<KeyKind, string> = {
  public: 'PUBLIC_API_KEY',
  secret: 'SECRET_KEY',
  write: 'WRITE_KEY',
  read: 'READ_KEY',
}
/** Names appear in URLs and lists, so only plain characters are allowed. */
const PROJECT = /^[A-Za-z0-9][\w.-]{0,63}$/
const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

interface Options {
  project?: string
  kind?: string
  grace: string
  json: boolean
  origin: string[]
  'events-only': boolean
}

/** What a key may do, and where. */
type Limits = Pick<Grant, 'origins' | 'eventsOnly'>

interface Action {
  run(clickhouse: ClickHouse, options: Options, ids: string[], io: CommandIo): Promise<number>
  /** options of this action; others are refused, because they would have no effect */
  takes: NonNullable<ParseArgsConfig['options']>
}

const OF_PROJECT = { project: { type: 'string' }, kind: { type: 'string' } } as const
const ACTIONS: Record<string, Action> = {
  create: {
    run: create,
    takes: { ...OF_PROJECT, origin: { type: 'string', multiple: true }, 'events-only': { type: 'boolean' } },
  },
  list: { run: list, takes: { ...OF_PROJECT, json: { type: 'boolean' } } },
  rotate: { run: rotate, takes: { ...OF_PROJECT, grace: { type: 'string' } } },
  revoke: { run: revoke, takes: {} },
}

export const command: Command = {
  summary: 'makes, lists, rotates and revokes the keys of projects',
  usage: USAGE,
  async run([name = '', ...args], io) {
    const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined
    if (!action) throw new UsageError('Say what to do with the keys: create, list, rotate or revoke.')
    const { options, ids } = parse(action, args)
    // Check the arguments before anything is opened.
    if (name === 'create' || name === 'rotate') parseProject(options)
    parseKinds(options)
    parseGrace(options)
    parseLimits(options)
    if ((name === 'revoke') !== ids.length > 0) {
      throw new UsageError(name === 'revoke' ? 'Name the keys to revoke.' : `Unexpected argument "${ids[0]}".`)
    }
    return await withStore(io, ({ first }) => action.run(first, options, ids, io))
  },
}

async function create(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  const kinds = options.kind === undefined ? PAIR : parseKinds(options)
  const projectId = parseProject(options)
  await make(
    clickhouse,
    kinds.map((kind) => ({ projectId, kind, ...parseLimits(options) })),
    io,
  )
  return 0
}

async function list(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  const kinds = parseKinds(options)
  const isWanted = ({ projectId, kind }: KeyRecord) => {
    return kinds.includes(kind) && (options.project === undefined || options.project === projectId)
  }
  const keys = (await listKeys(clickhouse)).filter(isWanted)
  io.stdout.write(options.json ? keys.map((key) => `${JSON.stringify(key)}\n`).join('') : table(keys))
  return 0
}

async function rotate(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  const project = parseProject(options)
  const wanted = parseKinds(options)
  const earlier = (await readKeys(clickhouse)).filter((key) => key.projectId === project && wanted.includes(key.kind))
  if (earlier.length === 0) throw new Error(`Project ${project} has no such key to rotate. Create one: keys create.`)
  await make(
    clickhouse,
    wanted.flatMap((kind) => distinct(earlier.filter((key) => key.kind === kind))),
    io,
  )
  await revokeKeys(clickhouse, earlier, parseGrace(options))
  const until = parseGrace(options) === 0 ? 'Refused within 10 s' : `Valid for another ${options.grace}`
  io.stderr.write(`${until}: ${earlier.map(({ id }) => id).join(', ')}.\n`)
  return 0
}

async function revoke(clickhouse: ClickHouse, _options: Options, ids: string[], io: CommandIo): Promise<number> {
  const good = await readKeys(clickhouse)
  const chosen = ids.map((text) => {
    const found = good.filter(({ id, hash }) => id === text || hash === hashKey(text))
    const [key] = found
    // The argument may be a key, so the message does not repeat it.
    if (!key) throw new Error('One of these is not a valid key, so none was revoked. See: keys list.')
    if (found.length > 1)
      throw new Error(`Several keys have the ID ${key.id}, so none was revoked. Give the whole key.`)
    return key
  })
  await revokeKeys(clickhouse, chosen)
  io.stderr.write(`Refused within 10 s: ${chosen.map(({ id }) => id).join(', ')}.\n`)
  return 0
}

/** Prints the new keys on stdout, in the format of a settings file. */
async function make(clickhouse: ClickHouse, grants: Grant[], io: CommandIo): Promise<void> {
  const lines: string[] = []
  const made: StoredKey[] = []
  for (const { projectId, kind, origins, eventsOnly } of grants) {
    const key = makeKey(kind)
    made.push(storedKey(key, { projectId, kind, origins, eventsOnly }))
    lines.push(`${VARIABLE[kind]}=${key}\n`)
  }
  await insertKeys(clickhouse, made, Date.now())
  io.stdout.write(lines.join(''))
  const names = made.map((key) => `${key.id}${formatLimits(key) && ` (${formatLimits(key)})`}`)
  io.stderr.write(`New in project ${grants[0]?.projectId}, shown only this once: ${names.join(', ')}.\n`)
}

/** Removes keys with the same rights as an earlier one. */
function distinct(keys: StoredKey[]): StoredKey[] {
  const seen = new Set<string>()
  return keys.filter((key) => {
    const limits = formatLimits(key)
    return !seen.has(limits) && seen.add(limits)
  })
}

/** Formats the limits of a key; empty if it has none. */
function formatLimits({ origins, eventsOnly }: Limits): string {
  return [...origins, ...(eventsOnly ? ['events only'] : [])].join(', ')
}

function table(keys: KeyRecord[]): string {
  const time = (ms: number | null) => (ms === null ? '-' : `${new Date(ms).toISOString().slice(0, 19)}Z`)
  const rows = keys.map((key) => {
    return [key.id, key.kind, time(key.createdAt), time(key.revokedAt), key.projectId, formatLimits(key)]
  })
  const head = ['ID', 'KIND', 'CREATED', 'REVOKED', 'PROJECT', ...(keys.some(formatLimits) ? ['LIMITS'] : [])]
  const width = Math.max(...[head, ...rows].map(([, , , , project = '']) => project.length)) + 2
  return [head, ...rows]
    .map(([id = '', kind = '', created = '', revoked = '', project = '', limits = '']) => {
      const line = `${id.padEnd(13)}${kind.padEnd(8)}${created.padEnd(22)}${revoked.padEnd(22)}${project.padEnd(width)}${limits}`
      return `${line.trimEnd()}\n`
    })
    .join('')
}

function parse({ takes }: Action, args: string[]): { options: Options; ids: string[] } {
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options: takes })
  const defaults = { grace: '24h', json: false, origin: [], 'events-only': false }
  return { options: { ...defaults, ...(values as Partial<Options>) }, ids: positionals }
}

function parseProject({ project }: Options): string {
  if (project === undefined) throw new UsageError('Say which project: --project NAME.')
  if (PROJECT.test(project)) return project
  throw new UsageError(
    'The name of a project must begin with a letter or digit, and have at most 64 letters, digits or . _ -',
  )
}

function parseKinds({ kind }: Options): KeyKind[] {
  const kinds = KEY_KINDS.filter((known) => kind === undefined || kind === known)
  if (kinds.length === 0) throw new UsageError(`--kind must be ${KINDS}, not "${kind}".`)
  return kinds
}

/** @throws UsageError if this kind of key cannot have these limits */
function parseLimits({ kind, origin, 'events-only': eventsOnly }: Options): Limits {
  if (eventsOnly && kind !== 'write') throw new UsageError('--events-only is for write keys: add --kind write.')
  if (origin.length > 0 && kind !== 'write' && kind !== 'public') {
    throw new UsageError('--origin is for keys that are in pages: add --kind write or --kind public.')
  }
  const other = origin.find((text) => !isOrigin(text))
  if (other !== undefined) {
    throw new UsageError(
      `--origin must be an origin as browsers send it, such as https://shop.example, not "${other}".`,
    )
  }
  return { origins: [...new Set(origin)].sort(), eventsOnly }
}

/** Parses the grace period to ms. */
function parseGrace({ grace }: Options): number {
  const [, count, unit = 's'] = /^(\d{1,6})([smhd])$|^0$/.exec(grace) ?? []
  if (count === undefined && grace !== '0')
    throw new UsageError('--grace must be a duration such as 30m, 24h or 7d, or 0.')
  return Number(count ?? 0) * (UNIT_MS[unit] ?? 0)
}
