import { type ApiError, type ErrorDetail, invalidFields } from '../contract/errors.js'

/** Maximum number of faults in one error. */
const MAX_DETAILS = 100

/** Collects the faults of a body, so that one error names all of them. */
export class Faults {
  readonly #details = new Map<string, ErrorDetail>()

  /**
   * Adds a fault, unless there is one with this path already.
   * @param message the rest of a sentence that begins with the path
   */
  add(path: string, message: string): void {
    if (this.#details.size < MAX_DETAILS && !this.#details.has(path)) this.#details.set(path, { path, message })
  }

  /** @throws ApiError `invalid_request` if there are any */
  throwIfAny(): void {
    const error = this.toError()
    if (error) throw error
  }

  /** @returns ApiError `invalid_request`; null without faults */
  toError(): ApiError | null {
    const details = [...this.#details.values()]
    return details.length === 0 ? null : invalidFields(details)
  }
}
