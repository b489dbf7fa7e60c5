import type { Properties } from '../../contract/responses.js'
import { escapeInvisible } from './escape-invisible.js'

/** The property names that the supported SDKs use. */
const NAMES = ['name', '$name', 'full_name', 'username', '$username']
const ADDRESSES = ['email', '$email']

/** The display name in profile properties; empty if none. */
export function findName(properties: Properties): string {
  return findText(properties, NAMES)
}

/** The email address in profile properties; empty if none. */
export function findEmail(properties: Properties): string {
  return findText(properties, ADDRESSES)
}

/** The display name and the email address, such as `Ada · ada@example.com`; empty if there is neither. */
export function labelPerson(properties: Properties): string {
  const parts = [findName(properties), findEmail(properties)].filter((text) => text !== '')
  return parts.map(escapeInvisible).join(' · ')
}

function findText(properties: Properties, names: readonly string[]): string {
  for (const name of names) {
    const value = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (typeof value === 'string' && value.trim() !== '') return value
  }
  return ''
}
