import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { ProjectAnswer, ProjectParams, SettingsBody } from '../contract/project-schemas.js'
import { changeSettings } from '../contract/project-settings.js'
import { NoQuery } from '../contract/query-schemas.js'
import type * as responses from '../contract/responses.js'
import type { Project, Projects } from '../projects/projects.js'
import type { Retention } from '../projects/retention.js'
import type { ProjectErasure } from '../users/erasure/project-erasure.js'
import type { Purge } from '../users/erasure/purge.js'
import { purgeAndReport } from '../users/erasure/purge-report.js'

export interface ProjectOptions {
  projects: Projects
  retention: Pick<Retention, 'preview'>
  shards: Shards
  projectErasure: ProjectErasure
  purge: Purge
}

/** The settings of the key's project, and its end. */
export const project: FastifyPluginAsyncTypebox<ProjectOptions> = async (
  app,
  { projects, retention, shards, projectErasure, purge },
) => {
  app.get('/project', { schema: { querystring: NoQuery, response: { 200: ProjectAnswer } } }, ({ projectId }) =>
    describe(projectId, projects.get(projectId)),
  )

  app.patch(
    '/project',
    { schema: { querystring: NoQuery, body: SettingsBody, response: { 200: ProjectAnswer } } },
    async ({ projectId, body: { apiKey: _, revision, dry_run: isDryRun, ...change } }) => {
      if (!isDryRun) return describe(projectId, await projects.change(shards, projectId, change, revision ?? undefined))
      const project = projects.get(projectId)
      const settings = changeSettings(project.settings, change)
      const expired = await retention.preview(projectId, settings.keep)
      return { ...describe(projectId, { ...project, settings }), expired }
    },
  )

  const schema = { params: ProjectParams, querystring: NoQuery }
  app.delete('/projects/:project', { schema }, async ({ projectId, params }) => {
    // So that no other one is erased by mistake.
    if (params.project !== projectId) throw notTheProject()
    const { isComplete, unreadableLetters, deadLetters, ...erased } = await projectErasure.erase(projectId)
    return {
      status: 1,
      error: null,
      erased: { ...erased, dead_letters: deadLetters },
      complete: isComplete,
      unreadable_dead_letters: unreadableLetters,
      // Rewriting the tables between two calls would be done anew after the next one.
      ...(isComplete ? await purgeAndReport(purge, projectId, app.log) : { gone_at: null, purge_error: null }),
    } satisfies responses.ProjectErased & { status: 1; error: null }
  })
}

function describe(id: string, { settings, revision, updatedAt }: Project): Static<typeof ProjectAnswer> {
  return { status: 1, error: null, project: { id, ...settings, revision, updated_at: updatedAt } }
}

function notTheProject(): ApiError {
  const message = 'must be the project of the key'
  return new ApiError('invalid_request', `project ${message}.`, { details: [{ path: '/project', message }] })
}
