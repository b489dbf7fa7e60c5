import { formatPosition, type Position, parsePosition, START, toMilliseconds } from '../../model/position.js'
import { findDigests, findKey, type IdempotencyKey } from '../../model/request-ids.js'
import { senderName } from '../../model/sender.js'
import { fingerprintBytes, keyBytes } from '../idempotency-memory.js'
import {
  type Block,
  type Depth,
  type EntryKind,
  type Fullness,
  type Outcome,
  type ProjectTally,
  type Refused,
  type Share,
  STATE_MEMORY_MS,
  type State,
  type StoredState,
  type Tally,
  type WaitingEntry,
  type Write,
} from '../journal.js'
import { addShare, countStateBytes, parseShares, pickLargest, projectIn, toShare } from '../shares.js'
import { type Argument, recordArguments } from './script.js'
import { APPEND, BODY, COMMIT, COUNT, REQUEST, RESERVE, SHARD_BYTES, STORED_STATE } from './scripts.js'

/**
 * The arguments of WRITE for one write.
 * @param at name of the key that holds the body of an append; null if the entry holds it
 */
export function writeArguments(write: Write, at: string | null): Argument[] {
  // Spreading objects would take 2 µs.
  const { shard, digest } = requestFields(findKey(write.ids))
  const sender = senderName(write)
  if (write.type === 'reserve') return recordArguments(RESERVE, { type: 'reserve', sender, shard, digest })
  const ids = findDigests(write.ids) ?? ''
  if (write.type === 'append') {
    const { kind = 'events', count, body } = write
    const keys = write.ids.kind === 'shared' ? write.ids.keys : NO_KEYS
    const entry = recordArguments(APPEND, {
      type: 'append',
      kind,
      sender,
      count: String(count),
      size: String(body.length),
      field: at === null ? 'body' : 'at',
      body: at ?? body,
      shard,
      digest,
      ids,
      requests: String(keys.length),
    })
    for (const key of keys) entry.push(...recordArguments(REQUEST, requestFields(key)))
    return entry
  }
  const { kind, stateKey, readAt, state, row, fence } = write
  return recordArguments(COMMIT, {
    type: 'commit',
    kind,
    sender,
    stateKey,
    expected: formatVersion(write.expected),
    readAt: String(readAt),
    fence: fence?.stateKey ?? '',
    fenceVersion: fence ? formatVersion(fence.version) : '',
    fenceReadAt: String(fence?.readAt ?? 0),
    state,
    row,
    shard,
    digest,
    ids,
  })
}

function formatVersion(version: Position): string {
  return version === START ? '' : formatPosition(version)
}

/** Formats a position for scripts, which compare its parts as numbers. */
export function positionFields(position: Position): { ms: string; seq: string } {
  const [ms = '', seq = ''] = formatPosition(position).split('-')
  return { ms, seq }
}

const NO_KEYS: IdempotencyKey[] = []
const NO_REQUEST = { shard: '', digest: '' }

/** The fields of REQUEST. */
export function requestFields(request: IdempotencyKey | null): Record<(typeof REQUEST)[number], Argument> {
  if (!request) return NO_REQUEST
  const key = keyBytes(request)
  return {
    shard: key.toString('hex', 0, SHARD_BYTES),
    digest: Buffer.concat([key.subarray(SHARD_BYTES), fingerprintBytes(request)]),
  }
}

/**
 * The arguments of ACKNOWLEDGE about a block.
 * @param names of the keys that hold bodies of the block
 */
export function acknowledgeArguments(block: Block, names: string[], states: StoredState[]) {
  const events = new Map<string, number>()
  const held = new Map<string, number>()
  let [bodyBytes, stateBytes] = [0, 0]
  for (const entry of block.entries) {
    const { kind, projectId, count, shares, body } = entry
    if (kind === 'events') events.set(projectId, (events.get(projectId) ?? 0) + count)
    for (const { holder, bytes } of shares) held.set(holder, (held.get(holder) ?? 0) + bytes)
    bodyBytes += body.length
    stateBytes += countStateBytes(entry)
  }
  const counts = [...events, ...held].map(([name, amount]) => ({ name, amount: String(amount) }))
  return {
    args: {
      frozen: formatLimits(block),
      positionAfter: formatPosition(block.last + 1n),
      bodyBytes: String(bodyBytes),
      stateBytes: String(stateBytes),
      stateMs: String(STATE_MEMORY_MS),
      bodies: String(names.length),
      projects: String(events.size),
      holders: String(held.size),
    },
    rest: [
      ...names.flatMap((name) => recordArguments(BODY, { name })),
      ...counts.flatMap((count) => recordArguments(COUNT, count)),
      ...states.flatMap(({ stateKey, version }) =>
        recordArguments(STORED_STATE, { stateKey, version: formatPosition(version) }),
      ),
    ],
  }
}

/** @returns null if there is no journal */
export function parseTally(reply: unknown): Tally | null {
  const [id, stored, ...hashes] = reply as [Buffer | null, Buffer | null, ...Buffer[][]]
  if (id === null || stored === null) return null
  const projects = new Map<string, ProjectTally>()
  const names = ['waiting', 'acknowledged', 'repeated'] as const
  for (const [i, name] of names.entries()) {
    const hash = (hashes[i] ?? []).map(String)
    for (let at = 0; at < hash.length; at += 2) {
      const [project = '', count] = hash.slice(at, at + 2)
      const tally = projects.get(project) ?? { acknowledged: 0, repeated: 0, waiting: 0 }
      projects.set(project, { ...tally, [name]: Number(count) })
    }
  }
  return { journalId: Number(String(id)), stored: parsePosition(String(stored)), projects }
}

export function parseOutcome(text: string): Outcome {
  const [status, first = '', second, third] = text.split(':')
  switch (status) {
    case 'done':
      return {
        status,
        position: parsePosition(first),
        ...(second && { known: parseIndexes(second) }),
        ...reasons(third),
      }
    case 'known':
      return { status, known: parseIndexes(first), ...reasons(second) }
    case 'conflict':
    case 'fenced':
      return { status }
    case 'full':
      return { status, fullness: first as Fullness }
    default:
      return parseRefused(text, ':')
  }
}

function reasons(text: string | undefined): { refused?: Refused[] } {
  return text ? { refused: text.split(';').map((reason) => parseRefused(reason, '/')) } : {}
}

function parseRefused(text: string, separator: string): Refused {
  const [status, position = '', journalId, index] = text.split(separator)
  switch (status) {
    case 'repeated':
      return {
        status,
        position: parsePosition(position),
        ...(index && { index: Number(index) }),
        ...(journalId && { journalId: Number(journalId) }),
      }
    case 'mismatch':
    case 'limited':
      return { status }
    default:
      throw new Error(`the journal returned ${text} for a write`)
  }
}

/** Parses indexes of events that a script returned. */
export function parseIndexes(text: string): number[] {
  return text === '' ? [] : text.split('.').map(Number)
}

/** Parses a stored state: its version, then a space and the state unless that was cut. */
export function parseState(value: Buffer): State {
  const space = value.indexOf(' ')
  if (space === -1) return { version: parsePosition(value.toString('latin1')), state: null }
  return { version: parsePosition(value.toString('latin1', 0, space)), state: value.toString('utf8', space + 1) }
}

/** Parses a reply of DEPTH. */
export function parseDepth(reply: unknown): Omit<Depth, 'limitBytes'> {
  const [entries = 0, bytes = 0, oldestMs = 0, stateBytes = 0, cachedBytes = 0, ...held] = reply as number[]
  const large = held.flatMap((holder, i) => (i % 2 === 0 ? { holder: String(holder), bytes: Number(held[i + 1]) } : []))
  return { entries, bytes, oldestMs, stateBytes, cachedBytes, large: pickLargest(large) }
}

/** A reply of CLAIM. */
export interface Claimed {
  /** "<first> <last>" */
  frozen: string
  isRepeated: boolean
  /**
   * if no block is frozen: the position after which the next one begins, and how many entries were ever added before it
   */
  next: { stored: string; before: number } | null
}

/** @returns null if another writer holds the lease or may take it, or nothing waits */
export function parseClaimed(reply: unknown): Claimed | null {
  if (reply === null) return null
  const [frozen, isRepeated, stored, before] = reply as [Buffer, number, Buffer?, Buffer?]
  return {
    frozen: String(frozen),
    isRepeated: isRepeated === 1,
    next: stored ? { stored: String(stored), before: Number(before) } : null,
  }
}

/** An entry of the stream, whose body may be in a separate key. */
export interface Placed {
  entry: WaitingEntry
  /** name of the key that holds the body; null if the entry itself does */
  at: string | null
}

export interface StreamEntry extends Placed {
  /** bytes of the body */
  size: number
}

/** Parses an entry as XRANGE returns it: its id, then the names and values of its fields in the order of ENTRY. */
export function parseEntry([id, fields]: [Buffer, Buffer[]]): StreamEntry {
  const [, kind, , held, , count, , size, field, value, , time, , skip] = fields
  if (!kind || !held || !count || !size || !field || !value) throw new Error(`journal entry ${id} is incomplete`)
  const isHere = field.toString() === 'body'
  const position = parsePosition(id.toString())
  const kindName = kind.toString() as EntryKind
  const shares = parseShares(held.toString())
  const entry: WaitingEntry = {
    position,
    kind: kindName,
    projectId: projectIn(kindName, shares),
    count: Number(count),
    receivedAt: time ? Number(time) : toMilliseconds(position),
    body: isHere ? value : NOTHING,
    ...(skip && { skip: parseIndexes(skip.toString()) }),
    shares,
  }
  return { entry, at: isHere ? null : value.toString(), size: Number(size) }
}

/**
 * Builds the entries of successful writes: one for each append, one for all rows of a kind.
 * @param receivedAt epoch ms by the journal's clock
 * @param names of the keys that hold the bodies of the writes; null if the entry holds it
 */
export function toEntries(
  writes: Write[],
  outcomes: Outcome[],
  receivedAt: number,
  names: (string | null)[],
): Placed[] {
  const entries: Placed[] = []
  const rows = new Map<EntryKind, { entry: WaitingEntry & { shares: Share[] }; rows: string[] }>()
  writes.forEach((write, i) => {
    const outcome = outcomes[i]
    if (outcome?.status !== 'done') return
    const { position } = outcome
    if (write.type === 'reserve') return
    if (write.type === 'append') {
      const { kind = 'events', projectId, count, body } = write
      const { known } = outcome
      const shares = [toShare(write)]
      const entry = { position, kind, projectId, count: count - (known?.length ?? 0), receivedAt, body, shares }
      entries.push({ entry: known ? { ...entry, skip: known } : entry, at: names[i] ?? null })
      return
    }
    let group = rows.get(write.kind)
    if (!group) {
      const entry = { position, kind: write.kind, projectId: '', count: 0, receivedAt, body: NOTHING, shares: [] }
      group = { entry, rows: [] }
      rows.set(write.kind, group)
      entries.push({ entry: group.entry, at: null })
    }
    group.rows.push(write.row)
    addShare(group.entry.shares, toShare(write))
  })
  for (const { entry, rows: texts } of rows.values()) {
    entry.count = texts.length
    entry.body = Buffer.from(texts.join(','))
  }
  return entries
}

const NOTHING = Buffer.alloc(0)

export function toLimits(entries: WaitingEntry[]): { first: Position; last: Position } {
  return { first: entries[0]?.position ?? START, last: entries.at(-1)?.position ?? START }
}

export function formatLimits({ first, last }: { first: Position; last: Position }): string {
  return `${formatPosition(first)} ${formatPosition(last)}`
}
