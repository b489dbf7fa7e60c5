import { toMilliseconds } from '../../vendors/time.js'
import { localMilliseconds } from './local-time.js'

/** Types that the cells of a column may have. */
export const CELL_TYPES = ['text', 'number', 'boolean', 'date'] as const
export type CellTypeName = (typeof CELL_TYPES)[number]

export interface CellType {
  name: CellTypeName
  /** whether the user named the type; otherwise it was guessed, and a cell that does not fit stays text */
  isGiven: boolean
  /** zone of dates that have none */
  zone?: string | undefined
}

/** Types by column name. */
export type CellTypes = ReadonlyMap<string, CellType>

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** A decimal number, including forms that JSON does not allow, such as `+1`, `007` and `.5`. */
const DECIMAL = /^([+-]?)0*(\d*)(\.\d+)?$/
/**
 * Excel shortens long numbers like this and drops their last digits. Such numbers are phone numbers or ids, never
 * prices.
 */
const SHORTENED = /E\+\d+$/
/** Significant digits that every JSON parser preserves. A longer number is an id, not an amount. */
const SURE_DIGITS = 15
const TRUE = ['true', 'yes', 't', 'y', '1']
const FALSE = ['false', 'no', 'f', 'n', '0']

/** Guesses the type of a column from its non-empty cells. A mixed column is text. */
export function guessType(cells: readonly string[]): CellTypeName {
  if (cells.length === 0) return 'text'
  if (cells.every(isSureNumber)) return 'number'
  if (cells.every(isSureBoolean)) return 'boolean'
  return cells.every(isIso) ? 'date' : 'text'
}

/**
 * Converts a cell to JSON text. Numbers keep their spelling. Dates do too, unless the user named the type: then they
 * become ISO 8601 in UTC.
 * @param cell not empty
 * @returns null if the cell does not have this type
 */
export function cellText(cell: string, { name, isGiven, zone }: CellType): string | null {
  const text = cell.trim()
  switch (name) {
    case 'text':
      return JSON.stringify(cell)
    case 'number':
      return isGiven ? numberText(text) : isSureNumber(text) ? text : null
    case 'boolean':
      return isGiven ? booleanText(text) : isSureBoolean(text) ? text.toLowerCase() : null
    case 'date':
      return isGiven ? dateText(text, zone) : isIso(text) ? JSON.stringify(cell) : null
  }
}

function isSureNumber(cell: string): boolean {
  const text = cell.trim()
  if (!JSON_NUMBER.test(text) || SHORTENED.test(text)) return false
  const [mantissa = ''] = text.split(/e/i)
  return mantissa.replace(/\D/g, '').replace(/^0+/, '').length <= SURE_DIGITS && Number.isFinite(Number(text))
}

function isSureBoolean(cell: string): boolean {
  return /^(?:true|false)$/i.test(cell.trim())
}

function isIso(cell: string): boolean {
  return toMilliseconds(cell.trim(), 'iso') !== null
}

function numberText(text: string): string | null {
  if (JSON_NUMBER.test(text)) return Number.isFinite(Number(text)) ? text : null
  const [, sign = '', whole = '', fraction = ''] = DECIMAL.exec(text) ?? []
  if (!/\d/.test(text) || !DECIMAL.test(text)) return null
  return `${sign === '-' ? '-' : ''}${whole || '0'}${fraction}`
}

function booleanText(text: string): string | null {
  const word = text.toLowerCase()
  return TRUE.includes(word) ? 'true' : FALSE.includes(word) ? 'false' : null
}

function dateText(text: string, zone: string | undefined): string | null {
  const ms = zone === undefined ? toMilliseconds(text, 'iso') : localMilliseconds(text, zone)
  return ms === null ? null : JSON.stringify(new Date(ms).toISOString())
}
