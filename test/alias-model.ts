import fc from 'fast-check'

/** A call about two of some names. */
export type LinkStep = { call: 'link' | 'takeBack'; a: number; b: number }

/** Calls about `count` names. */
export function linkSteps(count: number, maxLength: number): fc.Arbitrary<LinkStep[]> {
  const name = fc.nat({ max: count - 1 })
  const call = fc.constantFrom('link' as const, 'link' as const, 'takeBack' as const)
  return fc.array(fc.record<LinkStep>({ call, a: name, b: name }), { minLength: 1, maxLength })
}

type Values = Record<string, unknown>

/**
 * A model of aliases: which user each name belongs to, and the properties of the users, computed only from the links
 * that were made and not removed, in their order.
 */
export class AliasModel {
  readonly #own: ReadonlyMap<string, Values>
  #said: { alias: string; said: string }[] = []

  /** @param own the properties of those names that have a profile */
  constructor(own: ReadonlyMap<string, Values>) {
    this.#own = own
  }

  userOf(name: string): string {
    const link = this.#said.find(({ alias }) => alias === name)
    return link ? this.userOf(link.said) : name
  }

  /** @returns whether the two names belong to one user now */
  link(said: string, alias: string): boolean {
    if (this.userOf(said) === this.userOf(alias)) return true
    if (this.userOf(alias) !== alias) return false
    this.#said.push({ alias, said })
    return true
  }

  /** @returns whether it was an alias of the user */
  takeBack(user: string, alias: string): boolean {
    if (this.userOf(alias) === alias || this.userOf(user) !== this.userOf(alias)) return false
    this.#said = this.#said.filter((link) => link.alias !== alias)
    return true
  }

  /** The properties of each user, as if all links were made again. */
  profiles(): Map<string, Values> {
    const profiles = new Map(this.#own)
    const users = new Map<string, string>()
    const userOf = (name: string): string => (users.has(name) ? userOf(users.get(name) ?? '') : name)
    for (const { alias, said } of this.#said) {
      const [user, given] = [userOf(said), profiles.get(alias)]
      users.set(alias, said)
      if (given) profiles.set(user, { ...given, ...profiles.get(user) })
    }
    return new Map([...profiles].filter(([name]) => userOf(name) === name))
  }
}
