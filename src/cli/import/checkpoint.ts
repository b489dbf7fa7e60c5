import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { KEY_LIFE_MS } from '../../client/retry.js'
import { StateFile } from '../../lib/state-file.js'
import type { Guesses } from './inspect.js'
import type { InputOffset } from './lines.js'
import type { Refusals } from './send.js'

/** The version of the file's format. */
const VERSION = 3

/** The progress of an import, kept in a file next to its input, so that the import can be killed at any time and resume. */
export interface ImportState {
  version: typeof VERSION
  /** random; the `Idempotency-Key` of a batch is this and the batch's number */
  importId: string
  /** the service and the project that it sends to */
  url: string
  project: string
  input: Fingerprint
  /** the options that decide what the batches contain, because a retried batch must be the same */
  options: unknown
  /** what was guessed about the input when the import began */
  guesses: Guesses
  /** whether batches are unchanged lines of the input */
  lines: boolean
  /** when it began by the service's clock, epoch ms */
  begunAt: number
  /** acknowledged batches, from the first one up to the first gap */
  done: Done
  /**
   * Batches before `upTo` may have been sent, but not before `at` (ISO 8601). In the order of batches, without those
   * in `done`.
   */
  sent: { upTo: number; at: string }[]
  /** By batch that is not in `done`: its requests that the service refused, and with other settings might accept */
  refused?: Record<string, Refusals>
  /** Whether the input's compressed data was truncated; a longer file with the same beginning can resume the import. */
  isCut?: boolean
  /** when an undo began, ISO 8601; the import cannot be resumed after that */
  undoneSince?: string
  /** when the last batch was acknowledged, otherwise null */
  finishedAt: string | null
}

export interface Done extends InputOffset {
  batches: number
  accepted: number
  rejected: number
  /** skipped rows, which are not meant to be events */
  skipped: number
  /** profile changes that were made */
  profiles: number
  /** number of cells without the guessed type, by column */
  misfits: Record<string, number>
  /** events that the service already had when the import began */
  known: number
  /** refused changes and aliases of rows whose events are stored */
  refused: number
  /** events that may be stored in batches with unknown ids, see `StoredBatches` */
  uncertain: number
  /** bytes of the file with the batches' ids; null for standard input, which keeps no files */
  storedBytes: number | null
  /** bytes of the rejects file that belong to these batches */
  rejectsBytes: number
}

/** Detects a change of the input. */
export interface Fingerprint {
  bytes: number
  modifiedAt: string
  /** SHA-256 of its first and last 64 KiB, hexadecimal */
  digest: string
  /** SHA-256 of all of it, for a file that is only copied or touched; taken when its import begins */
  whole?: string
}

/** Number of batches that are recorded as sent together, to save writes of the file. */
const RECORDED_BATCHES = 64
/**
 * How often acknowledged batches are recorded. After a crash, those since the last time are sent again, which is
 * harmless.
 */
const SAVE_MS = 1000
const FINGERPRINT_BYTES = 64 * 1024

/** @param bytes how much of the file to use; default: all of it */
export async function fingerprint(path: string, bytes = Number.MAX_SAFE_INTEGER): Promise<Fingerprint> {
  const handle = await open(path)
  try {
    const { size: all, mtime } = await handle.stat()
    const size = Math.min(all, bytes)
    const hash = createHash('sha256')
    for (const start of [0, Math.max(size - FINGERPRINT_BYTES, 0)]) {
      const length = Math.min(FINGERPRINT_BYTES, size)
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(FINGERPRINT_BYTES), 0, length, start)
      hash.update(buffer.subarray(0, bytesRead))
    }
    return { bytes: size, modifiedAt: mtime.toISOString(), digest: hash.digest('hex') }
  } finally {
    await handle.close()
  }
}

/**
 * Whether a file still matches its fingerprint. A file that is gone counts as unchanged, because it can no longer
 * change; so does one that has not been read when the signal aborts.
 */
export async function isUnchanged(path: string, before: Fingerprint, signal: AbortSignal): Promise<boolean> {
  const now = await fingerprint(path).catch(() => before)
  if (now.bytes !== before.bytes || now.digest !== before.digest) return false
  if (now.modifiedAt === before.modifiedAt) return true
  return (await digestWhole(path, signal).catch(() => before.whole)) === before.whole
}

/** SHA-256 of a file, hexadecimal. A gigabyte takes one to two seconds. @throws AbortError */
export async function digestWhole(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash, { signal })
  return hash.digest('hex')
}

export function newImport(
  about: Pick<ImportState, 'url' | 'project' | 'begunAt' | 'input' | 'options' | 'lines' | 'guesses'>,
): ImportState {
  return {
    version: VERSION,
    importId: randomUUID(),
    ...about,
    done: {
      ...{ batches: 0, offset: 0, line: 0 },
      ...{ accepted: 0, rejected: 0, skipped: 0, profiles: 0, misfits: {}, known: 0, refused: 0, uncertain: 0 },
      ...{ storedBytes: 0, rejectsBytes: 0 },
    },
    sent: [],
    finishedAt: null,
  }
}

/**
 * Reads the progress of an import; null if there is no file.
 * @throws Error with a sentence for the user if another version wrote the file
 */
export async function readImport(path: string): Promise<{ state: ImportState | null; file: StateFile<ImportState> }> {
  const file = new StateFile<ImportState>(path)
  const state = await file.read()
  if (!state || state.version === VERSION) return { state, file }
  throw new Error(
    `${path} was written by another version of tallyhouse. Resume or undo its import with that version. To start over, which stores the same events a second time, remove the file.`,
  )
}

/** Counts batches after the last acknowledged one that may have been sent and whose keys have expired since. */
export function expiredBatches({ done, sent }: ImportState, now: number): number {
  const upTo = sent.filter(({ at }) => keysLeftMs(at, now) <= 0).at(-1)?.upTo ?? 0
  return Math.max(upTo - done.batches, 0)
}

function keysLeftMs(sentAt: string, now: number): number {
  return Date.parse(sentAt) + KEY_LIFE_MS - now
}

/** Keeps the state of a running import, and saves it unless the input is a stream. */
export class Checkpoint {
  readonly state: ImportState
  readonly #file: Pick<StateFile<ImportState>, 'write'> | null
  readonly #now: () => number
  /** what earlier runs may have sent */
  readonly #sentBefore: ImportState['sent']
  /** batches before this one are recorded as sent */
  #recorded: number
  #sent = 0
  #recording: Promise<void> = Promise.resolve()
  #savedAt: number

  constructor(state: ImportState, file: Pick<StateFile<ImportState>, 'write'> | null, now: () => number) {
    this.state = state
    this.#file = file
    this.#now = now
    this.#sentBefore = [...state.sent]
    this.#recorded = state.sent.at(-1)?.upTo ?? state.done.batches
    this.#sent = this.#recorded
    this.#savedAt = now()
  }

  /** Whether anything may have been sent. If not, there is nothing to resume, so the options may change. */
  get isBegun(): boolean {
    return this.state.done.batches > 0 || this.state.sent.length > 0
  }

  /** Records on disk that this batch may have been sent. Call it in the order of batches. */
  async recordSending(index: number): Promise<void> {
    if (index >= this.#recorded) this.#recordMore()
    await this.#recording
    // After a resumption, later ones may have been sent by the earlier run.
    this.#sent = Math.max(this.#sent, index + 1)
    // Recorded ahead, so that the next batches do not wait.
    if (index === this.#recorded - RECORDED_BATCHES / 2) this.#recordMore()
  }

  /** Batches that may have been sent, in this run or an earlier one, and were not acknowledged. */
  get unacknowledged(): number {
    return Math.max(this.#sent - this.state.done.batches, 0)
  }

  /**
   * How long the service still remembers the idempotency keys of a batch that an earlier run may have sent, in ms; not
   * positive if they have expired, null for other batches.
   */
  keysLeftMs(index: number): number | null {
    const sent = this.#sentBefore.find(({ upTo }) => index < upTo)
    return sent ? keysLeftMs(sent.at, this.#now()) : null
  }

  /** The refused requests of a batch, in this run or an earlier one. */
  refusalsOf(index: number): Refusals {
    return this.state.refused?.[index] ?? {}
  }

  /**
   * Records on disk that a request was refused, before its events are sent in another one. If the settings of the
   * project or the service change until an import resumes, the same request might be accepted.
   */
  async recordRefused(index: number, refusals: Refusals): Promise<void> {
    this.state.refused = { ...this.state.refused, [index]: { ...this.refusalsOf(index), ...refusals } }
    await this.save()
  }

  recordDone(done: Done): void {
    this.state.done = done
    if (this.state.refused) {
      // Replaced, because a write in flight has the object.
      const { [done.batches - 1]: _, ...others } = this.state.refused
      this.state.refused = others
    }
    const { sent } = this.state
    while (sent[0] && sent[0].upTo <= done.batches) sent.shift()
    // A later save, which includes this state, will report the failure.
    if (this.#now() - this.#savedAt > SAVE_MS) this.save().catch(() => undefined)
  }

  async finish(): Promise<void> {
    this.state.finishedAt = new Date(this.#now()).toISOString()
    this.state.sent = []
    await this.save()
  }

  /** Call this when nothing is in flight. If every batch that was sent is acknowledged, nothing else can be stored. */
  settle(): void {
    if (this.unacknowledged === 0) this.state.sent = []
  }

  async save(): Promise<void> {
    this.#savedAt = this.#now()
    await this.#file?.write(this.state)
  }

  #recordMore(): void {
    this.#recorded += RECORDED_BATCHES
    this.state.sent.push({ upTo: this.#recorded, at: new Date(this.#now()).toISOString() })
    this.#recording = this.save()
    // The next call of recordSending throws it.
    this.#recording.catch(() => undefined)
  }
}
