import type { Connection } from '../../client/connection.js'
import type { Batch, Batches } from './batches.js'
import type { Checkpoint } from './checkpoint.js'
import { isStored, type Unacknowledged } from './find-stored.js'
import type { Input } from './input.js'
import type { RowReader } from './lines.js'
import { ProfileTurns } from './profiles.js'
import type { RejectsFile } from './rejects.js'
import { type Sent, sendBatch } from './send.js'

/** For batches that are under way when the import is stopped; what takes longer is repeated when it goes on. */
const STOP_LIMIT_MS = 5_000

export interface ImportParts {
  input: Input
  reader: RowReader
  batches: Batches
  journal: Checkpoint
  rejects: RejectsFile
  connection: Connection
  /** batches under way at a time */
  parallel: number
  /** Batches before this one may have been sent so long ago that the service no longer knows their keys. */
  forgottenUpTo: number
  /** what is done with those */
  unanswered: Unacknowledged
  /** stops the reading; what is under way is brought to its end */
  signal: AbortSignal
}

/** What became of a batch. */
interface Answered extends Sent {
  batch: Batch
  /** changes of profiles */
  profiles: number
}

/**
 * Sends an input to its end. Batches are sent in their order, several at a time, and each is noted before it is sent; they
 * are noted as done in their order, too, whichever is answered first.
 * @returns whether it came to the end, and was not stopped
 * @throws Error where the input cannot be read further, or a batch is not taken; what was answered before is noted
 */
export async function importInput(parts: ImportParts): Promise<boolean> {
  const { input, reader, batches, journal, rejects, connection, parallel, signal } = parts
  const underWay = new Set<Promise<void>>()
  const answered = new Map<number, Answered>()
  let failure: { error: unknown } | null = null
  let noting: Promise<void> | null = null

  /** Notes what is answered without a gap; one at a time. */
  async function note(): Promise<void> {
    for (;;) {
      const { done } = journal.state
      const next = answered.get(done.batches)
      if (!next) return
      answered.delete(done.batches)
      const rejectsBytes = await rejects.write(next.rejects)
      journal.noteDone({
        batches: done.batches + 1,
        ...next.batch.end,
        accepted: done.accepted + next.accepted,
        rejected: done.rejected + next.rejects.length,
        passedOver: done.passedOver + next.batch.passedOver,
        profiles: (done.profiles ?? 0) + next.profiles,
        rejectsBytes,
      })
    }
  }

  async function send(batch: Batch): Promise<Sent> {
    if (batch.index < parts.forgottenUpTo && batch.count > 0 && parts.unanswered !== 'send') {
      const isDone = parts.unanswered === 'skip' || (await isStored(connection, batch, giveUp.signal))
      if (isDone) return { accepted: batch.count, rejects: batch.rejects }
    }
    return await sendBatch(connection, batch, `${journal.state.importId}-${batch.index}`, giveUp.signal)
  }

  async function handle(batch: Batch): Promise<void> {
    try {
      const changing = profileTurns.change(batch.profiles, `${journal.state.importId}-${batch.index}-user`)
      const sent = await send(batch)
      const refused = await changing
      const rejects = [...sent.rejects, ...refused].sort((a, b) => a.line - b.line)
      answered.set(batch.index, { batch, ...sent, rejects, profiles: batch.profiles.length - refused.length })
      batches.release(batch)
      while (answered.has(journal.state.done.batches)) {
        noting ??= note().finally(() => {
          noting = null
        })
        await noting
      }
    } catch (error) {
      failure ??= { error }
    }
  }

  const giveUp = new AbortController()
  const profileTurns = new ProfileTurns(connection, giveUp.signal)
  let stopping: NodeJS.Timeout | undefined
  const stop = () => {
    stopping = setTimeout(() => giveUp.abort(), STOP_LIMIT_MS)
  }
  signal.addEventListener('abort', stop)
  try {
    for await (const batch of batches.read(input.read(journal.state.done.offset), reader)) {
      if (failure || signal.aborted) break
      await journal.noteSending(batch.index)
      const work = handle(batch).finally(() => underWay.delete(work))
      underWay.add(work)
      // One that waits long must not let those behind it pile up.
      while (!failure && underWay.size > 0 && (underWay.size >= parallel || answered.size > parallel)) {
        await Promise.race(underWay)
      }
    }
  } catch (error) {
    failure ??= { error }
  }
  await Promise.all(underWay)
  clearTimeout(stopping)
  signal.removeEventListener('abort', stop)
  if (!failure && !signal.aborted) {
    await journal.finish()
    return true
  }
  if (journal.isBegun) await journal.save()
  if (signal.aborted) return false
  throw (failure as { error: unknown } | null)?.error
}
