import { ApiError } from '../contract/errors.js'
import type { KeyClass } from '../contract/key-class.js'
import { parseSender, senderName } from '../model/sender.js'
import type { Append, Commit, EntryKind, Fullness, Share, WaitingEntry } from './journal.js'

/**
 * A sender may hold at most this many times the free bytes (a dynamic threshold, by Choudhury and Hahne). So the sender
 * that fills the journal is refused first, and others always have room left. A single sender has no fixed limit: with
 * secret keys it may fill eight ninths of an empty journal, with page keys half of it.
 */
export const WEIGHTS: Record<KeyClass, number> = { page: 1, secret: 8 }
/** A sender that holds less than this part of the whole is only refused when nothing is left. */
export const SMALL_PART = 1 / 64

/** Maximum length of `Depth.large`. */
const MAX_LARGE = 16

interface Holding {
  /** bytes that the sender holds */
  held: number
  /** bytes that all senders hold */
  used: number
  limit: number
}

/** Whether a sender may add `bytes` to what it holds. redis/scripts/shared/shares.lua has the same rule. */
export function fullnessFor(keyClass: KeyClass, bytes: number, { held, used, limit }: Holding): Fullness | null {
  if (used > limit) return 'all'
  // A sender that holds nothing may write one entry, however large.
  if (held === 0 || held + bytes <= limit * SMALL_PART) return null
  return held + bytes > WEIGHTS[keyClass] * (limit - used - bytes) ? 'own' : null
}

/** Selects the MAX_LARGE largest shares, in descending order. */
export function pickLargest(shares: Share[]): Share[] {
  return shares.sort((a, b) => b.bytes - a.bytes).slice(0, MAX_LARGE)
}

/** The share that a write takes until it is stored: an entry's body, or a row and the state. */
export function toShare(write: Append | Commit): Share {
  return { holder: senderName(write), bytes: write.type === 'append' ? write.body.length : measureCommit(write) }
}

function measureCommit({ row, state }: Commit): number {
  return Buffer.byteLength(row) + Buffer.byteLength(state)
}

/** Adds a share to the shares of an entry, which has one for each sender of its rows. */
export function addShare(shares: Share[], { holder, bytes }: Share): void {
  const own = shares.find((share) => share.holder === holder)
  if (own) own.bytes += bytes
  else shares.push({ holder, bytes })
}

/** Formats shares as the journals store them, one per line. Names of projects have no line breaks. */
export function formatShares(shares: readonly Share[]): string {
  return shares.map(({ holder, bytes }) => `${bytes} ${holder}`).join('\n')
}

export function parseShares(text: string): Share[] {
  return text.split('\n').map((line) => {
    const space = line.indexOf(' ')
    return { holder: line.slice(space + 1), bytes: Number(line.slice(0, space)) }
  })
}

/** Computes the bytes of the states that the rows of an entry set. */
export function countStateBytes({ kind, count, body, shares }: WaitingEntry): number {
  if (!areRows(kind)) return 0
  // The rows are joined by commas.
  return shares.reduce((sum, { bytes }) => sum + bytes, 0) - (body.length - count + 1)
}

/** The project of an entry; empty for rows, which name theirs. */
export function projectIn(kind: EntryKind, [share]: readonly Share[]): string {
  return share && !areRows(kind) ? parseSender(share.holder).projectId : ''
}

function areRows(kind: EntryKind): boolean {
  return kind !== 'events' && kind !== 'rejected'
}

/** The error of a write for which the journal has no room at all. */
export function journalFull(cause?: unknown): ApiError {
  const message = 'The journal is full until the store catches up. Try again later.'
  return new ApiError('overloaded', message, cause === undefined ? {} : { cause })
}

/** The error of a write whose sender has filled its share of the journal. Others may still write. */
export function shareFull(keyClass: KeyClass): ApiError {
  const keys = keyClass === 'page' ? 'public and write keys' : 'secret keys'
  const message = `This project’s ${keys} have filled their share of the journal, until the store catches up. Try again later.`
  return new ApiError('overloaded', message, { limit: 'journal' })
}
