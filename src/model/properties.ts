import { memberTexts } from '../json/spans.js'

/**
 * A property's name → the JSON text of its value, in the order in which the names were first set. A Map, so that
 * `__proto__` is a name like any other; texts, so that a value comes back as it was spelled.
 */
export type Properties = Map<string, string>

/** Bytes of what `formatProperties` makes. */
export function sizeOfProperties(properties: Properties): number {
  // Braces, and for each property a colon and, for all but one, a comma.
  let bytes = properties.size === 0 ? 2 : 1
  for (const [name, value] of properties) {
    bytes += Buffer.byteLength(JSON.stringify(name)) + Buffer.byteLength(value) + 2
  }
  return bytes
}

/** Reads the properties from the JSON text of an object; of a name that is there twice, the last value. */
export function parseProperties(text: string): Properties {
  return memberTexts(text)
}

/** The JSON text of an object holding the properties, each value spelled as it came. */
export function formatProperties(properties: Properties): string {
  return `{${Array.from(properties, ([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}
