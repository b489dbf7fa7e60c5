import type { Socket } from 'node:net'
import { Command } from 'ioredis'

/**
 * A command whose reply is binary. Its binary arguments go to the socket unchanged, between the text of the others:
 * ioredis would copy every argument of a command with a binary one, which takes 5 µs more per write. Cork the socket
 * for it.
 */
export class BinaryCommand extends Command {
  declare args: (string | Buffer)[]

  constructor(name: string, args: (string | Buffer)[]) {
    // Passing the arguments here would flatten them, which takes 3 µs per write.
    super(name, [], { replyEncoding: null })
    this.args = args
  }

  override toWritable(socket: Socket): string {
    let text = `*${this.args.length + 1}\r\n$${this.name.length}\r\n${this.name}\r\n`
    for (const argument of this.args) {
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
