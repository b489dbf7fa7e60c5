/** Who changed something: a key, through the API or the page, someone with the command line, or the service itself. */
export type Actor = { type: 'key'; id: string; label: string } | { type: 'command_line' | 'service' }

export const COMMAND_LINE: Actor = { type: 'command_line' }
export const SERVICE: Actor = { type: 'service' }

/** The kind of change. A new kind only needs a name here. */
export type AuditAction =
  | 'key_created'
  | 'key_changed'
  | 'key_rotated'
  | 'key_revoked'
  | 'project_changed'
  | 'project_erased'
  | 'users_erased'
  | 'batches_deleted'
  | 'facts_left_out'
  | 'facts_taken_in'

/**
 * The old and the new value of each field that a change sets, by the names of the API. Never the names of erased users,
 * which the log would keep.
 */
export type AuditChanges = Record<string, { from: unknown; to: unknown }>

/** An entry of the audit log of a project. */
export interface AuditEntry {
  projectId: string
  actor: Actor
  action: AuditAction
  /** what was changed, if a project has several of the kind; a key is named as it was before the change */
  target: { id: string; label: string } | null
  changes: AuditChanges
}

/** An entry as it is stored. */
export interface StoredAuditEntry extends AuditEntry {
  /** epoch milliseconds, by the clock of the store */
  changedAt: number
}
