import { StatementTooLargeError } from './errors.js'

/** Settings of a statement. ClickHouse refuses a name that it does not know. */
export type ClickHouseSettings = Record<string, string | number>
/** Values of `{name:Type}` in a query. */
export type Parameters = Record<string, string | number | bigint | string[] | number[]>

/** ClickHouse refuses fields over 128 KiB (http_max_field_value_size), whatever the settings of the query. */
const FIELD_BYTES = 128 * 1024
/** Maximum bytes of a query in a field, and of the values in an array, without its brackets. */
const MAX_FIELD_BYTES = 120_000
/** A number has at most 24 characters, and a comma. */
const NUMBERS = MAX_FIELD_BYTES / 25

/** Maximum number of parameters: ClickHouse accepts 1000 fields, including settings. */
const MAX_FIELDS = 950
/** Bytes of a URL. ClickHouse accepts up to 1 MiB (http_max_uri_size). */
const MAX_URL_BYTES = 1_000_000
/** Maximum characters of a string in one parameter; longer strings are split. */
const MAX_CHARACTERS = 10_000
/** Never splits a pair of surrogates. */
const PIECES = new RegExp(`[^]{1,${MAX_CHARACTERS}}`, 'gu')

/** Whether a query is short enough for a form field. If not, it is the whole body, and its parameters go in the URL. */
export function fitsInField(query: string): boolean {
  return Buffer.byteLength(query) <= MAX_FIELD_BYTES
}

/** @throws StatementTooLargeError if the query and its parameters do not fit in a request */
export function assertFits(query: string, parameters: Parameters): void {
  const fields = formatParameters(parameters)
  if (fields.length > MAX_FIELDS) throw tooLarge()
  if (fields.some(([, value]) => Buffer.byteLength(value) > FIELD_BYTES)) throw tooLarge()
  if (!fitsInField(query) && new URLSearchParams(fields).toString().length > MAX_URL_BYTES) throw tooLarge()
}

/** The fields of a request for the parameters. */
export function formatParameters(parameters: Parameters): [name: string, value: string][] {
  return Object.entries(parameters).map(([name, value]) => [`param_${name}`, formatParameter(value)])
}

const ESCAPES: Record<string, string> = { '\t': '\\t', '\n': '\\n', '\r': '\\r', '\\': '\\\\', "'": "\\'" }

/** ClickHouse parses a parameter like a field of TabSeparated, and the strings in an array like literals. */
function formatParameter(value: Parameters[string]): string {
  if (!Array.isArray(value)) return escapeText(String(value))
  return `[${value.map((one) => (typeof one === 'string' ? `'${escapeText(one)}'` : String(one))).join(',')}]`
}

function escapeText(text: string): string {
  return text.replace(/[\t\n\r\\']/g, (character) => ESCAPES[character] ?? character)
}

function tooLarge(): Error {
  return new StatementTooLargeError('the statement and its parameters are too large for a request')
}

/**
 * The parameters of one statement, some of which may be too large for a single one. The methods return the placeholder
 * for the statement.
 */
export class QueryParameters {
  readonly parameters: Parameters = {}
  #count = 0

  /** A string of any length, split into several parameters if necessary. */
  text(value: string): string {
    if (value.length <= MAX_CHARACTERS) return this.#add(value, 'String')
    return `arrayStringConcat(${this.array(value.match(PIECES) ?? [])})`
  }

  /** Names or ids, split into several parameters if necessary. */
  array(values: string[], type: 'String' | 'UUID' = 'String'): string {
    const parts: string[] = []
    let part: string[] = []
    let bytes = 0
    for (const value of values) {
      // Quotes and a comma; every byte may need an escape.
      const size = 2 * Buffer.byteLength(value) + 3
      if (bytes + size > MAX_FIELD_BYTES && part.length > 0) {
        parts.push(this.#add(part, `Array(${type})`))
        part = []
        bytes = 0
      }
      part.push(value)
      bytes += size
    }
    parts.push(this.#add(part, `Array(${type})`))
    return parts.length > 1 ? `arrayConcat(${parts.join(', ')})` : (parts[0] ?? '[]')
  }

  number(value: number): string {
    return this.#add(value, 'Float64')
  }

  count(value: number): string {
    return this.#add(value, 'UInt64')
  }

  /** Numbers, split into several parameters if necessary. */
  numbers(values: readonly number[]): string {
    const parts: string[] = []
    for (let i = 0; i === 0 || i < values.length; i += NUMBERS) {
      parts.push(this.#add(values.slice(i, i + NUMBERS), 'Array(Float64)'))
    }
    return parts.length > 1 ? `arrayConcat(${parts.join(', ')})` : (parts[0] ?? '[]')
  }

  #add(value: string | string[] | number | number[], type: string): string {
    const name = `v${this.#count++}`
    this.parameters[name] = value
    return `{${name}:${type}}`
  }
}

/**
 * A value of any size as a literal in the statement. Base64 has no character that could end the literal, so this is as
 * safe as a parameter.
 */
export function literal(value: string | Buffer): string {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  return `base64Decode('${bytes.toString('base64')}')`
}

/**
 * One literal for any number of strings, because ClickHouse's parser cannot handle that many literals. A large
 * statement needs LARGE_QUERY.
 */
export function literalArray(texts: readonly string[]): string {
  return `JSONExtract(${literal(JSON.stringify(texts))}, 'Array(String)')`
}

/** One literal for any number of rows. @param types of their values, such as `String, UInt64` */
export function literalRows(rows: readonly (readonly unknown[])[], types: string): string {
  return `JSONExtract(${literal(JSON.stringify(rows))}, 'Array(Tuple(${types}))')`
}

/** For a statement with large literals. */
export const LARGE_QUERY = { max_query_size: String(64 * 1024 * 1024) }
