import { type Context, type GivenContext, trimContext } from '../contract/context.js'

/**
 * The information about the sender in a vendor's message, which takes precedence over that of its request. Null: the
 * value is unknown, and must not be taken from the request either. Undefined: the message does not say.
 */
export interface MessageSource {
  userAgent?: string | null | undefined
  address?: string | null | undefined
  timezone?: string | undefined
  language?: string | undefined
}

/** The context of a request in the forms in which it is stored. */
export interface RequestContext {
  value: Context
  json: string
  /** replaces the brace with which an event begins */
  head: Buffer
}

/** Begins an event that was given the context of its request. */
export const CONTEXT_START: Buffer = Buffer.from('{"context":')

/** @returns null if it has no fields */
export function toRequestContext(given: GivenContext): RequestContext | null {
  const value = trimContext(given)
  const json = JSON.stringify(value)
  return json === '{}' ? null : { value, json, head: Buffer.from(`${CONTEXT_START}${json},`) }
}
