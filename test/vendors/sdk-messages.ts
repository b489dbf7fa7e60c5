import { type JsonValue, readJson } from '../../src/json/value.js'
import type { SdkEvent, SdkMessage, SdkRequest } from '../../src/vendors/message.js'

export const KEY = 'wk_key'
export const NOW = Date.UTC(2026, 0, 1)

/** A request at `NOW` with `KEY`. */
export function request(more: Partial<SdkRequest> = {}): SdkRequest {
  return { key: KEY, receivedAt: NOW, header: () => undefined, fields: new Map(), ...more }
}

/** A JSON text as in a request. */
export function json(text: string): JsonValue {
  const value = readJson(Buffer.from(text))
  if (!value) throw new Error(`not JSON: ${text}`)
  return value
}

/** The events among the messages. */
export function eventsOf(messages: SdkMessage[]): (SdkEvent & { index?: number })[] {
  return messages.filter((message) => message.type === 'event')
}

/** Returns the faults, as `[index, reason, field]`. */
export function reasonsOf(messages: SdkMessage[]): [index: number | undefined, reason: string, field?: string][] {
  return messages
    .filter((message) => message.type === 'fault')
    .map(({ index, reason, field }) => (field === undefined ? [index, reason] : [index, reason, field]))
}

/** The changes of profiles, as `[distinct_id, operations…]`. */
export function changesOf(messages: SdkMessage[]): string[][] {
  return messages
    .filter((message) => message.type === 'change')
    .map(({ distinctId, operations, clears }) => [distinctId, ...(clears ? ['clear'] : []), ...operations])
}

/** The aliases, as `[distinct_id, alias]`. */
export function aliasesOf(messages: SdkMessage[]): [string, string][] {
  return messages.filter((message) => message.type === 'alias').map(({ distinctId, alias }) => [distinctId, alias])
}
