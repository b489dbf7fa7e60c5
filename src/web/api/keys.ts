import type { AuditLogPage, CreatedKey, ListedKey, RotatedKey } from '../../contract/key-schemas.js'
import { call, toPath } from './call.js'

/** The fields of a key that are chosen when it is created. */
export type KeyDraft = Pick<ListedKey, 'kind'> & KeyFields
/** The fields of a key that can be changed. */
export type KeyFields = Pick<ListedKey, 'label' | 'origins' | 'events_only'>

/** The keys of the project, by age, revoked ones included. @throws CallError */
export async function listKeys(signal?: AbortSignal): Promise<ListedKey[]> {
  return (await call<{ keys: ListedKey[] }>('GET', '/public/keys', undefined, signal)).keys
}

/** @returns the key with its text, which no other call returns @throws CallError */
export async function createKey(draft: KeyDraft): Promise<CreatedKey> {
  return await call<CreatedKey>('POST', '/public/keys', draft)
}

/** @throws CallError */
export async function changeKey(id: string, fields: Partial<KeyFields>): Promise<void> {
  await call('PATCH', toPath('keys', id), fields)
}

/** @param grace how long the old key stays valid, such as `24h` @throws CallError */
export async function rotateKey(id: string, grace: string): Promise<RotatedKey> {
  return await call<RotatedKey>('POST', toPath('keys', id, '/rotate'), { grace })
}

/** @throws CallError `key_conflict` for the last secret key */
export async function revokeKey(id: string): Promise<void> {
  await call('DELETE', toPath('keys', id))
}

/** A page of the audit log, newest first. @throws CallError */
export async function readAuditLog(page: number, limit: number, signal?: AbortSignal): Promise<AuditLogPage> {
  return await call<AuditLogPage>('GET', `/public/audit?limit=${limit}&page=${page}`, undefined, signal)
}
