import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ForgottenIds, IdsQuery, RememberedIds } from '../contract/id-schemas.js'
import { NoQuery } from '../contract/query-schemas.js'
import type * as responses from '../contract/responses.js'
import type { LaneIds, LaneIdUse } from '../lanes/lane-ids.js'

export interface IdsOptions {
  ids: LaneIds
}

/** Lists and forgets the remembered `insert_id`s of a project. */
export const ids: FastifyPluginAsyncTypebox<IdsOptions> = async (app, { ids }) => {
  const config = { access: 'manage' as const }
  app.get('/ids', { config, schema: { querystring: NoQuery, response: { 200: RememberedIds } } }, async (request) => {
    return { status: 1, error: null, ids: (await ids.list(request.projectId)).map(described) } as const
  })
  app.delete(
    '/ids',
    { config, schema: { querystring: IdsQuery, response: { 200: ForgottenIds } } },
    async (request) => {
      const { kind } = request.query
      const isMeant = (one: LaneIdUse) => kind === undefined || one.sender.keyClass === kind
      const before = (await ids.list(request.projectId)).filter(isMeant)
      await ids.forget(request.projectId, kind && [kind])
      return { status: 1, error: null, forgotten: before.reduce((sum, { ids }) => sum + ids, 0) } as const
    },
  )
}

function described({ sender, lane, ids, since }: LaneIdUse): responses.RememberedIds {
  return { kind: sender.keyClass, lane, ids, since }
}
