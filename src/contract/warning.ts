/** What is legal and looks like a mistake, such as a field that is ignored. */
export interface Warning {
  /** a JSON pointer into the request */
  path: string
  /** a sentence or two */
  message: string
  /** what was probably meant: the value to put at `path` instead; absent if nothing is near */
  suggestion?: unknown
}

/** Warnings of one response. */
export const MAX_WARNINGS = 20

/** A name as a part of a JSON pointer (RFC 6901). */
export function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
