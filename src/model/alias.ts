/** Another name of a user. */
export interface Alias {
  /** of the user; it may have become an alias itself since */
  distinctId: string
  /** epoch ms */
  createdAt: number
}

/** The alias as one JSON text, which the journal treats as opaque. */
export function formatAlias({ distinctId, createdAt }: Alias): string {
  return JSON.stringify({ distinctId, createdAt })
}

/** Parses the result of `formatAlias`. */
export function parseAlias(state: string): Alias {
  return JSON.parse(state) as Alias
}
