import { ApiError } from '../contract/errors.js'
import type { Journal } from '../journal/journal.js'
import { given } from '../lib/given.js'

/**
 * A journal whose failures say which lane it is of: for stores of several lanes, where a part of the calls keeps working.
 * @param name as Lane has it
 */
export function withNamedFailures(journal: Journal, name: string): Journal {
  const methods = new Map<unknown, unknown>()
  return new Proxy(journal, {
    get(target, key) {
      const known = methods.get(key)
      if (known) return known
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      const method = (...args: unknown[]) => {
        const result: unknown = value.apply(target, args)
        return result instanceof Promise ? result.catch((error: unknown) => rethrow(error, name)) : result
      }
      methods.set(key, method)
      return method
    },
  })
}

function rethrow(error: unknown, name: string): never {
  if (!(error instanceof ApiError)) throw error
  const { code, details, retryAfter } = error
  throw new ApiError(code, `In ${name}: ${error.message}`, { cause: error, ...given({ details, retryAfter }) })
}
