import type { Socket } from 'node:net'
import { Command } from 'ioredis'

/**
 * A command whose reply is binary. Its binary arguments go to the socket as they are, between the text of the others: ioredis
 * would copy each argument of a command that has a binary one, which takes 5 µs more for a write. Cork the socket for it.
 */
export class BinaryCommand extends Command {
  readonly #arguments: readonly (string | Buffer)[]

  constructor(name: string, args: (string | Buffer)[]) {
    super(name, args, { replyEncoding: null })
    this.#arguments = args
  }

  override toWritable(socket: Socket): string {
    let text = `*${this.#arguments.length + 1}\r\n$${this.name.length}\r\n${this.name}\r\n`
    for (const argument of this.#arguments) {
      if (typeof argument === 'string') {
        text += `$${Buffer.byteLength(argument)}\r\n${argument}\r\n`
      } else {
        socket.write(`${text}$${argument.length}\r\n`)
        socket.write(argument)
        text = '\r\n'
      }
    }
    return text
  }
}
