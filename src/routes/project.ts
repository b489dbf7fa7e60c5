import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ApiError } from '../contract/errors.js'
import { ProjectParams } from '../contract/project-schemas.js'
import { NoQuery } from '../contract/query-schemas.js'
import type * as responses from '../contract/responses.js'
import type { ProjectErasure } from '../users/erasure/project-erasure.js'
import type { Purge } from '../users/erasure/purge.js'
import { purgeAndReport } from '../users/erasure/purge-report.js'

export interface ProjectOptions {
  projectErasure: ProjectErasure
  purge: Purge
}

/** Erases a project. */
export const project: FastifyPluginAsyncTypebox<ProjectOptions> = async (app, { projectErasure, purge }) => {
  const schema = { params: ProjectParams, querystring: NoQuery }
  app.delete('/projects/:project', { schema }, async ({ projectId, params }) => {
    // Requiring the name prevents erasing another project by mistake.
    if (params.project !== projectId) throw notTheProject()
    const { isComplete, unreadableDeadLetters, deadLetters, ...erased } = await projectErasure.erase(projectId)
    return {
      status: 1,
      error: null,
      erased: { ...erased, dead_letters: deadLetters },
      complete: isComplete,
      unreadable_dead_letters: unreadableDeadLetters,
      // If the erasure is incomplete, the next call would have to rewrite the tables again.
      ...(isComplete ? await purgeAndReport(purge, projectId, app.log) : { gone_at: null, purge_error: null }),
    } satisfies responses.ProjectErased & { status: 1; error: null }
  })
}

function notTheProject(): ApiError {
  const message = 'must be the project of the key'
  return new ApiError('invalid_request', `project ${message}.`, { details: [{ path: '/project', message }] })
}
