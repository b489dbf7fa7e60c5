import { ApiError, type ErrorDetail } from '../contract/errors.js'
import { isName } from '../contract/limits.js'
import { pointerPart, type Warning } from '../contract/warning.js'
import { nearestOf } from '../lib/nearest.js'

/** The most faults that one error names. */
const MAX_DETAILS = 100

/** Collects the faults of a question while it is parsed, so that one error names all of them. */
export class Faults {
  readonly #details: ErrorDetail[] = []
  readonly #objects: Fields[] = []

  /** @param message begins with a verb: it follows the path in a sentence */
  add(path: string, message: string): void {
    if (this.#details.length < MAX_DETAILS) this.#details.push({ path, message })
  }

  /** Takes note of an object whose fields are read. */
  note(object: Fields): void {
    this.#objects.push(object)
  }

  /** Warns of the fields that were read of no object, once all of it is parsed. */
  warnings(): Warning[] {
    return this.#objects.flatMap((object) => object.warnings())
  }

  /** @throws ApiError `invalid_request` if there are any */
  throwIfAny(): void {
    const [first] = this.#details
    if (!first) return
    const where = first.path || 'The body'
    throw new ApiError('invalid_request', `${where} ${first.message}.`, { details: this.#details })
  }
}

/** The fields of an object in a question; absent and null are the same. */
export class Fields {
  readonly path: string
  readonly faults: Faults
  readonly #fields: Record<string, unknown>
  readonly #read = new Set<string>()

  constructor(value: unknown, path: string, faults: Faults) {
    this.path = path
    this.faults = faults
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (!isObject) faults.add(path, 'must be an object')
    this.#fields = isObject ? (value as Record<string, unknown>) : {}
    faults.note(this)
  }

  /** The value of a field; undefined if it is absent or null. */
  get(name: string): unknown {
    this.#read.add(name)
    return (Object.hasOwn(this.#fields, name) ? this.#fields[name] : null) ?? undefined
  }

  /** Warns of the fields that were not read, except those that are null. */
  warnings(): Warning[] {
    const names = Object.keys(this.#fields).filter((name) => !this.#read.has(name) && this.#fields[name] !== null)
    if (names.length === 0) return []
    const known = [...this.#read].filter((name) => name !== 'apiKey')
    const nearest = nearestOf(known)
    return names.filter(isName).map((name) => {
      const meant = nearest(name)
      const advice = meant ? `Did you mean ${meant}?` : `The fields here are ${known.join(', ')}.`
      return { path: `${this.path}/${pointerPart(name)}`, message: `The field ${name} is ignored. ${advice}` }
    })
  }

  fault(name: string, message: string): void {
    this.faults.add(`${this.path}/${name}`, message)
  }

  oneOf<T extends string>(name: string, choices: readonly T[], fallback: T): T {
    const value = this.get(name)
    if (value === undefined) return fallback
    const choice = choices.find((one) => one === value)
    if (choice === undefined) this.fault(name, `must be one of ${choices.join(', ')}`)
    return choice ?? fallback
  }

  integer(name: string, least: number, most: number, fallback: number): number {
    const value = this.get(name)
    if (value === undefined) return fallback
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return value as number
    this.fault(name, `must be a whole number from ${least} to ${most}`)
    return fallback
  }

  boolean(name: string, fallback: boolean): boolean {
    const value = this.get(name)
    if (value === undefined) return fallback
    if (typeof value !== 'boolean') this.fault(name, 'must be true or false')
    return value === true
  }

  /** An array of `least` to `most` values; empty if it is invalid (which is reported), or absent and `least` is 0. */
  list(name: string, least: number, most: number, what: string): unknown[] {
    const value = this.get(name) ?? (least === 0 ? [] : undefined)
    if (Array.isArray(value) && value.length >= least && value.length <= most) return value
    this.fault(name, `must be an array of ${least} to ${most} ${what}`)
    return []
  }
}
