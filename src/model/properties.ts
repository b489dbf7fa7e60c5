import { memberTexts } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'

/**
 * A property's name → the JSON text of its value, in the order in which the names were first set. It is a Map, so that
 * `__proto__` is a name like any other, and has JSON texts, so that a value is returned exactly as it was sent.
 */
export type Properties = Map<string, string>

/** The length in bytes of the result of `formatProperties`. */
export function measureProperties(properties: Properties): number {
  // Two braces, a colon for each property, and a comma for all but one.
  let bytes = properties.size === 0 ? 2 : 1
  for (const [name, value] of properties) {
    bytes += Buffer.byteLength(JSON.stringify(name)) + Buffer.byteLength(value) + 2
  }
  return bytes
}

/** Roughly the result of `measureProperties`, in UTF-16 units, at a fraction of its cost. */
export function estimateProperties(properties: Properties): number {
  let length = 0
  for (const [name, value] of properties) length += name.length + value.length
  return length
}

/** Parses the properties from the JSON text of an object. The last value of a duplicate name wins. */
export function parseProperties(text: string): Properties {
  return memberTexts(text)
}

/**
 * Like `parseProperties`, for a value that has already been read.
 * @throws TypeError if the value is not an object
 */
export function readProperties(value: JsonValue | undefined): Properties {
  if (!value?.isObject) throw new TypeError('There are no properties.')
  const properties: Properties = new Map()
  for (const [name, member] of value.members()) properties.set(name, member.text)
  return properties
}

/** The JSON text of an object with the properties, each value exactly as it was sent. */
export function formatProperties(properties: Properties): string {
  return `{${Array.from(properties, ([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}
