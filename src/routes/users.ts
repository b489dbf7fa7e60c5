import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { CatchUp } from '../catch-up.js'
import { ContractError } from '../errors.js'
import { memberText } from '../json.js'
import {
  applyOperations,
  formatProperties,
  identify,
  type Profile,
  parseOperations,
  parseProperties,
} from '../profile.js'
import { requestKeyOf } from '../request-key.js'
import { Done, IdentifyBody, ProfileBody, UserParams, UsersQuery } from '../schemas.js'
import type { States } from '../state.js'
import type { ClickHouse } from '../store/clickhouse.js'
import { aroundRows, offsetOf } from '../store/page.js'
import { readProfilePage } from '../store/profiles.js'

export interface UsersOptions {
  profiles: States<Profile>
  clickhouse: ClickHouse
  catchUp: CatchUp
  /** deletes what else a user has; resolves with whether there was anything */
  deleteTraces: ((projectId: string, distinctId: string) => Promise<boolean>) | null
}

/** Keeps the profiles of users. */
export const users: FastifyPluginAsyncTypebox<UsersOptions> = async (
  app,
  { profiles, clickhouse, catchUp, deleteTraces },
) => {
  app.post(
    '/users/identify',
    { schema: { body: IdentifyBody, response: { 200: Done } } },
    async ({ projectId, body, rawBody }) => {
      const text = body.properties ? memberText(rawBody.toString(), 'properties') : undefined
      const properties = text === undefined ? null : parseProperties(text)
      await profiles.change(projectId, body.distinct_id, (profile) => identify(profile, properties, Date.now()))
      return { status: 1, error: null } as const
    },
  )

  app.post('/users/profile', { schema: { body: ProfileBody, response: { 200: Done } } }, async (request) => {
    const { projectId, body, rawBody } = request
    const operations = parseOperations(memberText(rawBody.toString(), 'operations') ?? '')
    const change = (profile: Profile | null) => applyOperations(profile, operations, Date.now())
    await profiles.change(projectId, body.distinct_id, change, requestKeyOf(request))
    return { status: 1, error: null } as const
  })

  app.delete(
    '/users/:userId',
    { schema: { params: UserParams, response: { 200: Done } } },
    async ({ projectId, params }) => {
      // First what else there is: a delete that was cut off can be repeated as long as the profile is there.
      const hadTraces = (await deleteTraces?.(projectId, params.userId)) ?? false
      await profiles.change(projectId, params.userId, (profile) => {
        if (!profile && !hadTraces) throw unknownUser()
        return null
      })
      return { status: 1, error: null } as const
    },
  )

  app.get('/users/:userId', { schema: { params: UserParams } }, async ({ projectId, params }, reply) => {
    const profile = await profiles.get(projectId, params.userId)
    if (!profile) throw unknownUser()
    const { properties, createdAt, updatedAt } = profile
    reply.header('content-type', 'application/json; charset=utf-8')
    return `{"status":1,"error":null,"user":{"distinct_id":${JSON.stringify(params.userId)},"properties":${formatProperties(properties)},"created_at":${createdAt},"updated_at":${updatedAt}}}`
  })

  app.get('/users', { schema: { querystring: UsersQuery } }, async ({ projectId, query: { limit, page } }, reply) => {
    await catchUp.reachAll()
    const rows = await readProfilePage(clickhouse, { projectId, limit, offset: offsetOf(page, limit) })
    reply.header('content-type', 'application/json; charset=utf-8')
    return Readable.from(
      aroundRows(rows, '{"status":1,"error":null,"users":[', (mark) => {
        return `],"page":${page},"limit":${limit},"hasMore":${mark !== null}}`
      }),
    )
  })
}

function unknownUser(): ContractError {
  return new ContractError('not_found', 'There is no user with this distinct_id.')
}
