import type { ListedKey } from '../../../contract/key-schemas.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'

export type KeyKind = ListedKey['kind']

/** The kinds of keys, in the order of their sections. */
export const KINDS: readonly KeyKind[] = ['secret', 'write', 'public', 'read']

export const KIND_TITLES: Record<KeyKind, string> = {
  secret: 'Secret keys',
  write: 'Write keys',
  public: 'Public keys',
  read: 'Read keys',
}

export const KIND_HINTS: Record<KeyKind, string> = {
  secret: 'For servers. They may do everything, this page included, and must never be in a browser or an app.',
  write: 'For pages, apps and the SDKs of other vendors. They send events and profile changes, and read nothing.',
  public: 'For pages that only make session calls.',
  read: 'For dashboards, notebooks and AI assistants. They read everything and change nothing.',
}

/** The name of a key for people: its label, or else its first characters. */
export function nameKey({ label, id }: Pick<ListedKey, 'label' | 'id'>): string {
  return label === '' ? id : escapeInvisible(label)
}

/** Whether keys of this kind may be limited to the pages of some sites. */
export function hasOrigins(kind: KeyKind): boolean {
  return kind === 'write' || kind === 'public'
}
