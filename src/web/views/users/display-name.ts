import type { Properties } from '../../../contract/responses.js'

/** As the SDKs that the service takes events from call them. */
const NAMES = ['name', '$name', 'full_name', 'username', '$username']
const ADDRESSES = ['email', '$email']

/** What a person is called, of what the properties of the profile have; empty if they have nothing. */
export function findName(properties: Properties): string {
  return findText(properties, NAMES)
}

/** The address of a person; empty if the properties of the profile have none. */
export function findEmail(properties: Properties): string {
  return findText(properties, ADDRESSES)
}

function findText(properties: Properties, names: readonly string[]): string {
  for (const name of names) {
    const value = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (typeof value === 'string' && value.trim() !== '') return value
  }
  return ''
}
