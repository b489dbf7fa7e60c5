import { timingSafeEqual } from 'node:crypto'
import { hashKey, type StoredKey } from './keys.js'

/** Valid keys that are cached, so that each is hashed only once. */
const MAX_RECOGNIZED = 16

/**
 * The keys that are valid now. A key is looked up by its hash, or compared in constant time, so that timing does not
 * reveal how much of a key is correct.
 */
export class KeyRing {
  readonly #fixed: StoredKey[]
  #grants: Map<string, StoredKey>
  /** recently used valid keys, in memory only */
  #recognized: { key: Buffer; grant: StoredKey }[] = []
  #isComplete = false
  #lookUp: () => Promise<void> = async () => undefined

  /** @param fixed keys that are always valid, such as those of the environment */
  constructor(fixed: StoredKey[]) {
    this.#fixed = fixed
    this.#grants = asMap(fixed)
  }

  /**
   * Whether the stored keys were read at least once. Before that, an unknown key may be a valid
   * one.
   */
  get isComplete(): boolean {
    return this.#isComplete
  }

  get size(): number {
    return this.#grants.size
  }

  get hasSecret(): boolean {
    return [...this.#grants.values()].some(({ kind }) => kind === 'secret')
  }

  replaceStored(stored: StoredKey[]): void {
    this.#grants = asMap([...stored, ...this.#fixed])
    this.#recognized = []
    this.#isComplete = true
  }

  /**
   * @param lookUp reads the stored keys again if that may help; resolves after `replaceStored` and
   *   never rejects
   */
  lookUpBy(lookUp: () => Promise<void>): void {
    this.#lookUp = lookUp
  }

  /** Like `find`, for a key that may have been created since the stored ones were read. */
  async findNew(key: string): Promise<StoredKey | null> {
    await this.#lookUp()
    return this.find(key)
  }

  /** Whether a key that was found before is still valid. */
  holds({ hash, projectId }: StoredKey): boolean {
    return this.#grants.get(hash)?.projectId === projectId
  }

  /** Finds keys by id. Ids are short, so there may be several. */
  withId(id: string): StoredKey[] {
    return [...this.#grants.values()].filter((key) => key.id === id)
  }

  find(key: string): StoredKey | null {
    const bytes = Buffer.from(key)
    for (const recognized of this.#recognized) {
      if (recognized.key.length === bytes.length && timingSafeEqual(recognized.key, bytes)) return recognized.grant
    }
    const grant = this.#grants.get(hashKey(key)) ?? null
    if (grant) this.#recognized = [{ key: bytes, grant }, ...this.#recognized].slice(0, MAX_RECOGNIZED)
    return grant
  }
}

function asMap(keys: StoredKey[]): Map<string, StoredKey> {
  return new Map(keys.map((key) => [key.hash, key]))
}
