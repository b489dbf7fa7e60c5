import { Kind, TypeRegistry } from '@sinclair/typebox'
import { Check } from '@sinclair/typebox/value'
import { DAY_MS, parseDuration } from '../contract/durations.js'
import type { Schema } from '../contract/fields.js'
import { describeNameFault, isName, isTimeZone } from '../contract/limits.js'
import { MAX_EVENTS } from '../contract/question-schemas.js'
import type { SessionsDefinition } from '../contract/questions.js'
import { isObject, type Reader } from '../contract/read-fields.js'
import { pointerPart, type Warning } from '../contract/warning.js'
import { createNearestFinder } from '../lib/nearest.js'
import type { Faults } from './faults.js'
import { findFieldFault } from './field-name.js'
import { FilterCheck, type FilterLimit } from './filter-check.js'
import { parseInstant } from './time.js'

const MAX_DURATION_MS = 366 * DAY_MS
const MIN_GAP_MS = 60_000
const MAX_GAP_MS = DAY_MS

/** Checks that JSON Schema cannot express, by the kind of the schema. */
const CHECKS: Record<string, (value: unknown) => boolean> = {
  EventNames: (value) =>
    [value].flat().every(isName) && (!Array.isArray(value) || isInside(value.length, 1, MAX_EVENTS)),
  Field: (value) => findFieldFault(value) === undefined,
  Time: (value) => (typeof value === 'string' || typeof value === 'number') && parseInstant(value, 'UTC') !== null,
  TimeZone: isTimeZone,
  Duration: (value) => typeof value === 'string' && isInside(parseDuration(value) ?? 0, 1, MAX_DURATION_MS),
  Sessions: (value) => value === 'id' || (isObject(value) && isGap(value.gap)),
  Filter: (value) => {
    let isValid = true
    new FilterCheck(() => {
      isValid = false
    }).check(value, '')
    return isValid
  },
}
for (const [kind, check] of Object.entries(CHECKS)) TypeRegistry.Set(kind, (_, value) => check(value))

interface NotedObject {
  path: string
  object: Record<string, unknown>
  known: readonly string[]
}

interface StrictReaderOptions {
  /** the project's definition of sessions, which was checked when it was set and does not count towards the limits */
  checked?: SessionsDefinition | undefined
  /** default: the limit of a question */
  limit?: FilterLimit | undefined
}

/** Reads one question, and collects its faults and unknown fields. */
export class StrictReader implements Reader {
  readonly #faults: Faults
  readonly #filters: FilterCheck
  readonly #checked: SessionsDefinition | undefined
  readonly #objects: NotedObject[] = []

  constructor(faults: Faults, { checked, limit }: StrictReaderOptions = {}) {
    this.#faults = faults
    this.#filters = new FilterCheck(
      (path, message) => faults.add(path, message),
      limit,
      (path, object, known) => this.note(path, object, known),
    )
    this.#checked = checked
  }

  check(schema: Schema, value: unknown, path: string): boolean {
    const kind = schema[Kind]
    if (kind === 'Filter') {
      // A filter's faults have their own paths.
      this.#filters.check(value, path)
      return true
    }
    if (kind === 'Sessions') return this.#checkSessions(schema, value, path)
    if (kind === 'Array') {
      if (Array.isArray(value) && isInside(value.length, schema.minItems, schema.maxItems)) return true
    } else if (Check(schema, value)) return true
    if (kind === 'EventNames' && typeof value === 'string') {
      this.fault(path, describeNameFault(value))
    } else if (kind === 'EventNames' && Array.isArray(value) && isInside(value.length, 1, MAX_EVENTS)) {
      for (const [i, name] of value.entries()) if (!isName(name)) this.fault(`${path}/${i}`, describeNameFault(name))
    } else {
      this.fault(path, (kind === 'Field' && findFieldFault(value)) || schema.message)
    }
    return false
  }

  #checkSessions(schema: Schema, value: unknown, path: string): boolean {
    if (value === 'id' || value === this.#checked) return true
    if (!isObject(value)) {
      this.fault(path, schema.message)
      return false
    }
    this.note(path, value, ['gap', 'where'])
    const { gap, where } = value
    if (!isGap(gap)) this.fault(`${path}/gap`, 'must be a whole number with a unit, from "1m" to "24h"')
    // A filter's faults have their own paths.
    if (where !== undefined && where !== null) this.#filters.checkOfGap(where, `${path}/where`)
    return isGap(gap)
  }

  fault(path: string, message: string): void {
    this.#faults.add(path, message)
  }

  note(path: string, object: Record<string, unknown>, known: readonly string[]): void {
    this.#objects.push({ path, object, known })
  }

  /** Warnings about unknown fields, except those that are null. */
  listWarnings(): Warning[] {
    return this.#objects.flatMap(({ path, object, known }) => {
      const names = Object.keys(object).filter((name) => !known.includes(name) && object[name] !== null)
      if (names.length === 0) return []
      const nearest = createNearestFinder(known)
      return names.filter(isName).map((name) => {
        const meant = nearest(name)
        const advice = meant ? `Did you mean ${meant}?` : `The fields here are ${known.join(', ')}.`
        return { path: `${path}/${pointerPart(name)}`, message: `The field ${name} is ignored. ${advice}` }
      })
    })
  }
}

function isGap(value: unknown): boolean {
  return typeof value === 'string' && isInside(parseDuration(value) ?? 0, MIN_GAP_MS, MAX_GAP_MS)
}

function isInside(number: number, least: number, most: number): boolean {
  return number >= least && number <= most
}
