import { setTimeout as wait } from 'node:timers/promises'
import { ApiError } from '../../contract/errors.js'
import { parseSender, type Sender } from '../../model/sender.js'
import type { Outcome, Write } from '../journal.js'
import type { PerClass } from '../sender-limits.js'
import { BinaryCommand } from './binary-command.js'
import { CONNECTION_WAIT_MS, type RedisConnection } from './connection.js'
import { parseOutcome, positionFields, writeArguments } from './encoding.js'
import { asRefusal, isFromScript, isGone, isLost, isReply } from './errors.js'
import type { RedisHistory } from './history.js'
import { bodyKey } from './keys.js'
import type { Argument, ArgumentsFor } from './script.js'
import { WRITE } from './scripts.js'

export interface ProducerOptions {
  /** unique among all producers */
  name: string
  prefix: string
  keys: Record<'stream' | 'meta' | 'pending', string>
  connection: RedisConnection
  history: RedisHistory
  /** number of this process's layout */
  layout: string
  /** how many replicas must have a write before it resolves */
  replicas: number
  /** a body up to this size, in bytes, is a part of its entry */
  maxBodyInEntry: number
}

export interface WriteLimits {
  /** size of the journal above which writes are refused */
  bytes: number
  /** how many ids and idempotency keys of one sender are remembered */
  ids: PerClass
  keys: PerClass
}

export interface Written {
  /** era of the history when the write was sent */
  era: number
  /** how many entries were ever added to the journal before these */
  before: number
  outcomes: Outcome[]
  /** epoch ms by the clock of Redis */
  receivedAt: number
  /** for each write, the name of the key that holds its body; null if its entry does, or if it has none */
  names: (string | null)[]
  /** senders whose ids are known for a shorter time from now on */
  shortened: Sender[]
}

/** How long a write whose reply was lost is resent, ms. */
const LOST_REPLY_WAIT_MS = 15_000
const RETRY_PAUSE_MS = 50
/** A body that no entry refers to expires after this, which is longer than a write is retried. */
const UNUSED_BODY_MS = 60_000

/**
 * Writes to the journal exactly once. Redis keeps the reply to a producer's last call. A call whose reply was lost is
 * sent again with the same number: that returns the kept reply, or executes the call if it had not been executed.
 */
export class Producer {
  readonly #options: ProducerOptions
  readonly #keys: ProducerOptions['keys'] & { producer: string }
  #sequence = 0

  constructor(options: ProducerOptions) {
    const { name, prefix, keys } = options
    this.#options = options
    this.#keys = { ...keys, producer: `${prefix}:producer:${name}` }
  }

  /**
   * Executes writes in one atomic step. Only one call may run at a time.
   * @throws ApiError `overloaded` or `unavailable`: nothing was written; `internal`: the outcome is unknown
   */
  async write(writes: Write[], { bytes, ids, keys }: WriteLimits): Promise<Written> {
    const { prefix, name, history, connection, layout, maxBodyInEntry } = this.#options
    const sequence = String(++this.#sequence)
    const encoded: Argument[] = []
    const bodies: { key: string; body: Buffer }[] = []
    const names = writes.map((write, i) => {
      const isApart = write.type === 'append' && write.body.length > maxBodyInEntry
      const at = isApart ? `${name}:${sequence}:${i}` : null
      for (const argument of writeArguments(write, at)) encoded.push(argument)
      if (isApart) bodies.push({ key: bodyKey(prefix, `${at}`), body: write.body })
      return at
    })

    let replyLostAt: number | null = null
    for (;;) {
      let bodyError: unknown
      try {
        await connection.connected(CONNECTION_WAIT_MS)
        const { era } = history
        const { ms: floorMs, seq: floorSeq } = positionFields(history.floor)
        const { ms: foreignMs, seq: foreignSeq } = positionFields(history.foreignFloor)
        const args = {
          prefix,
          sequence,
          journalId: String(history.id),
          history: history.name,
          layout,
          maxBytes: String(bytes),
          floorMs,
          floorSeq,
          foreignMs,
          foreignSeq,
          maxPageRequests: String(keys.page),
          maxSecretRequests: String(keys.secret),
          maxPageIds: String(ids.page),
          maxSecretIds: String(ids.secret),
        }
        const reply = await this.#send(bodies, args, encoded, (error) => {
          bodyError = error
        })
        const [before, outcomes = '', receivedAt, shortened = ''] = String(reply).split(' ')
        return {
          era,
          before: Number(before),
          outcomes: outcomes.split(',').map(parseOutcome),
          receivedAt: Number(receivedAt),
          names,
          shortened: sendersIn(shortened),
        }
      } catch (failure) {
        const fault = isGone(failure) ? await history.adopt().catch((error) => error) : failure
        if (!fault) continue
        const error = chooseCause(fault, bodyError, replyLostAt !== null)
        if (isFinal(error, replyLostAt !== null)) throw asRefusal(error) ?? error
        if (!asRefusal(error)) replyLostAt ??= Date.now()
        if (replyLostAt !== null && Date.now() - replyLostAt > LOST_REPLY_WAIT_MS) throw unknownOutcome(error)
        await wait(RETRY_PAUSE_MS)
      }
    }
  }

  /** Sends the bodies and then the script in one system call. */
  #send(
    bodies: { key: string; body: Buffer }[],
    args: ArgumentsFor<typeof WRITE>,
    writes: Argument[],
    onBodyError: (error: unknown) => void,
  ): Promise<unknown> {
    const { connection, replicas } = this.#options
    return connection.cork(() => {
      for (const { key, body } of bodies) {
        // NX: a resent body must not change one that an entry already refers to.
        const set = new BinaryCommand('SET', [key, body, 'NX', 'PX', String(UNUSED_BODY_MS)])
        set.promise.catch(onBodyError)
        connection.redis.sendCommand(set)
      }
      return connection.run(WRITE, this.#keys, args, { rest: writes, replicas })
    })
  }
}

/** @param names in hexadecimal digits */
function sendersIn(names: string): Sender[] {
  if (names === '') return []
  return names.split(',').map((name) => parseSender(Buffer.from(name, 'hex').toString()))
}

/**
 * Why a write failed: often because a body was refused before. A replica that refuses a body also closes the
 * connection, so the WRITE after the body did nothing.
 */
function chooseCause(fault: unknown, bodyError: unknown, isReplyLost: boolean): unknown {
  const isClosed = !isReplyLost && !isReply(fault) && asRefusal(bodyError) !== null
  return isClosed || (isLost(fault) && isReply(bodyError)) ? bodyError : fault
}

/**
 * Whether resending is pointless. Before any reply was lost, every refusal is final. Afterwards, only a refusal by the
 * script is: it has checked whether this producer's last call was executed.
 */
function isFinal(error: unknown, isReplyLost: boolean): boolean {
  if (asRefusal(error)) return !isReplyLost || isFromScript(error)
  return isReply(error) && !isLost(error)
}

function unknownOutcome(cause: unknown): ApiError {
  const message = 'It is unknown whether the request was stored. Repeat it with the same Idempotency-Key.'
  return new ApiError('internal', message, { cause })
}
