/**
 * Reads parts of JSON texts, each exactly as it was sent. For several parts of one text, a single `readText` is faster.
 */

import { type JsonValue, readText } from './value.js'

/**
 * The text of a member's value, or undefined if the object has no such member. The last of several wins, as with
 * JSON.parse.
 * @throws TypeError if the text is not a JSON object
 */
export function memberText(text: string, name: string): string | undefined {
  return readObject(text).member(name)?.text
}

/**
 * The members of an object: name → the text of its value, in the order in which the names first appear. The last value
 * of a duplicate name wins.
 * @throws TypeError if the text is not a JSON object
 */
export function memberTexts(text: string): Map<string, string> {
  const texts = new Map<string, string>()
  for (const [name, value] of readObject(text).members()) texts.set(name, value.text)
  return texts
}

/**
 * The texts of the elements of an array.
 * @throws TypeError if the text is not a JSON array
 */
export function elementTexts(text: string): string[] {
  const array = readText(text)
  if (!array.isArray) throw new TypeError('The text is not a JSON array.')
  return array.elements().map((element) => element.text)
}

/**
 * Like `JsonValue.without`.
 * @throws TypeError if the text is not a JSON object
 */
export function withoutMembers(text: string, isCut: (name: string, value: string) => boolean): string {
  return readObject(text).without(isCut)
}

/** Whether the text of a value is a number. */
export function isNumber(text: string): boolean {
  return /^[-\d]/.test(text)
}

/** Whether the text of a value is an array. */
export function isArray(text: string): boolean {
  return text.startsWith('[')
}

function readObject(text: string): JsonValue {
  const object = readText(text)
  if (!object.isObject) throw new TypeError('The text is not a JSON object.')
  return object
}
