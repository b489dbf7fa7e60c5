import type { ParseArgsConfig } from 'node:util'
import type { ClickHouse } from '../clickhouse/client.js'
import { KeyChanges, type NewKey } from '../keys/key-changes.js'
import { findKeyFaults, GRACE_MESSAGE, type KeyFault, parseGrace, tidyKey } from '../keys/key-rules.js'
import {
  hashKey,
  KEY_KINDS,
  type KeyKind,
  type KeyRecord,
  type LabelledGrant,
  maskKey,
  type StoredKey,
} from '../keys/keys.js'
import { COMMAND_LINE } from '../model/audit-entry.js'
import { listKeys, openKeyStore, readStoreTime } from '../store/api-keys.js'
import { readKeyUse, type StoredKeyUse } from '../store/key-usage.js'
import { alignColumns, formatTime, jsonLines } from './columns.js'
import { type Command, type CommandIo, findAction, joinWords, parseOptions, UsageError } from './command.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse keys create --project NAME [--kind KIND] [--label TEXT]
                              [--origin https://SITE]... [--events-only]
       tallyhouse keys list [--project NAME] [--kind KIND] [--json]
       tallyhouse keys rotate --project NAME [--kind KIND] [--grace 24h]
       tallyhouse keys revoke ID... [--last]

create  creates a public and a secret key, or one key of the given kind. A project is created with
        its first key, and can have any number of each kind: public keys make session calls, write
        keys send events and profile changes and may be used in a browser, read keys read, and
        secret keys do everything but session calls.
          --label        a name for people, such as "Checkout server"
          --origin       for a write or public key: only pages of this origin may use it; can be
                         repeated. It keeps other sites' pages out, but not a program that
                         pretends to be a page.
          --events-only  for a write key: it sends events and session calls, and cannot change
                         users.
list    lists the stored keys, with the day (UTC) on which each was last used and how many of its
        requests were refused; services store both once a minute. It never shows a key.
rotate  creates a new key of each kind that the project has; if keys of a kind differ in their
        labels, origins or calls, one for each group. The old keys stay valid for --grace (for
        example 30m, 24h or 7d; 0 to end them now), so that clients can switch without a gap. A key
        that already expires because of another rotation keeps that earlier time.
revoke  revokes keys, named by their ID in the list or by the whole key. The last secret key of a
        project is only revoked with --last.

A key is shown only once, when it is created. Running services accept it immediately, or within a
second while many wrong keys arrive, and refuse a revoked key within 10 s. The keys in PUBLIC_API_KEY
and SECRET_KEY are not stored here; change them in the settings. Keys can also be changed on the
page and with the API; each change is in the project's audit log (GET /public/audit).

The keys are in the store that the service's settings name: CLICKHOUSE_URL, or DATA_DIR. The store
must exist: start the service once before. Its address is printed to standard error.`

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
/** The options for the fields of a key, by their names in the API. */
const OPTIONS: Record<KeyFault['field'], string> = {
  label: '--label',
  origins: '--origin',
  events_only: '--events-only',
}

interface Options {
  project?: string
  kind?: string
  label: string
  grace: string
  json: boolean
  last: boolean
  origin: string[]
  'events-only': boolean
}

/** A stored key with its use. */
type ListedKey = KeyRecord & StoredKeyUse

interface Action {
  run(clickhouse: ClickHouse, options: Options, ids: string[], io: CommandIo): Promise<number>
  /** options of this action; others are refused, because they would have no effect */
  takes: NonNullable<ParseArgsConfig['options']>
}

const OF_PROJECT = { project: { type: 'string' }, kind: { type: 'string' } } as const
const ACTIONS: Record<string, Action> = {
  create: {
    run: create,
    takes: {
      ...OF_PROJECT,
      label: { type: 'string' },
      origin: { type: 'string', multiple: true },
      'events-only': { type: 'boolean' },
    },
  },
  list: { run: list, takes: { ...OF_PROJECT, json: { type: 'boolean' } } },
  rotate: { run: rotate, takes: { ...OF_PROJECT, grace: { type: 'string' } } },
  revoke: { run: revoke, takes: { last: { type: 'boolean' } } },
}

export const command: Command = {
  summary: 'makes, lists, rotates and revokes the keys of projects',
  usage: USAGE,
  async run([name = '', ...args], io) {
    const action = findAction(ACTIONS, name)
    const { options, ids } = parse(action, args)
    // Check the arguments before anything is opened.
    if (name === 'create' || name === 'rotate') parseProject(options)
    parseKinds(options)
    parseGraceOption(options)
    if (name === 'create') parseGrants(options)
    if ((name === 'revoke') !== ids.length > 0) {
      throw new UsageError(name === 'revoke' ? 'Name the keys to revoke.' : `Unexpected argument "${ids[0]}".`)
    }
    return await withStore(io, ({ first }) => action.run(first, options, ids, io))
  },
}

async function create(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  print(await openChanges(clickhouse).create(parseGrants(options)), io)
  return 0
}

async function list(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  const kinds = parseKinds(options)
  const [all, findUse] = await Promise.all([
    listKeys(clickhouse, options.project),
    readKeyUse(clickhouse, options.project),
  ])
  const keys = all.filter(({ kind }) => kinds.includes(kind)).map((key) => ({ ...key, ...findUse(key) }))
  if (keys.length === 0) io.stderr.write('No such key is stored.\n')
  io.stdout.write(options.json ? jsonLines(keys.map(withoutHash)) : formatTable(keys))
  return 0
}

async function rotate(clickhouse: ClickHouse, options: Options, _ids: string[], io: CommandIo): Promise<number> {
  const project = parseProject(options)
  const wanted = parseKinds(options)
  const earlier = (await listKeys(clickhouse, project)).filter(({ isValid, kind }) => isValid && wanted.includes(kind))
  if (earlier.length === 0) throw new Error(`Project ${project} has no such key to rotate. Create one: keys create.`)
  // By kind, in the order in which new keys are made.
  const inOrder = wanted.flatMap((kind) => earlier.filter((key) => key.kind === kind))
  const { made, ended } = await openChanges(clickhouse).rotate(inOrder, parseGraceOption(options))
  print(made, io)
  io.stderr.write(formatEnds(ended, await readStoreTime(clickhouse)))
  return 0
}

async function revoke(clickhouse: ClickHouse, { last }: Options, ids: string[], io: CommandIo): Promise<number> {
  const all = await listKeys(clickhouse)
  const chosen = ids.map((text) => findKey(all, text))
  await openChanges(clickhouse).revoke(chosen, { mayBeLast: last })
  io.stderr.write(`Refused within 10 s: ${chosen.map(({ id }) => id).join(', ')}.\n`)
  return 0
}

function openChanges(clickhouse: ClickHouse): KeyChanges {
  return new KeyChanges(openKeyStore(clickhouse), COMMAND_LINE)
}

/**
 * @param text an ID, or a whole key, which no message may repeat
 * @throws Error that names the key
 */
function findKey(all: readonly KeyRecord[], text: string): KeyRecord {
  const found = all.filter(({ id, hash }) => id === text || hash === hashKey(text))
  const [key, another] = found.filter(({ isValid }) => isValid)
  if (!key) {
    const revokedAt = found[0]?.revokedAt
    const why = revokedAt ? ` It was revoked on ${formatTime(revokedAt)}.` : ' See: keys list.'
    throw new Error(`${maskKey(text)} is not a valid key, so none was revoked.${why}`)
  }
  if (another) throw new Error(`Several keys have the ID ${key.id}, so none was revoked. Give the whole key.`)
  return key
}

/** Prints new keys on stdout, in the format of a settings file. */
function print(made: readonly NewKey[], io: CommandIo): void {
  io.stdout.write(made.map(({ kind, text }) => `${VARIABLE[kind]}=${text}\n`).join(''))
  const names = made.map((key) => {
    const notes = [...(key.label ? [key.label] : []), ...(formatLimits(key) ? [formatLimits(key)] : [])]
    return `${key.id}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`
  })
  io.stderr.write(`New in project ${made[0]?.projectId}, shown only this once: ${names.join(', ')}.\n`)
}

/** Describes until when replaced keys work, one line per end time. @param now epoch ms */
function formatEnds(ended: readonly KeyRecord[], now: number): string {
  const lines = ended
    .toSorted((a, b) => (a.revokedAt ?? 0) - (b.revokedAt ?? 0))
    .map(({ id, revokedAt }): [string, string] => {
      return [revokedAt && revokedAt > now ? `Valid until ${formatTime(revokedAt)}` : 'Refused within 10 s', id]
    })
  const ends = [...new Set(lines.map(([end]) => end))]
  return ends
    .map((end) => `${end}: ${lines.flatMap(([other, id]) => (other === end ? [id] : [])).join(', ')}.\n`)
    .join('')
}

/** Formats the limits of a key; empty if it has none. */
function formatLimits({ origins, eventsOnly }: Pick<StoredKey, 'origins' | 'eventsOnly'>): string {
  return [...origins, ...(eventsOnly ? ['events only'] : [])].join(', ')
}

function withoutHash({ hash: _hash, ...key }: ListedKey): Omit<ListedKey, 'hash'> {
  return key
}

/** Formats keys as a table. The last columns are left out if they would be empty. */
function formatTable(keys: readonly ListedKey[]): string {
  const cell = (time: number | null) => (time === null ? '-' : formatTime(time))
  const columns: [string, (key: ListedKey) => string][] = [
    ['ID', ({ id }) => id],
    ['KIND', ({ kind }) => kind],
    ['CREATED', ({ createdAt }) => cell(createdAt)],
    ['REVOKED', ({ revokedAt }) => cell(revokedAt)],
    ['LAST USED', ({ lastUsed }) => lastUsed ?? '-'],
    ['REFUSED', ({ refused }) => String(refused)],
    ['PROJECT', ({ projectId }) => projectId],
  ]
  if (keys.some(({ label }) => label !== '')) columns.push(['LABEL', ({ label }) => label || '-'])
  if (keys.some(formatLimits)) columns.push(['LIMITS', formatLimits])
  return alignColumns([columns.map(([title]) => title), ...keys.map((key) => columns.map(([, read]) => read(key)))])
}

function parse({ takes }: Action, args: string[]): { options: Options; ids: string[] } {
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options: takes })
  const defaults = { label: '', grace: '24h', json: false, last: false, origin: [], 'events-only': false }
  return { options: { ...defaults, ...(values as Partial<Options>) }, ids: positionals }
}

function parseProject({ project }: Options): string {
  if (project === undefined) throw new UsageError('Specify the project: --project NAME.')
  if (PROJECT.test(project)) return project
  throw new UsageError(
    'The name of a project must begin with a letter or digit, and have at most 64 letters, digits or . _ -',
  )
}

function parseKinds({ kind }: Options): KeyKind[] {
  const kinds = KEY_KINDS.filter((known) => kind === undefined || kind === known)
  if (kinds.length === 0) throw new UsageError(`--kind must be ${joinWords(KEY_KINDS)}, not "${kind}".`)
  return kinds
}

/** @throws UsageError if a key of this kind cannot have these limits */
function parseGrants(options: Options): LabelledGrant[] {
  const { kind: asked, label, origin: origins, 'events-only': eventsOnly } = options
  const kinds = asked === undefined ? PAIR : parseKinds(options)
  return kinds.map((kind) => {
    const grant = tidyKey({ projectId: parseProject(options), kind, label, origins, eventsOnly })
    const [fault] = findKeyFaults(grant)
    if (!fault) return grant
    const { field, index, message } = fault
    const given = index === undefined ? '' : `, not "${grant.origins[index]}"`
    const missing = asked === undefined && field !== 'label' ? ' Specify the kind: --kind.' : ''
    throw new UsageError(`${OPTIONS[field]} ${message}${given}.${missing}`)
  })
}

/** Parses the grace period to ms. */
function parseGraceOption({ grace }: Options): number {
  const ms = parseGrace(grace)
  if (ms === null) throw new UsageError(`--grace ${GRACE_MESSAGE}.`)
  return ms
}
