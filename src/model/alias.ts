/**
 * What is known of a name besides its profile: that it is another name of a user, or, where `distinctId` is empty, that it
 * is a user which has other names.
 */
export interface Alias {
  /**
   * the user, or a name that has become an alias since (see `stepAt`). Empty for a user that has other names: whatever would
   * make it an alias itself finds that in one look-up
   */
  distinctId: string
  /** the name that it was said to be another name of; taking back another alias finds there whom this one belongs to then */
  said: string
  /** epoch ms */
  createdAt: number
  /** whose profile has got properties of this name's one; empty for nobody's */
  givenTo: string
  /** the names of these properties */
  given: string[]
  /**
   * whether they are on their way, as the call that made the alias may have been interrupted; of a user, whether its first
   * other name is
   */
  isPending: boolean
  /**
   * epoch ms: when other names were last known to lead to this one although it is an alias, as those of a user that became one
   * do until they have been made to lead to the user of both (`AliasSettling`). 0 if none can: following names takes a second
   * step only from an alias with another value
   */
  stepAt: number
}

/** A user that has other names. */
export const HAS_NAMES: Alias = {
  distinctId: '',
  said: '',
  createdAt: 0,
  givenTo: '',
  given: [],
  isPending: false,
  stepAt: 0,
}

/**
 * How much a call that links two names knows. `inferred`: the other name is only an earlier id of somebody, so it must not be
 * an identified user, have other names, or belong to another user. `said`: as `inferred`, but either of the two may be the
 * user. `merge`: two users become one.
 */
export type LinkStrength = 'inferred' | 'said' | 'merge'

/** The alias as one JSON text, which the journal treats as opaque. */
export function formatAlias(alias: Alias): string {
  return JSON.stringify(alias)
}

/** Parses the result of `formatAlias`. */
export function parseAlias(state: string): Alias {
  return JSON.parse(state) as Alias
}

/**
 * What is known of a name once other names lead to it.
 * @param now epoch ms
 */
export function addOtherName(current: Alias | null, now: number): Alias {
  if (current === null) return HAS_NAMES
  if (current.distinctId !== '') return { ...current, stepAt: Math.max(now, current.stepAt + 1) }
  return current.isPending ? HAS_NAMES : current
}

/** Whether a name is another name of a user. */
export function isLink(alias: Alias | null): alias is Alias {
  return alias !== null && alias.distinctId !== ''
}
