import { ApiError } from '../contract/errors.js'
import type { Journal } from '../journal/journal.js'

/**
 * Wraps a journal so that the messages of its ApiErrors begin with the name of its lane. Used if there are several
 * lanes, because calls to the other ones keep working.
 * @param name see `Lane.name`
 */
export function withNamedFailures(journal: Journal, name: string): Journal {
  const ids = withNames(journal.ids, name)
  return withNames(journal, name, (key) => (key === 'ids' ? ids : undefined))
}

function withNames<T extends object>(target: T, name: string, replaced = (_: unknown): unknown => undefined): T {
  const methods = new Map<unknown, unknown>()
  return new Proxy(target, {
    get(target, key) {
      const known = methods.get(key) ?? replaced(key)
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
  throw error instanceof ApiError ? error.withMessage(`In ${name}: ${error.message}`) : error
}
