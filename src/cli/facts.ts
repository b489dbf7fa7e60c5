import type { Shards } from '../clickhouse/shards.js'
import { loadConfig } from '../config.js'
import { type AuditAction, COMMAND_LINE } from '../model/audit-entry.js'
import { addAuditEntries } from '../store/audit.js'
import { readLeftOut, requestFacts } from '../store/event-changes.js'
import { MIN_EVENTS } from '../store/fact-backlog.js'
import { type FactsStatus, readFactsStatus } from '../store/fact-status.js'
import { type Command, type CommandIo, parseOptions, UsageError } from './command.js'
import { counted, duration } from './progress.js'
import { requireProject } from './projects.js'
import { withStore } from './store.js'

const USAGE = `Usage: tallyhouse facts [show]
       tallyhouse facts rebuild
       tallyhouse facts leave-out PROJECT…
       tallyhouse facts take-in PROJECT…

Facts are a second copy of the events, sorted the way questions read them. A running service with
FACTS=on copies events in the background; until an event is copied, questions read the original.
Projects with fewer than ${MIN_EVENTS} events have none, unless the service has FACTS=all.

show       shows how many events are copied
rebuild    copies everything again; questions take longer until that is done
leave-out  removes the facts of projects; their questions then read the events
take-in    copies the events of these projects again

The command works on the store of CLICKHOUSE_URL or DATA_DIR, even while the service runs, and the
running service carries out the request. The exit code is 0 if the facts were shown or the request
was stored.`

const KINDS = { rebuild: 'rebuild', 'leave-out': 'leave_out', 'take-in': 'take_in' } as const
const ACTIONS = { leave_out: 'facts_left_out', take_in: 'facts_taken_in' } as const

export const command: Command = {
  summary: 'shows the progress of the facts for questions, and rebuilds them',
  usage: USAGE,
  async run(args, io) {
    const [name = 'show', ...projects] = parseOptions({ args, options: {}, allowPositionals: true }).positionals
    if (name === 'show') return await withStore(io, (shards) => show(shards, io))
    if (!Object.hasOwn(KINDS, name)) throw new UsageError('Specify an action: show, rebuild, leave-out or take-in.')
    if (name === 'rebuild' && projects.length > 0) throw new UsageError('Facts are rebuilt for all projects.')
    if (name !== 'rebuild' && projects.length === 0) throw new UsageError('Name the projects.')
    const kind = KINDS[name as keyof typeof KINDS]
    return await withStore(io, async (shards) => {
      // A project that was left out may no longer exist.
      const leftOut = kind === 'take_in' ? await readLeftOut(shards.first) : new Set<string>()
      for (const project of projects) if (!leftOut.has(project)) await requireProject(shards, project)
      if (kind !== 'rebuild') await audit(shards, projects, ACTIONS[kind])
      for (const project of name === 'rebuild' ? [''] : projects) {
        await shards.each(({ clickhouse }) => requestFacts(clickhouse, kind, project))
      }
      io.stdout.write(
        'Stored. A running service with FACTS=on begins with it within seconds. See its progress: tallyhouse facts\n',
      )
      return 0
    })
  },
}

async function audit(shards: Shards, projects: string[], action: AuditAction): Promise<void> {
  const entries = projects.map((projectId) => ({ projectId, actor: COMMAND_LINE, action, target: null, changes: {} }))
  await addAuditEntries(shards, entries)
}

async function show(shards: Shards, io: CommandIo): Promise<number> {
  if (loadConfig(io.env).FACTS === 'off') {
    io.stdout.write(
      'FACTS=off is set here: a service with this setting removes the facts, and questions read the events.\n',
    )
  }
  const all = await shards.each(({ clickhouse }) => readFactsStatus(clickhouse, MIN_EVENTS))
  for (const [number, status] of all.entries()) {
    const name = shards.areSeveral ? `Shard ${number}: ` : ''
    io.stdout.write(`${name}${describeFacts(status, Date.now())}\n`)
  }
  return 0
}

/** @param now epoch ms */
function describeFacts(
  { events, facts, few, bytes, reachedAt, silentMs, changes, leftOut }: FactsStatus,
  now: number,
): string {
  if (silentMs === null) return 'There are no facts: no service with FACTS=on has run on this store.'
  const copied =
    reachedAt === null
      ? 'nothing is copied yet'
      : `the newest was accepted ${duration(Math.max(0, now - reachedAt) / 1000)} ago`
  const part = Math.min(100, Math.floor((100 * facts) / events))
  return [
    events === 0
      ? 'There are no events to copy.'
      : `${part} % of ${counted(events, 'event')} ${events === 1 ? 'is' : 'are'} copied (${Math.ceil(bytes / 1024 ** 2)} MiB); ${copied}.`,
    ...(changes > 0
      ? [`${counted(changes, 'change')} of events ${changes === 1 ? 'is' : 'are'} not in the facts yet.`]
      : []),
    ...(few > 0
      ? [
          `${counted(few, 'event')} ${few === 1 ? 'is' : 'are'} not copied: their projects have fewer than ${MIN_EVENTS}.`,
        ]
      : []),
    ...(leftOut.length > 0 ? [`Left out: ${leftOut.join(', ')}.`] : []),
  ].join('\n')
}
