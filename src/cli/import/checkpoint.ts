import { createHash, randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { StateFile } from '../../lib/checkpoint-file.js'
import type { InputOffset } from './lines.js'

/** What an import has done, kept in a file beside its input, so that it can be ended at any moment and go on. */
export interface ImportState {
  version: 1
  /** drawn once; with the number of a batch it is the batch's `Idempotency-Key` */
  importId: string
  /** the service, and a digest of its key */
  url: string
  key: string
  input: Fingerprint
  /** what makes the batches, so that they are the same when they are repeated */
  options: unknown
  /** batches that were answered, without a gap, from the first */
  done: Done
  /** Batches before `upTo` may have been sent, none of them before `at` (ISO 8601); the first that are not done come first. */
  sent: { upTo: number; at: string }[]
  /** Whether the input ended in the middle of its compressed data; a longer one that begins the same is gone on with. */
  isCut?: boolean
  /** when the last batch was answered, else null */
  finishedAt: string | null
}

export interface Done extends InputOffset {
  batches: number
  accepted: number
  rejected: number
  passedOver: number
  /** rows that changed a profile; absent in notes of earlier versions */
  profiles?: number
  /** bytes of the file of rejects that belong to these batches */
  rejectsBytes: number
}

/** What tells a changed file. */
export interface Fingerprint {
  bytes: number
  modifiedAt: string
  /** SHA-256 of its first and its last 64 KiB, hexadecimal */
  digest: string
}

/** Batches that are noted as sent at a time, so that the note is written once for many of them. */
const NOTED_BATCHES = 64
/** What was done since the last note is repeated after a crash, which costs time and nothing else. */
const NOTE_MS = 1000
const FINGERPRINT_BYTES = 64 * 1024
/** The service knows a key for 24 h; an hour is left for clocks and for the repetition itself. */
const KEY_LIFE_MS = 23 * 60 * 60 * 1000

/** @param bytes where the file is taken to end; where it does end if it is not given */
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

export function newImport(about: Pick<ImportState, 'url' | 'key' | 'input' | 'options'>): ImportState {
  return {
    version: 1,
    importId: randomUUID(),
    ...about,
    done: { batches: 0, offset: 0, line: 0, accepted: 0, rejected: 0, passedOver: 0, rejectsBytes: 0 },
    sent: [],
    finishedAt: null,
  }
}

/** The batches, from the first that is not done, that were sent so long ago that the service no longer knows their keys. */
export function forgottenBatches({ done, sent }: ImportState, now: number): number {
  const upTo = sent.filter(({ at }) => now - Date.parse(at) > KEY_LIFE_MS).at(-1)?.upTo ?? 0
  return Math.max(upTo - done.batches, 0)
}

/** Keeps the state of an import that is under way; without a file (for a stream) it is only kept in memory. */
export class Checkpoint {
  readonly state: ImportState
  readonly #file: StateFile<ImportState> | null
  readonly #now: () => number
  #noted: number
  #sent = 0
  #noting: Promise<void> = Promise.resolve()
  #notedAt: number

  constructor(state: ImportState, file: StateFile<ImportState> | null, now: () => number) {
    this.state = state
    this.#file = file
    this.#now = now
    this.#noted = state.sent.at(-1)?.upTo ?? 0
    this.#sent = this.#noted
    this.#notedAt = now()
  }

  /** Whether anything may have been sent. If not, there is nothing to go on with, and other options may be chosen. */
  get isBegun(): boolean {
    return this.state.done.batches > 0 || this.state.sent.length > 0
  }

  /** Resolves when it is on disk that this batch may have been sent. Batches come in their order. */
  async noteSending(index: number): Promise<void> {
    if (index >= this.#noted) this.#noteMore()
    await this.#noting
    this.#sent = index + 1
    // In good time for those that follow, which then need not wait.
    if (index === this.#noted - NOTED_BATCHES / 2) this.#noteMore()
  }

  /** Batches that may have been sent, in this run or one before, and were not answered. */
  get unanswered(): number {
    return Math.max(this.#sent - this.state.done.batches, 0)
  }

  noteDone(done: Done): void {
    this.state.done = done
    const { sent } = this.state
    while (sent[0] && sent[0].upTo <= done.batches) sent.shift()
    // A later note says it as well, so nobody waits for this one.
    if (this.#now() - this.#notedAt > NOTE_MS) this.save().catch(() => undefined)
  }

  async finish(): Promise<void> {
    this.state.finishedAt = new Date(this.#now()).toISOString()
    this.state.sent = []
    await this.save()
  }

  async save(): Promise<void> {
    this.#notedAt = this.#now()
    await this.#file?.write(this.state)
  }

  #noteMore(): void {
    this.#noted += NOTED_BATCHES
    this.state.sent.push({ upTo: this.#noted, at: new Date(this.#now()).toISOString() })
    this.#noting = this.save()
    // Whoever sends next sees its failure.
    this.#noting.catch(() => undefined)
  }
}
