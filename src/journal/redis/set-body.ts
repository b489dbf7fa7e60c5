import type { Socket } from 'node:net'
import { Command } from 'ioredis'

/** A body that no entry refers to is gone after this: longer than a write is tried for. */
const UNUSED_BODY_MS = 60_000

/**
 * Puts a body into a key of its own, where there is none yet: repeated, it leaves alone what an entry refers to already.
 * The bytes go to the socket as they are, where ioredis would copy them.
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
