import { onParentEnd } from '../lib/on-parent-end.js'
import { type Command, UsageError } from './command.js'

/** Argument of `npm start` with the process whose end stops the service. */
const PARENT = /^--parent=\d+$/

export const command: Command = {
  summary: 'runs the service, as npm start does',
  usage: 'Usage: tallyhouse serve\n\nIt is configured by environment variables; docs/settings.md lists them.',
  handlesSignals: true,
  async run(args, { env }) {
    const argument = args.find((text) => !PARENT.test(text))
    if (argument !== undefined) {
      const advice = 'Set the variables that docs/settings.md lists, for example PORT=4000 tallyhouse serve'
      throw new UsageError(`serve takes no arguments, but got ${argument}. ${advice}.`)
    }
    // npx passes a signal to the shell between it and this process, which exits without passing it on.
    if (env.npm_command === 'exec') onParentEnd(process.ppid, () => process.kill(process.pid, 'SIGTERM'))
    // The service ends the process itself.
    await import('../main.js')
    return await new Promise<never>(() => undefined)
  },
}
