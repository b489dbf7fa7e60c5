import type { Shards } from '../clickhouse/shards.js'
import { Connection } from '../client/connection.js'
import { UNPRINTABLE } from '../contract/limits.js'
import { PAGE_PLACES } from '../contract/page-fields.js'
import { SettingsBody } from '../contract/project-schemas.js'
import {
  changeSettings,
  DEFAULT_SETTINGS,
  KEPT,
  listKeptTimes,
  listSet,
  listSettings,
  type ProjectSettings,
  QUOTAS,
  type Quota,
  type SettingsChange,
} from '../contract/project-settings.js'
import { UsageQuery } from '../contract/query-schemas.js'
import { type Expired, USAGE_COLUMNS } from '../contract/responses.js'
import { compileCheck } from '../contract/validation.js'
import { DEFAULT_PROJECT } from '../keys/keys.js'
import { toDay } from '../lib/day.js'
import { COMMAND_LINE } from '../model/audit-entry.js'
import { findSettingsFault } from '../projects/check-settings.js'
import { changeProject, readProjects } from '../projects/projects.js'
import { describeDay, toUsageStart } from '../projects/usage.js'
import { listKeys } from '../store/api-keys.js'
import { countExpiredEvents, countExpiredSessions, findUnseenProfiles } from '../store/expiry.js'
import { readUsage } from '../store/project-usage.js'
import { checkService, requireKeyOf } from './check-service.js'
import { jsonLines } from './columns.js'
import { type Command, type CommandIo, findAction, parseOptions, UsageError } from './command.js'
import { ERASE_TIMEOUT_MS, eraseProject } from './erase-project.js'
import { counted } from './progress.js'
import { json, readSessions } from './query/question.js'
import { csvText } from './query/table.js'
import { withStore } from './store.js'
import { readTarget, TARGET_USAGE } from './target.js'

const USAGE = `Usage: tallyhouse projects list [--json]
       tallyhouse projects show PROJECT [--json]
       tallyhouse projects usage [PROJECT...] [--from DAY] [--to DAY] [--json]
       tallyhouse projects set PROJECT [options]
       tallyhouse projects remove PROJECT --yes PROJECT [--url URL] [--key-file FILE]

list  lists the projects: those with keys, and those with settings.
show  shows the settings of a project.
usage prints the daily usage (UTC) of all or the named projects as CSV, or as one JSON object per
      line: accepted events, their bytes as received, bytes on the disks, and the CPU seconds of
      ClickHouse for reads. Services store their counts every ten seconds, the CPU time of reads within
      a minute, and what is on the disks every hour.
        --from DAY                such as 2026-11-01 (default: 30 days before the last one)
        --to DAY                  the last one (default: today)
set   changes the named settings, then shows all of them, with --json as JSON. The value "default"
      restores the default.
        --name TEXT               shown instead of the project's ID
        --timezone ZONE           for questions that do not name one, such as Europe/Vienna
        --week-start DAY          monday or sunday
        --first-view VIEW         the view that the page opens first: overview, web, explore, boards,
                                  users or live (default: web if there are page views, or else
                                  overview)
        --currency CODE           for amounts on the page, such as EUR
        --number-format EXAMPLE   1,234.5 or 1.234,5 or '1 234,5' or 1234.5
        --context MODE            how much to store about who sent a request: off,
                                  device (without the place) or full
        --sessions id|GAP         what a session is, unless a question says otherwise: the events of
                                  a session_id, or those with pauses of at most GAP, such as 30m
        --page-view NAME          an event that is a page view; can be repeated, and replaces all
                                  earlier ones
        --page-field NAME=A,B     the properties from which a field of pages is read, the first one
                                  that has a text, such as source=properties.utm_source,properties.ref;
                                  a JSON array if a name has a comma or a dot; can be repeated.
                                  Names: url, path, title, referrer, source, medium, campaign,
                                  term, content
        --keep-events AGE         90d, 12w, 25m (months) or 2y: older events are refused, are no
                                  longer shown, and have left the disk within a day
        --keep-sessions AGE       sessions, by their last change
        --keep-profiles AGE       profiles, by when their user was last seen
        --quota NAME=LIMIT[:hard] a limit that warns or, with :hard, also refuses events; can be
                                  repeated; NAME=default removes it. Names: events_per_day,
                                  events_per_month, stored_bytes, and, never hard,
                                  new_event_names_per_day and new_property_names_per_day. This
                                  locks it: no key of the project can change or remove it
        --dry-run                 changes nothing, and counts what would expire
remove  erases everything of a project, including its settings, through the running service. Its keys
        stay until "keys revoke" revokes them, and so do its daily usage and locked quotas. This cannot
        be undone, so name the project again with --yes. The secret key must be one of this project.
${TARGET_USAGE}

Services apply a change within 10 s. Data that a shorter age removes cannot be restored.

The other commands use the store that the service's settings name: CLICKHOUSE_URL, or DATA_DIR.`

const FLAGS = {
  name: 'name',
  timezone: 'timezone',
  'week-start': 'week_start',
  'first-view': 'first_view',
  currency: 'currency',
  'number-format': 'number_format',
  context: 'context',
  sessions: 'sessions',
} as const
/** Maximum number of profiles that a dry run counts. */
const MAX_PROFILES = 1_000_000
const check = compileCheck(SettingsBody, null)
const checkDays = compileCheck(UsageQuery, null)

export const command: Command = {
  summary: 'lists projects, changes their settings, and removes them',
  usage: USAGE,
  async run([name, ...args], io) {
    return await findAction({ list, show, usage, set, remove }, name)(args, io)
  },
}

async function list(args: string[], io: CommandIo): Promise<number> {
  const { values } = parseOptions({ args, options: { json: { type: 'boolean', default: false } } })
  return await withStore(io, async (shards) => {
    for (const [id, settings] of await listProjects(shards)) {
      const set = listSet(settings)
      io.stdout.write(values.json ? `${JSON.stringify({ id, ...set })}\n` : `${id}${describeBriefly(set)}\n`)
    }
    return 0
  })
}

function describeBriefly({ name, timezone, keep }: SettingsChange): string {
  const parts = [name, timezone, ...KEPT.map((kind) => keep?.[kind] && `${kind} ${keep[kind]}`)].filter(Boolean)
  return parts.length === 0 ? '' : `  ${parts.join(', ')}`
}

async function show(args: string[], io: CommandIo): Promise<number> {
  const options = { json: { type: 'boolean', default: false } } as const
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options })
  const id = onlyProject(positionals)
  return await withStore(io, async (shards) => {
    print(id, await requireProject(shards, id), values.json, io)
    return 0
  })
}

async function usage(args: string[], io: CommandIo): Promise<number> {
  const text = { type: 'string' } as const
  const options = { from: text, to: text, json: { type: 'boolean', default: false } } as const
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options })
  const { json: isJson, ...days } = values
  const fault = checkDays(days)
  if (fault) throw new UsageError(fault.message.replace(/^\/(\S+)/, '--$1'))
  const { to = toDay(Date.now()) } = days
  const from = days.from ?? toUsageStart(to)
  if (from > to) throw new UsageError('--from must not be after --to, whose default is today.')
  return await withStore(io, async (shards) => {
    for (const id of positionals) await requireProject(shards, id)
    const used = await readUsage(shards, positionals.length > 0 ? positionals : null, { from, to })
    const allDays = [...new Set([...used.values()].flatMap((byDay) => [...byDay.keys()]))].sort()
    const projects = [...used].sort(([a], [b]) => (a < b ? -1 : 1))
    const rows = allDays.flatMap((day) =>
      projects.flatMap(([project, byDay]) => {
        const one = byDay.get(day)
        return one ? [{ project, ...describeDay(day, one) }] : []
      }),
    )
    const columns = ['day', 'project', ...USAGE_COLUMNS.slice(1)] as const
    const asCsv = () => csvText({ columns: [...columns], rows: rows.map((row) => columns.map((name) => row[name])) })
    io.stdout.write(isJson ? jsonLines(rows) : asCsv())
    return 0
  })
}

async function set(args: string[], io: CommandIo): Promise<number> {
  const text = { type: 'string' } as const
  const { values, positionals } = parseOptions({
    args,
    allowPositionals: true,
    options: {
      ...(Object.fromEntries(Object.keys(FLAGS).map((flag) => [flag, text])) as Record<
        keyof typeof FLAGS,
        typeof text
      >),
      'keep-events': text,
      'keep-sessions': text,
      'keep-profiles': text,
      'page-view': { type: 'string', multiple: true },
      'page-field': { type: 'string', multiple: true },
      quota: { type: 'string', multiple: true },
      'dry-run': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  })
  const id = onlyProject(positionals)
  const change = parseChange(values)
  if (Object.keys(change).length === 0)
    throw new UsageError('Specify what to set, for example --timezone Europe/Vienna.')
  return await withStore(io, async (shards) => {
    const settings = await requireProject(shards, id)
    if (values['dry-run']) {
      await preview(shards, id, changeSettings(settings, change), io)
      return 0
    }
    print(id, (await changeProject(shards, id, change, { by: COMMAND_LINE })).settings, values.json, io)
    return 0
  })
}

async function remove(args: string[], io: CommandIo): Promise<number> {
  const text = { type: 'string' } as const
  const options = { yes: text, url: text, 'key-file': text }
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options })
  const { yes, ...target } = values
  const id = onlyProject(positionals)
  if (yes !== id) {
    throw new UsageError(`This erases all data of project ${id}. To confirm, add: --yes ${id}`)
  }
  const { url, secretKey } = await readTarget(target, io)
  const connection = new Connection({ url, secretKey, timeoutMs: ERASE_TIMEOUT_MS })
  const { project } = await checkService(connection, url, 'read', io)
  requireKeyOf(id, project)
  await eraseProject(connection, id, 'were removed; its keys are still valid', io)
  return 0
}

/** @throws UsageError for values that the service would refuse */
function parseChange(values: Record<string, string | boolean | string[] | undefined>): SettingsChange {
  const change: Record<string, unknown> = {}
  const read = (value: unknown) => (value === 'default' ? null : value)
  for (const [flag, field] of Object.entries(FLAGS)) if (values[flag] !== undefined) change[field] = read(values[flag])
  for (const kind of KEPT) {
    const value = values[`keep-${kind}`]
    if (value !== undefined) change.keep = { ...(change.keep as object), [kind]: read(value) }
  }
  for (const text of (values.quota ?? []) as string[]) {
    const [, name = '', limit = '', mode = 'soft'] = /^(\w+)=(\d+|default)(?::(soft|hard))?$/.exec(text) ?? []
    if (!(QUOTAS as readonly string[]).includes(name)) {
      throw new UsageError(
        `--quota must be NAME=LIMIT, NAME=LIMIT:hard or NAME=default, with one of the names ${QUOTAS.join(', ')}.`,
      )
    }
    const quota = limit === 'default' ? null : { limit: Number(limit), mode, locked: true }
    change.quotas = { ...(change.quotas as object), [name]: quota }
  }
  const views = values['page-view'] as string[] | undefined
  if (views !== undefined) change.page_views = views.length === 1 && views[0] === 'default' ? null : views
  for (const text of (values['page-field'] ?? []) as string[]) {
    const [, name = '', places = ''] = /^(\w+)=(.+)$/s.exec(text) ?? []
    if (!(PAGE_PLACES as readonly string[]).includes(name)) {
      throw new UsageError(`--page-field must be NAME=PROPERTY,…, with one of the names ${PAGE_PLACES.join(', ')}.`)
    }
    change.page_fields = { ...(change.page_fields as object), [name]: readPlaces(places) }
  }
  if (typeof change.sessions === 'string') change.sessions = readSessions('--sessions', change.sessions)
  const fault = check(change) ?? findSettingsFault(change)
  if (fault) throw new UsageError(inOptions(fault.message))
  return change
}

/** Reads the properties of a page field: a JSON array, or names with commas in between. */
function readPlaces(text: string): unknown {
  if (text === 'default') return null
  return text.startsWith('[') ? json('--page-field', text) : text.split(',')
}

/** The message about a field, in words of the command line. */
function inOptions(message: string): string {
  return message
    .replace(/^\/(\S+)/, (_, path: string) => toFlag(path))
    .replace(/or null for the default\.$/, 'or "default".')
}

/** The option that sets a field. @param path such as `keep/events` */
function toFlag(path: string): string {
  const [field = '', name] = path.split('/')
  if (field === 'page_views') return '--page-view'
  if (field === 'page_fields') return `--page-field ${name}`
  if (field === 'quotas') return `--quota ${name}`
  return `--${field.replaceAll('_', '-')}${field === 'keep' && name ? `-${name}` : ''}`
}

async function preview(shards: Shards, id: string, { keep }: ProjectSettings, io: CommandIo): Promise<void> {
  const kept = listKeptTimes(keep, Date.now())
  const { events, sessions, profiles } = kept
  if (events !== undefined) write('event', await countExpiredEvents(shards, id, events), io)
  if (sessions !== undefined) write('session', await countExpiredSessions(shards, id, sessions), io)
  if (profiles !== undefined) {
    const { length: count } = await findUnseenProfiles(shards, id, { ...kept, profiles }, MAX_PROFILES)
    write('profile', { count, from: null, to: null, bytes: 0 }, io)
  }
  if (Object.keys(kept).length === 0) io.stdout.write('Nothing would expire.\n')
}

function write(what: string, { count, from, to, bytes }: Expired, { stdout }: CommandIo): void {
  const time = (ms: number | null) => new Date(ms ?? 0).toISOString()
  const size = bytes < 1e6 ? 'less than 1 MB' : `about ${Math.round(bytes / 1e6)} MB`
  const more = from === null ? '' : `, from ${time(from)} to ${time(to)}, ${size}`
  stdout.write(`${counted(count, what)} would expire${more}.\n`)
}

function print(id: string, settings: ProjectSettings, isJson: boolean, { stdout }: CommandIo): void {
  if (isJson) {
    stdout.write(`${JSON.stringify({ id, ...settings })}\n`)
    return
  }
  const lines = [['id', id] as const, ...listSettings(settings)].map(([name, value]) => `${name}: ${format(value)}`)
  stdout.write(`${lines.map(escapeUnprintable).join('\n')}\n`)
}

function format(value: unknown): string {
  if (isQuota(value)) return `${value.limit} (${value.mode}${value.locked ? ', locked' : ''})`
  if (Array.isArray(value)) {
    return value.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ') || '-'
  }
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '-')
}

/** Event names may have characters that change what a terminal shows. */
function escapeUnprintable(text: string): string {
  return text.replace(new RegExp(UNPRINTABLE, 'gu'), (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)
}

function isQuota(value: unknown): value is Quota {
  return typeof value === 'object' && value !== null && 'limit' in value
}

function onlyProject(positionals: string[]): string {
  const [id, other] = positionals
  if (id === undefined || other !== undefined) throw new UsageError('Name one project.')
  return id
}

/** The projects with keys or settings, and the default one, which may have its keys in the environment; by id. */
async function listProjects(shards: Shards): Promise<Map<string, ProjectSettings>> {
  const projects = await readProjects(shards)
  // An erased project still has a row of settings, all of them defaults.
  const isSet = (id: string) => Object.keys(listSet(projects.get(id)?.settings ?? DEFAULT_SETTINGS)).length > 0
  const withKeys = (await listKeys(shards.first)).map(({ projectId }) => projectId)
  const ids = new Set([DEFAULT_PROJECT, ...withKeys, ...[...projects.keys()].filter(isSet)])
  return new Map([...ids].sort().map((id) => [id, projects.get(id)?.settings ?? DEFAULT_SETTINGS]))
}

/** Requires an existing project, so that a typo does not create a new one. @throws Error */
export async function requireProject(shards: Shards, id: string): Promise<ProjectSettings> {
  const settings = (await listProjects(shards)).get(id)
  if (settings) return settings
  throw new Error(
    `There is no project ${id}. See: tallyhouse projects list. A project begins with its first key: keys create.`,
  )
}
