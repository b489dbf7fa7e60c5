import { randomInt } from 'node:crypto'

/** A name that is not known yet. */
export interface NewName {
  /** where its tag goes */
  set: number
  tag: number
}

const SETS = 2 ** 18
/** How many names a set holds; a further one replaces the oldest. */
const WAYS = 4

/**
 * The names seen by this process in events and sessions with browser keys: about the last million, at 4 bytes each. The
 * chance that a new name is mistaken for a known one is one in a billion.
 */
export class KnownNames {
  readonly #tags = new Uint32Array(SETS * WAYS)
  // Random, so that nobody can compute names that are mistaken for known ones.
  readonly #seeds: [number, number] = [randomInt(2 ** 32), randomInt(2 ** 32)]

  /** The names that are not known, each once. */
  findNew(projectId: string, names: readonly string[]): NewName[] {
    const found: NewName[] = []
    for (const name of names.length > 1 ? new Set(names) : names) {
      const newName = this.#locate(`${projectId}\0${name}`)
      if (newName) found.push(newName)
    }
    return found
  }

  add(names: readonly NewName[]): void {
    for (const { set, tag } of names) {
      this.#tags.copyWithin(set + 1, set, set + WAYS - 1)
      this.#tags[set] = tag
    }
  }

  /** @returns null if the name is known */
  #locate(name: string): NewName | null {
    let [one, other] = this.#seeds
    // FNV-1a, and the same with another prime.
    for (let i = 0; i < name.length; i++) {
      const code = name.charCodeAt(i)
      one = Math.imul(one ^ code, 0x01000193)
      other = Math.imul(other ^ code, 0x85ebca6b)
    }
    const set = ((one ^ (one >>> 15)) & (SETS - 1)) * WAYS
    // 0 marks a free place.
    const tag = (other ^ (other >>> 13)) >>> 0 || 1
    for (let i = set; i < set + WAYS; i++) if (this.#tags[i] === tag) return null
    return { set, tag }
  }
}
