import { createHash } from 'node:crypto'
import { DAY_MS } from '../contract/durations.js'
import { ApiError, invalidFields } from '../contract/errors.js'
import { isSameJson } from '../contract/same-json.js'
import type { Actor, AuditAction, AuditChanges, AuditEntry } from '../model/audit-entry.js'
import { findKeyFaults, MAX_KEYS, tidyKey } from './key-rules.js'
import { type KeyRecord, type LabelledGrant, makeKey, type StoredKey, storedKey } from './keys.js'

/** The stored keys, as changes need them. */
export interface KeyStore {
  /** the keys of a project or of all projects, including revoked ones, ordered by project and age */
  list(projectId?: string): Promise<KeyRecord[]>
  /** adds keys, all or none; returns when they were created, epoch ms */
  insert(keys: StoredKey[]): Promise<number>
  /** sets the given fields of a key; another change may have set the others meanwhile */
  change(key: StoredKey, fields: Partial<KeyFields>): Promise<void>
  /**
   * revokes keys after `delayMs`; a key that was revoked for an earlier time keeps that time
   * @param token of several calls with the same token, one revokes anything; absent: each does
   */
  revoke(keys: StoredKey[], delayMs: number, token?: string): Promise<void>
  audit(entries: AuditEntry[]): Promise<void>
}

/** Maximum number of attempts to revoke a key while others change the keys of its project. */
const MAX_TRIES = 20

/** A new key with its text, which is never available again. */
export interface NewKey extends KeyRecord {
  text: string
}

/** The fields of a key that can be changed. */
export type KeyFields = Pick<LabelledGrant, 'label' | 'origins' | 'eventsOnly'>

/**
 * Changes keys for the API, the page and the commands. Each change is in the audit log: its entry is stored first, so
 * that none is missing. If the store fails in between, or another call takes the last secret key, the log has a change
 * that was not made.
 */
export class KeyChanges {
  readonly #store: KeyStore
  readonly #actor: Actor
  readonly #fixed: readonly StoredKey[]

  /** @param fixed the known keys of the environment, which cannot be changed here */
  constructor(store: KeyStore, actor: Actor, fixed: readonly StoredKey[] = []) {
    this.#store = store
    this.#actor = actor
    this.#fixed = fixed
  }

  /**
   * Finds a valid key of a project by its id.
   * @throws ApiError `not_found`; `key_conflict` if it cannot be changed here
   */
  async find(projectId: string, id: string): Promise<KeyRecord> {
    if (this.#fixed.some((key) => key.projectId === projectId && key.id === id)) {
      const message = `${id} is set in the environment of the service. Change it there, and restart the service.`
      throw new ApiError('key_conflict', message)
    }
    const [key, another] = (await this.#store.list(projectId)).filter((key) => key.isValid && key.id === id)
    if (!key) throw new ApiError('not_found', 'The project has no valid key with this id.')
    if (another) {
      const message = `Several keys have the id ${id}. Use tallyhouse keys, which takes the whole key.`
      throw new ApiError('key_conflict', message)
    }
    return key
  }

  /** @throws ApiError `invalid_request`; `key_conflict` if the project would have too many keys */
  async create(grants: LabelledGrant[]): Promise<NewKey[]> {
    const keys = grants.map(createKey)
    for (const projectId of new Set(grants.map(({ projectId }) => projectId))) {
      const since = Date.now() - DAY_MS
      const earlier = (await this.#store.list(projectId)).filter((key) => key.isValid || key.createdAt > since)
      if (earlier.length + keys.filter((key) => key.projectId === projectId).length > MAX_KEYS) {
        const message = `A project has at most ${MAX_KEYS} keys, including revoked ones created in the last day. Revoke keys that are no longer used, or wait.`
        throw new ApiError('key_conflict', message)
      }
    }
    await this.#store.audit(keys.map((key) => toCreation(key, this.#actor)))
    const createdAt = await this.#store.insert(keys)
    return keys.map((key) => ({ ...key, createdAt, revokedAt: null, isValid: true }))
  }

  /**
   * Replaces keys of one project with new ones of the same kind, label and limits; keys that are alike share one. Keys
   * that are already being replaced get no new replacement, unless all of the given keys are.
   * @returns the new keys, and the old ones with the times at which they end
   */
  async rotate(keys: KeyRecord[], graceMs: number): Promise<{ made: NewKey[]; ended: KeyRecord[] }> {
    const current = keys.filter(({ revokedAt }) => revokedAt === null)
    const made = await this.create(takeDistinct(current.length > 0 ? current : keys))
    await this.#audit('key_rotated', keys, () => ({ grace_ms: { from: null, to: graceMs } }))
    await this.#store.revoke(keys, graceMs)
    const hashes = new Set(keys.map(({ hash }) => hash))
    const ended = (await this.#store.list(keys[0]?.projectId)).filter(({ hash }) => hashes.has(hash))
    return { made, ended }
  }

  /** @returns the key as it is now @throws ApiError `invalid_request` */
  async change(key: KeyRecord, fields: Partial<KeyFields>): Promise<KeyRecord> {
    const changed = tidyKey({ ...key, ...fields })
    checkFaults(changed)
    const changes = compareFields(key, changed)
    if (Object.keys(changes).length === 0) return key
    await this.#audit('key_changed', [key], () => changes)
    const names = Object.keys(fields) as (keyof KeyFields)[]
    await this.#store.change(key, Object.fromEntries(names.map((name) => [name, changed[name]])))
    return (await this.#store.list(key.projectId)).find(({ hash }) => hash === key.hash) ?? changed
  }

  /**
   * @param mayBeLast whether a project may be left without a secret key
   * @throws ApiError `key_conflict` if it would be, and may not
   */
  async revoke(keys: KeyRecord[], { mayBeLast = false } = {}): Promise<void> {
    const secret = mayBeLast ? [] : keys.filter(({ kind }) => kind === 'secret')
    const projects = new Set(secret.map(({ projectId }) => projectId))
    for (const projectId of projects) this.#checkLast(projectId, secret, await this.#store.list(projectId))
    await this.#audit('key_revoked', keys, () => ({}))
    // Keys that end anyway do not count as left.
    const lasting = secret.filter(({ revokedAt }) => revokedAt === null)
    const others = keys.filter((key) => !lasting.includes(key))
    for (const projectId of projects) {
      const ofProject = lasting.filter((key) => key.projectId === projectId)
      if (ofProject.length > 0) await this.#revokeSecret(projectId, ofProject)
    }
    if (others.length > 0) await this.#store.revoke(others, 0)
  }

  /**
   * Revokes secret keys of a project that has others. Two calls that have seen the same secret keys could revoke the last
   * two; but their tokens say what they have seen, so only one revokes anything, and the other checks again.
   */
  async #revokeSecret(projectId: string, keys: KeyRecord[]): Promise<void> {
    const hashes = new Set(keys.map(({ hash }) => hash))
    let before = ''
    let lost = 0
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const stored = await this.#store.list(projectId)
      if (!stored.some(({ hash, isValid }) => isValid && hashes.has(hash))) return
      const seen = digestOf(this.#checkLast(projectId, keys, stored))
      // ClickHouse can lose a row, but not its token.
      lost = seen === before ? lost + 1 : 0
      before = seen
      await this.#store.revoke(keys, 0, JSON.stringify(['secret keys', projectId, seen, lost]))
    }
    throw new ApiError(
      'key_conflict',
      'Others changed the keys at the same time. Read them again, and repeat the call.',
    )
  }

  /**
   * Checks that a project keeps a secret key without these.
   * @param stored the keys of the project
   * @returns all its secret keys that have no end
   * @throws ApiError `key_conflict`
   */
  #checkLast(projectId: string, keys: KeyRecord[], stored: KeyRecord[]): StoredKey[] {
    const hashes = new Set(keys.map(({ hash }) => hash))
    const fixed = this.#fixed.filter((key) => key.projectId === projectId)
    const current = stored.filter(({ revokedAt }) => revokedAt === null)
    const secret = [...fixed, ...current].filter(({ kind }) => kind === 'secret')
    if (secret.some(({ hash }) => !hashes.has(hash))) return secret
    const id = keys.find((key) => key.kind === 'secret' && key.projectId === projectId)?.id
    throw new ApiError(
      'key_conflict',
      `${id} is the last secret key of the project ${projectId}; without one, nobody can manage the project through the API or the page. ` +
        'Create another secret key first, or replace this one by rotating it. The command tallyhouse keys revoke --last revokes it anyway.',
    )
  }

  async #audit<Key extends StoredKey>(
    action: AuditAction,
    keys: Key[],
    describe: (key: Key) => AuditChanges,
  ): Promise<void> {
    await this.#store.audit(keys.map((key) => toEntry(key, this.#actor, action, describe(key))))
  }
}

/** The entry of the audit log for a new key. */
export function toCreation(key: StoredKey, actor: Actor): AuditEntry {
  return toEntry(key, actor, 'key_created', { kind: { from: null, to: key.kind }, ...compareFields(null, key) })
}

function toEntry(key: StoredKey, actor: Actor, action: AuditAction, changes: AuditChanges): AuditEntry {
  const { projectId, id, label } = key
  return { projectId, actor, action, target: { id, label }, changes }
}

function createKey({ projectId, kind, label, origins, eventsOnly }: LabelledGrant): StoredKey & { text: string } {
  const text = makeKey(kind)
  const key = storedKey(text, tidyKey({ projectId, kind, label, origins, eventsOnly }))
  checkFaults(key)
  return { ...key, text }
}

/** @throws ApiError `invalid_request` that names the fields at fault */
function checkFaults(key: LabelledGrant): void {
  const details = findKeyFaults(key).map(({ field, index, message }) => {
    return { path: `/${field}${index === undefined ? '' : `/${index}`}`, message }
  })
  if (details.length > 0) throw invalidFields(details)
}

function digestOf(keys: StoredKey[]): string {
  return createHash('sha256')
    .update(keys.map(({ hash }) => hash).join())
    .digest('hex')
}

/** Removes keys that are like an earlier one. */
function takeDistinct(keys: KeyRecord[]): KeyRecord[] {
  const seen = new Set<string>()
  return keys.filter(({ kind, label, origins, eventsOnly }) => {
    const likeness = JSON.stringify([kind, label, origins, eventsOnly])
    return !seen.has(likeness) && seen.add(likeness)
  })
}

/** The fields that differ; for a new key, those that are set. */
function compareFields(before: KeyFields | null, after: KeyFields): AuditChanges {
  const fields = { label: 'label', origins: 'origins', eventsOnly: 'events_only' } as const
  const unset: KeyFields = { label: '', origins: [], eventsOnly: false }
  return Object.fromEntries(
    (Object.keys(fields) as (keyof KeyFields)[]).flatMap((field) => {
      const [from, to] = [(before ?? unset)[field], after[field]]
      if (isSameJson(from, to)) return []
      return [[fields[field], { from: before ? from : null, to }]]
    }),
  )
}
