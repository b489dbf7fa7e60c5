import { createHash, randomBytes } from 'node:crypto'
import type { KeyClass } from '../contract/key-class.js'
import type { Actor } from '../model/audit-entry.js'

export const KEY_KINDS = ['public', 'secret', 'write', 'read'] as const
export type KeyKind = (typeof KEY_KINDS)[number]

/** The access that a call needs, which determines the kinds of key that may make it. */
export type Access = 'session' | 'send' | 'read' | 'manage'

/**
 * The kinds of key that may make a call. Session calls refuse secret keys on purpose: a secret key there means that it
 * was shipped to a browser.
 */
export const ALLOWED: Record<Access, readonly KeyKind[]> = {
  session: ['public', 'write'],
  send: ['secret', 'write'],
  read: ['secret', 'read'],
  manage: ['secret'],
}

/** Whether keys of this kind may be in a web page, where strangers can read them. */
export function isBrowserKey(kind: KeyKind): boolean {
  return ALLOWED.session.includes(kind)
}

/** Returns the class of a key, which has its own insert_ids and share of the journal. */
export function toKeyClass(kind: KeyKind): KeyClass {
  return kind === 'secret' ? 'secret' : 'page'
}

/** The rights of a key. */
export interface Grant {
  projectId: string
  kind: KeyKind
  /** origins of the pages that may use the key, as browsers send them; empty if any page and client may */
  origins: readonly string[]
  /** whether a write key may only send events, and not change profiles or link names */
  eventsOnly: boolean
}

/** A grant, and the label of its key. */
export interface LabelledGrant extends Grant {
  /** empty if it has none */
  label: string
}

/** The default fields of a key. */
const PLAIN = { label: '', origins: [], eventsOnly: false }

export interface StoredKey extends LabelledGrant {
  /** the name of the key in lists and logs: its first characters, too few to guess the rest */
  id: string
  /** SHA-256 of the key, hexadecimal */
  hash: string
}

/** Who makes the change of a request. @param grant the request's key */
export function toActor(grant: StoredKey | null): Actor {
  if (!grant) throw new Error('a request without a key was admitted')
  return { type: 'key', id: grant.id, label: grant.label }
}

/** A stored key with its history. */
export interface KeyRecord extends StoredKey {
  /** epoch milliseconds */
  createdAt: number
  /** when it stops or stopped working, epoch ms; null if it was neither revoked nor replaced */
  revokedAt: number | null
  /** whether it works, by the store's clock */
  isValid: boolean
}

/** The first two keys of a project. */
export interface KeyPair {
  publicKey: string
  secretKey: string
}

/** The project of the keys in the environment, and of the first pair. */
export const DEFAULT_PROJECT = 'default'

const PREFIX: Record<KeyKind, string> = { public: 'pk_', secret: 'sk_', write: 'wk_', read: 'rk_' }
/** The prefix and 8 random characters, which leaves 208 secret bits. */
const ID_LENGTH = 11

/** Makes a key of 256 random bits, recognizable by its prefix. It is shown once; only its hash is stored. */
export function makeKey(kind: KeyKind): string {
  return PREFIX[kind] + randomBytes(32).toString('base64url')
}

/**
 * Hashes a key. A fast hash is enough, because a generated key is random and a slow hash would not protect better
 * against guessing.
 */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

/** Makes the record of a key that is stored. */
export function storedKey(key: string, grant: Pick<Grant, 'projectId' | 'kind'> & Partial<LabelledGrant>): StoredKey {
  return { id: key.slice(0, ID_LENGTH), hash: hashKey(key), ...PLAIN, ...grant }
}

/** Shortens a key to what may be shown: its id, or, for any other text, too little to guess the rest. */
export function maskKey(text: string): string {
  const isOurs = Object.values(PREFIX).some((prefix) => text.startsWith(prefix))
  const shown = isOurs ? ID_LENGTH : 3
  return text.length <= shown ? text : `${text.slice(0, shown)}…`
}

/**
 * Returns the keys of the environment. Their ids are the names of their settings, because the first characters of a
 * short key would reveal too much.
 * @throws Error that names the setting if its key was made as another kind: commands take a read key in SECRET_KEY,
 * and a service started from the same shell would let anyone with that key change everything in its default project
 */
export function environmentKeys(settings: { PUBLIC_API_KEY?: string; SECRET_KEY?: string }): StoredKey[] {
  const kinds = { PUBLIC_API_KEY: 'public', SECRET_KEY: 'secret' } as const
  return Object.entries(kinds).flatMap(([id, kind]) => {
    const key = settings[id as keyof typeof kinds]
    if (!key) return []
    const made = KEY_KINDS.find((other) => key.startsWith(PREFIX[other])) ?? kind
    if (made !== kind) {
      throw new Error(
        `${id} is a ${made} key, but the service would use it as a ${kind} one. Unset it, or set a ${kind} key.`,
      )
    }
    return [{ ...storedKey(key, { projectId: DEFAULT_PROJECT, kind }), id }]
  })
}
