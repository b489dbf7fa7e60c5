import { createHash, randomBytes } from 'node:crypto'
import type { KeyClass } from '../contract/key-class.js'

export const KEY_KINDS = ['public', 'secret', 'write', 'read'] as const
export type KeyKind = (typeof KEY_KINDS)[number]

/** What a call does, which decides the keys that may make it. */
export type Access = 'session' | 'send' | 'read' | 'manage'

/**
 * The kinds of key that may make a call. A secret key is not among those of session calls on
 * purpose: it would mean that a secret was shipped to a browser.
 */
export const ALLOWED: Record<Access, readonly KeyKind[]> = {
  session: ['public', 'write'],
  send: ['secret', 'write'],
  read: ['secret', 'read'],
  manage: ['secret'],
}

/** Whether keys of a kind may be in a web page, so that strangers have them. */
export function isBrowserKey(kind: KeyKind): boolean {
  return ALLOWED.session.includes(kind)
}

/** Whose ids and share of the journal a key uses. */
export function toKeyClass(kind: KeyKind): KeyClass {
  return kind === 'secret' ? 'secret' : 'page'
}

/** What a key gives access to. */
export interface Grant {
  projectId: string
  kind: KeyKind
  /** of the pages that may use it, as browsers send them; empty for any page, and for other clients */
  origins: readonly string[]
  /** whether a write key changes no profiles and links no names */
  eventsOnly: boolean
}

/** Limits of a key that has none. */
const UNLIMITED = { origins: [], eventsOnly: false }

export interface StoredKey extends Grant {
  /** the name of the key in lists and logs: its first characters, too few to guess the rest */
  id: string
  /** SHA-256 of the key, hexadecimal */
  hash: string
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

/**
 * A new key of 256 random bits, recognizable by its prefix. It is shown once; only its hash is
 * stored.
 */
export function makeKey(kind: KeyKind): string {
  return PREFIX[kind] + randomBytes(32).toString('base64url')
}

/**
 * A fast hash is enough: a generated key is random, so a slow hash would add no protection against
 * guessing.
 */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

/** The part of a key that is stored. */
export function storedKey(key: string, grant: Pick<Grant, 'projectId' | 'kind'> & Partial<Grant>): StoredKey {
  return { id: key.slice(0, ID_LENGTH), hash: hashKey(key), ...UNLIMITED, ...grant }
}

/**
 * The keys of the environment. Each is identified by its setting: of a short key, the first
 * characters would give too much away.
 * @throws Error that names the setting if its key was made as another kind: commands take a read key in SECRET_KEY, and a
 *   service started from the same shell would let whoever has that key change everything in its default project
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
