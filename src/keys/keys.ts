import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

export type KeyKind = 'public' | 'secret'

/** What a key opens. */
export interface Grant {
  projectId: string
  kind: KeyKind
}

export interface StoredKey extends Grant {
  /** how a list names the key: its first characters, too few to guess the rest from */
  id: string
  /** SHA-256 of the key, hexadecimal */
  hash: string
}

/** The pair that a project begins with. */
export interface KeyPair {
  publicKey: string
  secretKey: string
}

const PREFIX: Record<KeyKind, string> = { public: 'pk_', secret: 'sk_' }
/** The prefix and 8 random characters, which leaves 208 bits that nobody is shown. */
const ID_LENGTH = 11

/** A new key of 256 random bits, recognisable by its prefix. It is shown once; only its hash is kept. */
export function makeKey(kind: KeyKind): string {
  return PREFIX[kind] + randomBytes(32).toString('base64url')
}

/** A fast hash will do: a made key is random, so there is nothing to guess that a slow one would protect. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

/** What is kept of a key. */
export function storedKey(key: string, { projectId, kind }: Grant): StoredKey {
  return { id: key.slice(0, ID_LENGTH), hash: hashKey(key), projectId, kind }
}

/** Good keys that are remembered, so that they are hashed once. */
const MAX_RECOGNISED = 16

/**
 * The keys that are known at the moment. A key is looked up by its hash, or compared in constant time, so that the time
 * it takes says nothing about how much of a key is right.
 */
export class KeyRing {
  readonly #fixed: StoredKey[]
  #grants: Map<string, StoredKey>
  /** good keys that came before, in memory only */
  #recognised: { key: Buffer; grant: StoredKey }[] = []
  #isComplete = false
  #lookUp: () => Promise<void> = async () => undefined

  /** @param fixed keys that are always there, such as those of the environment */
  constructor(fixed: StoredKey[]) {
    this.#fixed = fixed
    this.#grants = asMap(fixed)
  }

  /** Whether the stored keys were read at least once: before that, an unknown key may be a good one. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  get size(): number {
    return this.#grants.size
  }

  replaceStored(stored: StoredKey[]): void {
    this.#grants = asMap([...stored, ...this.#fixed])
    this.#recognised = []
    this.#isComplete = true
  }

  /** @param lookUp reads the stored keys again where that may help, and resolves after `replaceStored`; never rejects */
  lookUpBy(lookUp: () => Promise<void>): void {
    this.#lookUp = lookUp
  }

  /** As `find`, for a key that may have been made since the stored ones were read. */
  async findNew(key: string): Promise<StoredKey | null> {
    await this.#lookUp()
    return this.find(key)
  }

  find(key: string): StoredKey | null {
    const bytes = Buffer.from(key)
    for (const recognised of this.#recognised) {
      if (recognised.key.length === bytes.length && timingSafeEqual(recognised.key, bytes)) return recognised.grant
    }
    const grant = this.#grants.get(hashKey(key)) ?? null
    if (grant) this.#recognised = [{ key: bytes, grant }, ...this.#recognised].slice(0, MAX_RECOGNISED)
    return grant
  }
}

function asMap(keys: StoredKey[]): Map<string, StoredKey> {
  return new Map(keys.map((key) => [key.hash, key]))
}
