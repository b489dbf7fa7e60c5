/** The record of a name that is another name of a user or, if `distinctId` is empty, a user that has other names. */
export interface Alias {
  /**
   * the user, or a name that has become an alias since (see `stepAt`). Empty for a user that has other names, so that
   * one look-up shows that it cannot simply become an alias itself
   */
  distinctId: string
  /**
   * the name that the client linked it to; if another alias is removed, this determines the user that the name then
   * belongs to
   */
  said: string
  /** epoch ms; of a user: when a call last began to search for its names, 0 if none is searching */
  createdAt: number
  /** the user whose profile received properties of this name's profile; empty if none did */
  givenTo: string
  /** the names of these properties */
  given: string[]
  /**
   * whether these properties may not have arrived yet, because the call that made the alias may have been interrupted.
   * For a user: whether it may have no other name, because a call is just making the first one or has removed the last
   */
  isPending: boolean
  /** whether a call is taking the alias back, or was interrupted while it did; `isPending` is true as well */
  isLeaving: boolean
  /**
   * epoch ms: when other names were last known to lead to this alias. When a user becomes an alias, its names lead to
   * it until `AliasSettling` has redirected them to the combined user. 0 if no name can lead here, so that resolving a
   * name takes only one step
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
  isLeaving: false,
  stepAt: 0,
}

/**
 * The record of a user that may have other names, but need not.
 * @param now epoch ms
 */
export function mayHaveNames(now: number): Alias {
  return { ...HAS_NAMES, createdAt: now, isPending: true }
}

/**
 * How sure a call is that two names are one user. `inferred`: an SDK identified a user and included the earlier id, which
 * must not be an identified user, have other names, or belong to another user. `said`: the program asked for the link; the
 * same rules, but either of the two names may be the user. `merge`: the program asked to make two users one, which needs a
 * secret key; with another key, it counts as `said`.
 */
export type LinkStrength = 'inferred' | 'said' | 'merge'

/** The alias as a JSON string, which the journal treats as opaque. */
export function formatAlias(alias: Alias): string {
  return JSON.stringify(alias)
}

/** Parses the result of `formatAlias`. */
export function parseAlias(state: string): Alias {
  return JSON.parse(state) as Alias
}

/**
 * The alias record of a name once other names lead to it.
 * @param now epoch ms
 */
export function addOtherName(current: Alias | null, now: number): Alias {
  if (current === null) return HAS_NAMES
  if (current.distinctId !== '') return { ...current, stepAt: Math.max(now, current.stepAt + 1) }
  return current.isPending || current.createdAt > 0 ? HAS_NAMES : current
}

/** Whether a name is another name of a user. */
export function isLink(alias: Alias | null): alias is Alias {
  return alias !== null && alias.distinctId !== ''
}
