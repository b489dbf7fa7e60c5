import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Shards } from '../clickhouse/shards.js'
import { invalidField } from '../contract/errors.js'
import type { AuditLogEntry, ListedKey } from '../contract/key-schemas.js'
import { KeyChanges } from '../keys/key-changes.js'
import type { KeyRefresh } from '../keys/key-refresh.js'
import { GRACE_MESSAGE, parseGrace } from '../keys/key-rules.js'
import { type KeyRecord, type StoredKey, toActor } from '../keys/keys.js'
import type { StoredAuditEntry } from '../model/audit-entry.js'
import { listKeys, openKeyStore } from '../store/api-keys.js'
import { listAuditEntries } from '../store/audit.js'
import { NEVER_USED, readKeyUse, type StoredKeyUse } from '../store/key-usage.js'
import { toOffset } from '../store/page.js'
import { CALLS } from './keys.calls.js'

export interface KeysOptions {
  shards: Shards
  /** the keys of the environment */
  fixed: readonly StoredKey[]
  refresh: Pick<KeyRefresh, 'refresh'>
}

const DEFAULT_GRACE = '24h'

/** Lists and changes the keys of a project, and shows who changed what. */
export const keys: FastifyPluginAsyncTypebox<KeysOptions> = async (app, { shards, fixed, refresh }) => {
  const store = openKeyStore(shards.first)
  app.addHook('onSend', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })

  app.get('/keys', CALLS.listKeys, async (request) => {
    const { projectId } = request
    const [stored, findUse] = await Promise.all([
      shards.onFirst((clickhouse) => listKeys(clickhouse, projectId)),
      readUse(projectId),
    ])
    const ofEnvironment = fixed.filter((key) => key.projectId === projectId)
    return {
      status: 1,
      error: null,
      keys: [...ofEnvironment, ...stored].map((key) => describe(key, request, findUse(key))),
    }
  })

  app.post('/keys', CALLS.createKey, async (request) => {
    const { projectId, body } = request
    const { kind, label, origins, events_only } = body
    const fields = { label: label ?? '', origins: origins ?? [], eventsOnly: events_only ?? false }
    const [made] = await change(request, (changes) => changes.create([{ projectId, kind, ...fields }]))
    if (!made) throw new Error('no key was created')
    return { status: 1, error: null, apiKey: made.text, key: describe(made, request, NEVER_USED) }
  })

  app.post('/keys/:keyId/rotate', CALLS.rotateKey, async (request) => {
    const { projectId, params, body } = request
    const graceMs = readGrace(body.grace ?? DEFAULT_GRACE)
    const { made, ended } = await change(request, async (changes) => {
      return await changes.rotate([await changes.find(projectId, params.keyId)], graceMs)
    })
    const [key, replaced] = [made[0], ended[0]]
    if (!key || !replaced) throw new Error('no key was replaced')
    const findUse = await readUse(projectId)
    return {
      status: 1,
      error: null,
      apiKey: key.text,
      key: describe(key, request, NEVER_USED),
      replaced: describe(replaced, request, findUse(replaced)),
    }
  })

  app.patch('/keys/:keyId', CALLS.changeKey, async (request) => {
    const { projectId, params, body } = request
    const { label, origins, events_only } = body
    const changed = await change(request, async (changes) => {
      return await changes.change(await changes.find(projectId, params.keyId), {
        ...(label != null && { label }),
        ...(origins != null && { origins }),
        ...(events_only != null && { eventsOnly: events_only }),
      })
    })
    const findUse = await readUse(projectId)
    return { status: 1, error: null, key: describe(changed, request, findUse(changed)) }
  })

  app.delete('/keys/:keyId', CALLS.revokeKey, async (request) => {
    const { projectId, params } = request
    await change(request, async (changes) => changes.revoke([await changes.find(projectId, params.keyId)]))
    return { status: 1, error: null }
  })

  app.get('/audit', CALLS.readAuditLog, async ({ projectId, query }) => {
    const { limit, page } = query
    const wanted = { projectId, limit: limit + 1, offset: toOffset(page, limit) }
    const entries = await shards.onFirst((clickhouse) => listAuditEntries(clickhouse, wanted))
    return {
      status: 1,
      error: null,
      entries: entries.slice(0, limit).map(describeEntry),
      page,
      limit,
      hasMore: entries.length > limit,
    }
  })

  function readUse(projectId: string) {
    return shards.onFirst((clickhouse) => readKeyUse(clickhouse, projectId))
  }

  /**
   * Makes a change on behalf of the request's key. This process applies it before the call returns, if the keys can be
   * read; otherwise with the next read.
   */
  async function change<T>({ grant }: FastifyRequest, make: (changes: KeyChanges) => Promise<T>): Promise<T> {
    const changes = new KeyChanges(store, toActor(grant), fixed)
    const made = await shards.onFirst(() => make(changes))
    await refresh.refresh()
    return made
  }
}

/** @throws ApiError `invalid_request` */
function readGrace(text: string): number {
  const graceMs = parseGrace(text)
  if (graceMs === null) throw invalidField('/grace', GRACE_MESSAGE)
  return graceMs
}

function describe(
  key: StoredKey & Partial<Pick<KeyRecord, 'createdAt' | 'revokedAt' | 'isValid'>>,
  { grant }: FastifyRequest,
  use: StoredKeyUse,
): ListedKey {
  const { id, kind, label, origins, eventsOnly, createdAt = null, revokedAt = null, isValid = true } = key
  return {
    id,
    kind,
    label,
    origins: [...origins],
    events_only: eventsOnly,
    source: createdAt === null ? 'environment' : 'store',
    state: !isValid ? 'revoked' : revokedAt === null ? 'valid' : 'ending',
    created_at: createdAt,
    revoked_at: revokedAt,
    last_used: use.lastUsed,
    refused: use.refused,
    last_refused: use.lastRefused,
    current: key.hash === grant?.hash,
  }
}

function describeEntry({ changedAt, actor, action, target, changes }: StoredAuditEntry): AuditLogEntry {
  const key = actor.type === 'key' ? actor : { id: null, label: null }
  return { at: changedAt, actor: { type: actor.type, id: key.id, label: key.label }, action, target, changes }
}
