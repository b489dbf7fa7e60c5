import fc from 'fast-check'
import type { Client } from './helper.js'

export const path = (name: string) => `/public/users/${encodeURIComponent(name)}`

/** The calls about users and their aliases. */
export function callsOf({ call }: Client) {
  const alias = (distinct_id: string, alias: string) => call('POST', '/public/users/alias', { distinct_id, alias })
  const identify = (distinct_id: string, properties?: object) =>
    call('POST', '/public/users/identify', { distinct_id, properties })
  const track = (distinct_id: string, body: object = {}) =>
    call('POST', '/public/track', { event: 'e', distinct_id, ...body })
  const user = async (name: string) => {
    const response = await call('GET', path(name))
    return response.statusCode === 200 ? response.json().user : null
  }
  /** the user that a name stands for; the name must have a profile if it is a user */
  const userOf = async (name: string): Promise<string | undefined> => (await user(name))?.distinct_id
  const all = async (name: string) => {
    const response = await call('GET', `${path(name)}/export`)
    return response.statusCode === 200 ? response.body.trimEnd().split('\n') : []
  }
  const remove = async (name: string) => (await call('DELETE', path(name))).statusCode
  return { alias, identify, track, user, userOf, all, remove }
}

/** A call about one or two of six names. */
export type Step = { call: 'alias' | 'remove' | 'identify'; a: number; b: number }
export const STEP = fc.record<Step>({
  call: fc.constantFrom('alias' as const, 'alias' as const, 'alias' as const, 'identify' as const, 'remove' as const),
  a: fc.nat({ max: 5 }),
  b: fc.nat({ max: 5 }),
})
