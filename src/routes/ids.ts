import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ForgottenIds, IdsQuery, type RememberedIds, RememberedIdsList } from '../contract/id-schemas.js'
import { NoQuery } from '../contract/query-schemas.js'
import { describeCalls, EXAMPLE_TIME } from '../http/openapi/description.js'
import type { LaneIds, LaneIdUse } from '../lanes/lane-ids.js'

export interface IdsOptions {
  ids: LaneIds
}

const CALLS = describeCalls('Operation', {
  countIds: {
    schema: { querystring: NoQuery, response: { 200: RememberedIdsList } },
    config: { access: 'manage' },
    summary: 'Count the remembered insert_ids of the project',
    description:
      'By kind of key and lane. If more arrived than `MAX_INSERT_IDS`, the oldest were forgotten before their seven days: all ' +
      'ids sent since `since` are remembered.',
    response: {
      example: {
        ids: [
          { kind: 'page', lane: 0, ids: 4_200_000, since: EXAMPLE_TIME },
          { kind: 'secret', lane: 0, ids: 12_000, since: null },
        ],
      },
    },
  },
  forgetIds: {
    schema: { querystring: IdsQuery, response: { 200: ForgottenIds } },
    summary: 'Forget the insert_ids of the project',
    description:
      'All, or those that came with one `kind` of key. An event that is sent again afterwards is stored again. It works while the ' +
      'journal is full, and frees the memory of the ids before it responds.',
    response: { example: { forgotten: 4_200_000 } },
  },
})

/** Lists and forgets the remembered `insert_id`s of a project. */
export const ids: FastifyPluginAsyncTypebox<IdsOptions> = async (app, { ids }) => {
  app.get('/ids', CALLS.countIds, async (request) => {
    return { status: 1, error: null, ids: (await ids.list(request.projectId)).map(toRememberedIds) } as const
  })
  app.delete('/ids', CALLS.forgetIds, async (request) => {
    const { kind } = request.query
    const isMeant = (one: LaneIdUse) => kind === undefined || one.sender.keyClass === kind
    const before = (await ids.list(request.projectId)).filter(isMeant)
    await ids.forget(request.projectId, kind && [kind])
    return { status: 1, error: null, forgotten: before.reduce((sum, { ids }) => sum + ids, 0) } as const
  })
}

function toRememberedIds({ sender, lane, ids, since }: LaneIdUse): RememberedIds {
  return { kind: sender.keyClass, lane, ids, since }
}
