import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { Shards } from '../clickhouse/shards.js'
import { invalidField } from '../contract/errors.js'
import type { ProjectAnswer, ProjectErased, ProjectUsage } from '../contract/project-schemas.js'
import { changeSettings } from '../contract/project-settings.js'
import { USAGE_COLUMNS } from '../contract/responses.js'
import { toActor } from '../keys/keys.js'
import { toDay } from '../lib/day.js'
import { checkSettings } from '../projects/check-settings.js'
import type { Expiry } from '../projects/expiry.js'
import { type Project, type Projects, readProject, refuseLocked } from '../projects/projects.js'
import type { QuotaWatch } from '../projects/quota-watch.js'
import { describeDay, toUsageStart, type Usage } from '../projects/usage.js'
import { readStoredBytes } from '../store/project-usage.js'
import { reserveErasureSlots } from '../users/erasure/erasure.js'
import type { ProjectErasure } from '../users/erasure/project-erasure.js'
import type { Purge } from '../users/erasure/purge.js'
import { purgeAndReport } from '../users/erasure/purge-report.js'
import { CALLS } from './project.calls.js'

export interface ProjectOptions {
  projects: Projects
  expiry: Pick<Expiry, 'preview'>
  usage: Usage
  quotas: Pick<QuotaWatch, 'read'>
  shards: Shards
  projectErasure: ProjectErasure
  purge: Purge
}

/** Settings, usage and erasure of the key's project. */
export const project: FastifyPluginAsyncTypebox<ProjectOptions> = async (
  app,
  { projects, expiry, usage, quotas, shards, projectErasure, purge },
) => {
  app.get('/project', CALLS.readProject, ({ projectId }) => describe(projectId, projects.get(projectId)))

  app.patch('/project', CALLS.changeProject, async (request) => {
    const { projectId, body } = request
    const { apiKey: _, revision, dry_run: isDryRun, ...change } = body
    const by = toActor(request.grant)
    if (!isDryRun) {
      const options = { by, expected: revision ?? undefined }
      return describe(projectId, await projects.change(shards, projectId, change, options))
    }
    await checkSettings(shards, change)
    const project = await readProject(shards, projectId, revision ?? undefined)
    const settings = changeSettings(project.settings, change)
    refuseLocked(project.settings, settings, by)
    const expired = await expiry.preview(projectId, settings.keep)
    return { ...describe(projectId, { ...project, settings }), expired }
  })

  app.get('/usage', CALLS.readUsage, async ({ projectId, query }, reply) => {
    const { to = toDay(Date.now()), format } = query
    const from = query.from ?? toUsageStart(to)
    if (from > to) throw invalidField('/from', 'must not be after to, whose default is today')
    const used = await usage.read(projectId, { from, to })
    const days = [...used].map(([day, one]) => describeDay(day, one))
    if (format === 'csv') {
      reply.header('content-type', 'text/csv; charset=utf-8')
      const lines = days.map((one) => USAGE_COLUMNS.map((name) => one[name] ?? ''))
      return [USAGE_COLUMNS, ...lines].map((line) => `${line.join(',')}\r\n`).join('')
    }
    // Counts within the slots of the project, and includes expired data that is still on the disk.
    const counting = reserveErasureSlots(shards, projectId)
    const statuses = await quotas.read([projectId], counting)
    const checked = statuses.find(({ name }) => name === 'stored_bytes')?.used
    const stored_bytes = checked ?? (await readStoredBytes(counting, [projectId])).get(projectId) ?? 0
    const own = statuses.map(({ name, limit, mode, used }) => ({ name, limit, mode, used }))
    return { status: 1, error: null, days, stored_bytes, quotas: own } satisfies Static<typeof ProjectUsage>
  })

  app.delete('/projects/:project', CALLS.eraseProject, async ({ projectId, params, grant }) => {
    // Requiring the name prevents erasing another project by mistake.
    if (params.project !== projectId) throw invalidField('/project', 'must be the project of the key')
    const { isComplete, unreadableDeadLetters, deadLetters, ...erased } = await projectErasure.erase(projectId)
    if (isComplete) await projects.reset(shards, projectId, toActor(grant))
    return {
      status: 1,
      error: null,
      erased: { ...erased, dead_letters: deadLetters },
      complete: isComplete,
      unreadable_dead_letters: unreadableDeadLetters,
      // Purge only once the erasure is complete, because the next call would have to rewrite the tables again.
      ...(isComplete ? await purgeAndReport(purge, projectId, app.log) : { gone_at: null, purge_error: null }),
    } satisfies ProjectErased
  })
}

function describe(id: string, { settings, revision, updatedAt }: Project): Static<typeof ProjectAnswer> {
  return { status: 1, error: null, project: { id, ...settings, revision, updated_at: updatedAt } }
}
