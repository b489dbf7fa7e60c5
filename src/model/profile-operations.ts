import { ApiError, invalidField } from '../contract/errors.js'
import { canonical } from '../json/canonical.js'
import { elementTexts, isArray, isNumber } from '../json/texts.js'
import { readText } from '../json/value.js'
import { type Properties, parseProperties } from './properties.js'

/** One change to one property. `operand` is a JSON text; it is empty for `$unset`. */
export interface Operation {
  operator: Operator
  name: string
  operand: string
}

type Operator = '$set' | '$add' | '$append' | '$set_once' | '$unset' | '$prepend' | '$union' | '$remove'

/** The operand of one operation, or the operands of consecutive ones that are applied together, in order. */
type Operands = readonly [string, ...string[]]

/**
 * Computes the text of a property's value after the operation from the one before; undefined means that the property
 * does not exist.
 */
type Effect = (current: string | undefined, operands: Operands, name: string) => string | undefined

/** Every operator, in the order in which they apply, whatever their order in the request. */
const EFFECT: Record<Operator, Effect> = {
  $set: (_current, [operand]) => operand,
  $add: (current = '0', [operand], name) => sum(current, operand, name),
  $append: (current = '[]', operands, name) => push(array('$append', current, name), operands),
  $set_once: (current, [operand]) => current ?? operand,
  $unset: () => undefined,
  $prepend: (current = '[]', operands, name) => unshift(array('$prepend', current, name), operands),
  $union: (current = '[]', operands, name) => union(comparable('$union', current, name, operands), operands[0]),
  $remove: (current, operands, name) => current && without(comparable('$remove', current, name, operands), operands),
}

/**
 * Operators that take one value. A list of values, which Amplitude's SDKs send, is applied in one pass: applying them
 * one by one would take quadratic time.
 */
const OF_A_VALUE: ReadonlySet<Operator> = new Set(['$append', '$prepend', '$remove'])

/** Rules for the operands of operators that do not accept every value. */
const OPERAND: { [operator in Operator]?: { fits: (operand: string) => boolean; must: string } } = {
  $add: { fits: isSummand, must: 'must be a finite number' },
  $union: { fits: isArray, must: 'must be an array' },
}

/**
 * Parses the exact JSON text of a request's `operations` into single changes, in the order in which they apply. The
 * result is empty if the operators name no property, which is not an error.
 * @throws ApiError `invalid_request`, with the path of the first error
 */
export function parseOperations(text: string): Operation[] {
  if (!isObject(text.trimStart())) throw invalidField('/operations', 'must be an object')
  const given = parseProperties(text)
  for (const key of given.keys()) {
    if (!Object.hasOwn(EFFECT, key))
      throw invalidField(pointer(key), `must be one of ${Object.keys(EFFECT).join(', ')}`)
  }
  const operations: Operation[] = []
  let operators = 0
  for (const operator of Object.keys(EFFECT) as Operator[]) {
    const value = given.get(operator) ?? 'null'
    if (value === 'null') continue
    operators++
    for (const [name, operand] of operator === '$unset' ? parseNames(value) : parseOperands(operator, value)) {
      operations.push({ operator, name, operand })
    }
  }
  if (operators === 0) throw invalidField('/operations', `needs at least one of ${Object.keys(EFFECT).join(', ')}`)
  return operations
}

/**
 * The properties after all operations; the given ones are never modified.
 * @throws ApiError `not_numeric` if `$add` finds a value that is not a number, or the sum exceeds the range of a
 * double; `not_array` if `$append`, `$prepend`, `$union` or `$remove` finds a value that is not an array;
 * `payload_too_large` if `$union` or `$remove` would compare more than MAX_COMPARED values
 */
export function changeProperties(properties: Properties | undefined, operations: readonly Operation[]): Properties {
  const result: Properties = new Map(properties)
  for (let i = 0; i < operations.length; ) {
    const { operator, name, operand } = operations[i] as Operation
    const operands: [string, ...string[]] = [operand]
    for (i++; OF_A_VALUE.has(operator); i++) {
      const next = operations[i]
      if (next?.operator !== operator || next.name !== name) break
      operands.push(next.operand)
    }
    const value = EFFECT[operator](result.get(name), operands, name)
    if (value === undefined) result.delete(name)
    else result.set(name, value)
  }
  return result
}

function parseOperands(operator: Operator, text: string): Properties {
  if (!isObject(text)) throw invalidField(pointer(operator), 'must be an object')
  const operands = parseProperties(text)
  const rule = OPERAND[operator]
  if (rule) {
    for (const [name, operand] of operands) {
      if (!rule.fits(operand)) throw invalidField(pointer(operator, name), rule.must)
    }
  }
  return operands
}

function parseNames(text: string): Properties {
  if (!isArray(text)) throw invalidField(pointer('$unset'), 'must be an array of property names')
  return new Map(
    elementTexts(text).map((element, index) => {
      const name: unknown = JSON.parse(element)
      if (typeof name !== 'string') throw invalidField(pointer('$unset', String(index)), 'must be a string')
      return [name, '']
    }),
  )
}

/** Adds integers exactly, whatever their size, so that counters and ids never drift; other numbers as doubles. */
function sum(current: string, operand: string, name: string): string {
  if (!isNumber(current)) throw misfit('not_numeric', '$add', name, 'is not a number')
  if (isInteger(current) && isInteger(operand)) return String(BigInt(current) + BigInt(operand))
  const result = Number(current) + Number(operand)
  if (!Number.isFinite(result)) throw misfit('not_numeric', '$add', name, 'would no longer be a finite number')
  return String(result)
}

function array(operator: Operator, current: string, name: string): string {
  if (!isArray(current)) throw misfit('not_array', operator, name, 'is not an array')
  return current
}

/** Maximum number of values that operations applied together may compare: at 1 µs each, 20 ms. */
const MAX_COMPARED = 20_000

/** An array whose values will be compared with those of the operands. */
function comparable(operator: Operator, current: string, name: string, operands: Operands): string {
  const values = array(operator, current, name)
  const texts = [values, ...operands]
  const total = (measure: (text: string) => number) => texts.reduce((sum, text) => sum + measure(text), 0)
  // Each value takes at least one character.
  if (total(({ length }) => length) <= MAX_COMPARED || total((text) => readText(text).textCount) <= MAX_COMPARED)
    return values
  const fault = `would have over ${MAX_COMPARED} values to compare. Keep fewer in one property`
  throw misfit('payload_too_large', operator, name, fault)
}

function push(array: string, values: readonly string[]): string {
  if (values.length === 0) return array
  const head = isEmpty(array) ? '[' : `${array.slice(0, -1)},`
  return `${head}${values.join(',')}]`
}

/** @param values in the order in which they are put at the front */
function unshift(array: string, values: readonly string[]): string {
  const head = `[${values.toReversed().join(',')}`
  return isEmpty(array) ? `${head}]` : `${head},${array.slice(1)}`
}

function isEmpty(array: string): boolean {
  return /^\[\s*\]$/.test(array)
}

function union(array: string, operand: string): string {
  const seen = new Set(readText(array).elements().map(canonical))
  const fresh = readText(operand)
    .elements()
    .filter((value) => seen.size < seen.add(canonical(value)).size)
  return push(
    array,
    fresh.map(({ text }) => text),
  )
}

function without(array: string, operands: readonly string[]): string {
  const removed = new Set(operands.map((operand) => canonical(readText(operand))))
  const values = readText(array).elements()
  const kept = values.filter((value) => !removed.has(canonical(value)))
  return kept.length === values.length ? array : `[${kept.map(({ text }) => text)}]`
}

function isObject(text: string): boolean {
  return text.startsWith('{')
}

/** Longer integers are useless as counters, and BigInt takes time quadratic in their length. */
const MAX_DIGITS = 1000

/** Whether the text of a JSON value is a number without fraction and exponent. */
function isInteger(text: string): boolean {
  return text.length <= MAX_DIGITS && /^-?\d+$/.test(text)
}

/** Number gives NaN for the JSON text of anything but a number. */
function isSummand(text: string): boolean {
  return isInteger(text) || Number.isFinite(Number(text))
}

/** A JSON pointer (RFC 6901) into the request. */
function pointer(...names: string[]): string {
  return ['/operations', ...names.map((name) => name.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/')
}

function misfit(
  code: 'not_numeric' | 'not_array' | 'payload_too_large',
  operator: Operator,
  name: string,
  fault: string,
): ApiError {
  const path = pointer(operator, name)
  return new ApiError(code, `${operator}: the property ${JSON.stringify(name)} ${fault}.`, {
    details: [{ path, message: fault }],
  })
}
