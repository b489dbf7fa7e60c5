/** A part of a request that is valid but looks like a mistake, such as a field that is ignored. */
export interface Warning {
  /** a JSON pointer into the request */
  path: string
  /** a sentence or two */
  message: string
  /** what was probably meant: the value to put at `path` instead; absent if nothing is close */
  suggestion?: unknown
}

/** Maximum number of warnings in a response. */
export const MAX_WARNINGS = 20

/** Escapes a name for use in a JSON pointer (RFC 6901). */
export function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
