import { type Command, UsageError } from './command.js'

export const command: Command = {
  summary: 'runs the service, as npm start does',
  usage: 'Usage: tallyhouse serve\n\nIt is configured by environment variables, which docs/settings.md lists.',
  async run([argument]) {
    if (argument !== undefined) {
      const advice = 'Set the variables that docs/settings.md lists, for example PORT=4000 tallyhouse serve'
      throw new UsageError(`serve takes no arguments, but there is ${argument}. ${advice}.`)
    }
    // The service ends the process itself.
    await import('../main.js')
    return await new Promise<never>(() => undefined)
  },
}
