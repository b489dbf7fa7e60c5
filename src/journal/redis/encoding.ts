import { formatPosition, millisecondsOf, type Position, parsePosition, START } from '../../model/position.js'
import { fingerprintBytes, keyBytes } from '../idempotency-memory.js'
import type { Entry, EntryKind, IdempotencyKey, Outcome, Refused, State, Write } from '../journal.js'
import { SHARD_BYTES } from './scripts/requests.js'

/**
 * The arguments of WRITE for one write.
 * @param name of the key that holds the body of an append
 */
export function writeArguments(write: Write, name: string): (string | Buffer)[] {
  const request = write.idempotencyKey ? requestArguments(write.idempotencyKey) : ['', '', '']
  if (write.type === 'append') {
    const { kind = 'events', projectId, count, body, insertIds = '', eventKeys = [] } = write
    const entry = ['append', projectId, String(count), String(body.length), name, ...request, kind, insertIds]
    return [...entry, String(eventKeys.length), ...eventKeys.flatMap(requestArguments)]
  }
  if (write.type === 'reserve') return ['reserve', write.idempotencyKey.projectId, ...request]
  const expected = write.expected === START ? '' : formatPosition(write.expected)
  return [
    'commit',
    write.kind,
    write.stateKey,
    expected,
    String(write.readAt),
    write.state,
    write.row,
    write.idempotencyKey?.projectId ?? '',
    ...request,
    write.insertIds ?? '',
  ]
}

/** The arguments of a script for one idempotency key. */
export function requestArguments(request: IdempotencyKey): (string | Buffer)[] {
  const field = keyBytes(request).subarray(SHARD_BYTES)
  return [request.key, request.fingerprint, Buffer.concat([field, fingerprintBytes(request)])]
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
      return { status }
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

/** Parses a stored state: its version, a space, its text. */
export function parseState(value: Buffer): State {
  const space = value.indexOf(' ')
  return { version: parsePosition(value.toString('latin1', 0, space)), state: value.toString('utf8', space + 1) }
}

/** An entry of the stream; its body may be in a key of its own. */
export interface StreamEntry {
  entry: Entry
  /** the name of the key that holds the body; null if the entry itself does */
  at: string | null
}

/** Parses an entry as XRANGE returns it: its id, then the names and values of its fields in the order of WRITE. */
export function parseEntry([id, fields]: [Buffer, Buffer[]]): StreamEntry {
  const [, kind, , projectId, , count, , , field, value, , time, , skip] = fields
  if (!kind || !projectId || !count || !field || !value) throw new Error(`journal entry ${id} is incomplete`)
  const isHere = field.toString() === 'body'
  const position = parsePosition(id.toString())
  const entry: Entry = {
    position,
    kind: kind.toString() as EntryKind,
    projectId: projectId.toString(),
    count: Number(count),
    receivedAt: time ? Number(time) : millisecondsOf(position),
    body: isHere ? value : NOTHING,
    ...(skip && { skip: parseIndexes(skip.toString()) }),
  }
  return { entry, at: isHere ? null : value.toString() }
}

/**
 * The entries that successful writes became: one for each append, one for all rows of a kind.
 * @param receivedAt epoch ms by the journal's clock
 */
export function entriesOf(writes: Write[], outcomes: Outcome[], receivedAt: number): Entry[] {
  const entries: Entry[] = []
  const rows = new Map<EntryKind, { entry: Entry; rows: string[] }>()
  writes.forEach((write, i) => {
    const outcome = outcomes[i]
    if (outcome?.status !== 'done') return
    const { position } = outcome
    if (write.type === 'reserve') return
    if (write.type === 'append') {
      const { kind = 'events', projectId, count, body } = write
      const { known } = outcome
      const entry = { position, kind, projectId, count: count - (known?.length ?? 0), receivedAt, body }
      entries.push(known ? { ...entry, skip: known } : entry)
      return
    }
    let group = rows.get(write.kind)
    if (!group) {
      group = { entry: { position, kind: write.kind, projectId: '', count: 0, receivedAt, body: NOTHING }, rows: [] }
      rows.set(write.kind, group)
      entries.push(group.entry)
    }
    group.rows.push(write.row)
  })
  for (const { entry, rows: texts } of rows.values()) {
    entry.count = texts.length
    entry.body = Buffer.from(texts.join(','))
  }
  return entries
}

const NOTHING = Buffer.alloc(0)

export function limitsOf(entries: Entry[]): { first: Position; last: Position } {
  return { first: entries[0]?.position ?? START, last: entries.at(-1)?.position ?? START }
}

export function formatLimits({ first, last }: { first: Position; last: Position }): string {
  return `${formatPosition(first)} ${formatPosition(last)}`
}
