import type { FastifyInstance, FastifyRequest } from 'fastify'
import { toActor } from '../keys/keys.js'
import type { AuditEntry } from '../model/audit-entry.js'

/** The change that a call makes, for the audit log of its project. */
type AuditedChange = Pick<AuditEntry, 'action' | 'changes'>

/** Describes what a call changes, null if nothing. Its schemas decide the types of `params` and `body`. */
export type DescribeChange = (request: { projectId: string; params: never; body: never }) => AuditedChange | null

declare module 'fastify' {
  interface FastifyContextConfig {
    audit?: DescribeChange
  }
}

/**
 * Adds an entry to the audit log for each call whose route describes its change. The entry is stored before the change,
 * so none is missing; if the call then fails, the log has a change that was not made. Calls whose entries contain old
 * values, such as changes of keys and settings, add them themselves.
 */
export function auditCalls(scope: FastifyInstance, insert: (entry: AuditEntry) => Promise<void>): void {
  scope.addHook('onRoute', (route) => {
    const describe = route.config?.audit
    if (!describe) return
    const add = async (request: FastifyRequest) => {
      const change = describe(request as FastifyRequest & Parameters<DescribeChange>[0])
      const { projectId, grant } = request
      if (change) await insert({ projectId, actor: toActor(grant), target: null, ...change })
    }
    route.preHandler = [route.preHandler ?? [], add].flat()
  })
}
