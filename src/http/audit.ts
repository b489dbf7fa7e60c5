import type { FastifyInstance, FastifyRequest } from 'fastify'
import { toActor } from '../keys/keys.js'
import type { AuditEntry } from '../model/audit-entry.js'

/** What a call changes, for the audit log of its project. */
export type AuditedChange = Pick<AuditEntry, 'action' | 'changes'>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** returns what the call changes; null if that is nothing */
    audit?: (request: FastifyRequest) => AuditedChange | null
  }
}

/**
 * Adds an entry to the audit log for each call whose route describes its change, before the change, so that none is
 * missing. If the call fails, the log has a change that was not made. Calls that note what was there before, such as
 * changes of keys and settings, add their entries themselves.
 */
export function auditCalls(scope: FastifyInstance, insert: (entry: AuditEntry) => Promise<void>): void {
  scope.addHook('onRoute', (route) => {
    const describe = route.config?.audit
    if (!describe) return
    const add = async (request: FastifyRequest) => {
      const change = describe(request)
      const { projectId, grant } = request
      if (change) await insert({ projectId, actor: toActor(grant), target: null, ...change })
    }
    route.preHandler = [route.preHandler ?? [], add].flat()
  })
}
