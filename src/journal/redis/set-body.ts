import type { Socket } from 'node:net'
import { Command } from 'ioredis'

/** A body that no entry refers to expires after this, which is longer than a write is retried. */
const UNUSED_BODY_MS = 60_000

/**
 * Stores a body in a key of its own if there is none yet, so that a resent body does not touch one that an entry already
 * refers to. The bytes go to the socket directly, where ioredis would copy them.
 */
export class SetBody extends Command {
  readonly #head: string
  readonly #body: Buffer

  constructor(key: string, body: Buffer) {
    super('SET', [key])
    this.#head = `*6\r\n$3\r\nSET\r\n$${Buffer.byteLength(key)}\r\n${key}\r\n$${body.length}\r\n`
    this.#body = body
  }

  override toWritable(socket: Socket): string {
    socket.write(this.#head)
    socket.write(this.#body)
    return TAIL
  }
}

const TAIL = `\r\n$2\r\nNX\r\n$2\r\nPX\r\n$${String(UNUSED_BODY_MS).length}\r\n${UNUSED_BODY_MS}\r\n`
