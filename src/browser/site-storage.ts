const PREFIX = 'tallyhouse '

/** Strings by name, in `localStorage` if the page may use it, otherwise in memory until the page is closed. */
export class SiteStorage {
  readonly #site: Record<string, string>
  #texts: Record<string, string>

  /** @param isStored false: nothing is stored in the browser */
  constructor(isStored: boolean) {
    this.#site = (isStored && findStorage()) || {}
    this.#texts = this.#site
  }

  read(name: string): string | undefined {
    return this.#texts[PREFIX + name]
  }

  write(name: string, text: string): void {
    try {
      this.#texts[PREFIX + name] = text
    } catch {
      // The storage is full. From now on, this page keeps its strings in memory.
      this.#texts = { ...this.#texts, [PREFIX + name]: text }
    }
  }

  remove(name: string): void {
    delete this.#texts[PREFIX + name]
    delete this.#site[PREFIX + name]
  }

  /** Removes everything but the visitor's choice. */
  clear(): void {
    for (const name of this.list('')) if (name !== 'choice') this.remove(name)
  }

  /** The names with a prefix, sorted. */
  list(start: string): string[] {
    const names = Object.keys(this.#texts).filter((name) => name.startsWith(PREFIX + start))
    return names.map((name) => name.slice(PREFIX.length)).sort()
  }
}

function findStorage(): Storage | undefined {
  try {
    // Firefox only says that a storage is damaged once it is used.
    if (localStorage.length >= 0) return localStorage
  } catch {
    // The page may not use it.
  }
  return undefined
}

/** Makes an id of 96 random bits. */
export function newId(): string {
  // randomUUID exists only on secure pages.
  return crypto.getRandomValues(new Uint32Array(3)).join('-')
}
