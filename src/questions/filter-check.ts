import { formatExactJson } from '../contract/exact-json.js'
import { type FieldName, OPERATORS, type Operand, type Operator, splitField } from '../contract/filters.js'
import { isName } from '../contract/limits.js'
import { isObject, type Reader } from '../contract/read-fields.js'
import { findFieldFault } from './field-name.js'
import { parseInstant } from './time.js'

/** Maximum nesting of `and`, `or` and `not`. */
const MAX_NESTING = 10
const MAX_VALUES = 1000
/** Maximum length of a text or pattern to compare with, characters. */
const MAX_TEXT = 10_000

const WITHIN = 'is not possible in the filter of sessions by gap, which decides what belongs to a session'
const SESSION_HAS = 'must be ["session_has", {"event": …, "where": filter}]'

/** Maximum number of conditions about the session in the filter of one `session_has`; each doubles its tests. */
const MAX_OF_SESSION = 4
/** Maximum number of tests of all filters of `session_has`, which are columns of the sessions. */
const MAX_TESTS = 64

/** How many filters are possible. */
export interface FilterLimit {
  /** what the filters belong to, for the message */
  of: string
  most: number
}

const OF_QUESTION: FilterLimit = { of: 'a question', most: 100 }

/** Checks all filters of one question. */
export class FilterCheck {
  readonly #fault: (path: string, message: string) => void
  readonly #limit: FilterLimit
  readonly #note: Reader['note']
  #filters = 0
  /** whether the filter decides which events belong to sessions, and therefore cannot use their fields */
  #isOfGap = false
  #tests = 0
  /** the different conditions about the session in the filter of the innermost `session_has` */
  #ofSession = new Set<string>()

  /** @param fault called with each fault @param note called with each object and its known fields */
  constructor(fault: (path: string, message: string) => void, limit = OF_QUESTION, note?: Reader['note']) {
    this.#fault = fault
    this.#limit = limit
    this.#note = note
  }

  /** Checks the filter of sessions by gap. */
  checkOfGap(filter: unknown, path: string): void {
    this.#isOfGap = true
    this.check(filter, path)
    this.#isOfGap = false
  }

  check(filter: unknown, path: string, level = 1): void {
    const { of, most } = this.#limit
    if (++this.#filters > most) {
      // Report only the first excess filter, and do not check the others.
      if (this.#filters === most + 1) this.#fault(path, `must be left out: ${of} has at most ${most} filters`)
      return
    }
    if (!Array.isArray(filter) || typeof filter[0] !== 'string') {
      this.#fault(path, 'must be a filter such as ["is", "properties.plan", ["pro"]]')
    } else if (filter[0] === 'and' || filter[0] === 'or' || filter[0] === 'not') {
      this.#checkGroup(filter, path, level)
    } else if (filter[0] === 'session_has') {
      this.#checkSessionHas(filter, path, level)
    } else {
      this.#checkComparison(filter, path)
    }
  }

  #checkGroup(filter: unknown[], path: string, level: number): void {
    const [operator, inner] = filter as [string, unknown]
    if (level > MAX_NESTING) {
      this.#fault(path, `must not be nested more than ${MAX_NESTING} levels deep`)
    } else if (filter.length !== 2) {
      this.#fault(path, operator === 'not' ? 'must be ["not", filter]' : `must be ["${operator}", [filters]]`)
    } else if (operator === 'not') {
      this.check(inner, `${path}/1`, level + 1)
    } else if (Array.isArray(inner)) {
      for (const [i, one] of inner.entries()) this.check(one, `${path}/1/${i}`, level + 1)
    } else {
      this.#fault(`${path}/1`, 'must be an array of filters')
    }
  }

  #checkSessionHas(filter: unknown[], path: string, level: number): void {
    const [, events] = filter
    this.#ofSession.add(formatExactJson(filter))
    if (this.#isOfGap) this.#fault(path, WITHIN)
    else if (filter.length !== 2 || !isObject(events)) this.#fault(path, SESSION_HAS)
    else this.#checkSessionEvents(events, path, level)
  }

  #checkSessionEvents(events: Record<string, unknown>, path: string, level: number): void {
    const { event, where } = events
    this.#note?.(`${path}/1`, events, ['event', 'where'])
    const names = Array.isArray(event) ? event : [event]
    if (names.length === 0 || names.length > MAX_VALUES || !names.every(isName)) {
      this.#fault(`${path}/1/event`, 'must be the name of an event, an array of names, or "*" for all')
    }
    if (level > MAX_NESTING) this.#fault(path, `must not be nested more than ${MAX_NESTING} levels deep`)
    else if (where !== undefined && where !== null) this.#checkWithin(where, `${path}/1/where`, level + 1)
  }

  /** Checks the filter of the events of a `session_has`. */
  #checkWithin(filter: unknown, path: string, level: number): void {
    const outer = this.#ofSession
    this.#ofSession = new Set()
    this.check(filter, path, level)
    this.#tests += 2 ** this.#ofSession.size
    if (this.#tests > MAX_TESTS && this.#ofSession.size > 0) {
      this.#fault(path, 'must have fewer conditions about the session: with the other filters, there are too many')
    } else if (this.#ofSession.size > MAX_OF_SESSION) {
      this.#fault(
        path,
        `must have at most ${MAX_OF_SESSION} conditions about the session: use "and" around session_has`,
      )
    }
    this.#ofSession = outer
  }

  #checkComparison(filter: unknown[], path: string): void {
    const [operator, field, operand] = filter as [string, unknown, unknown]
    if (!Object.hasOwn(OPERATORS, operator)) {
      this.#fault(
        `${path}/0`,
        `must be one of ${[...Object.keys(OPERATORS), 'and', 'or', 'not', 'session_has'].join(', ')}`,
      )
      return
    }
    const kind = OPERATORS[operator as Operator]
    if (filter.length !== (kind === 'nothing' ? 2 : 3)) {
      this.#fault(path, `must be ["${operator}", field${kind === 'nothing' ? '' : ', value'}]`)
      return
    }
    const isOfSession = () => splitField(field as FieldName)[0] === 'session'
    const fieldFault = findFieldFault(field) ?? (this.#isOfGap && isOfSession() ? WITHIN : undefined)
    if (fieldFault !== undefined) this.#fault(`${path}/1`, fieldFault)
    else if (isOfSession()) this.#ofSession.add(formatExactJson(filter))
    const isTime = fieldFault === undefined && splitField(field as FieldName)[0] === 'timestamp'
    const fault = findOperandFault(kind, operand, isTime)
    if (fault !== undefined) this.#fault(`${path}/2`, fault)
  }
}

/** Returns what is wrong with an operand; undefined if it is valid. */
function findOperandFault(kind: Operand, operand: unknown, isTime: boolean): string | undefined {
  switch (kind) {
    case 'values':
      if (Array.isArray(operand) && operand.length <= MAX_VALUES && operand.every(isScalar)) return undefined
      return `must be an array of at most ${MAX_VALUES} strings (of at most ${MAX_TEXT} characters), numbers, booleans or nulls`
    case 'texts': {
      const all = Array.isArray(operand) ? operand : [operand]
      if (all.length <= MAX_VALUES && all.every(isText)) return undefined
      return `must be a string of at most ${MAX_TEXT} characters, or an array of at most ${MAX_VALUES} of these`
    }
    case 'order':
      if (typeof operand === 'number') return undefined
      if (!isText(operand)) return 'must be a number or a string'
      // A time is valid in all zones or in none.
      return isTime && parseInstant(operand, 'UTC') === null ? 'must be a number, a date or an ISO time' : undefined
    case 'nothing':
      return undefined
  }
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value === 'number' || typeof value === 'boolean' || isText(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_TEXT
}
