import { ApiError, type ErrorDetail } from '../contract/errors.js'

/** The most faults that one error names. */
const MAX_DETAILS = 100

/** Collects what is wrong with a body, so that one error names all of it. */
export class Faults {
  readonly #details = new Map<string, ErrorDetail>()

  /**
   * Of several faults with one path, the first counts.
   * @param message a predicate: it follows the path in a sentence
   */
  add(path: string, message: string): void {
    if (this.#details.size < MAX_DETAILS && !this.#details.has(path)) this.#details.set(path, { path, message })
  }

  /** @throws ApiError `invalid_request` if there are any */
  throwIfAny(): void {
    const details = [...this.#details.values()]
    const [first] = details
    if (!first) return
    const where = first.path || 'The body'
    throw new ApiError('invalid_request', `${where} ${first.message}.`, { details })
  }
}
