import type { Command } from './command.js'

export const command: Command = {
  summary: 'runs the service, as npm start does',
  usage: 'Usage: tallyhouse serve\n\nIt is configured by environment variables, which docs/settings.md lists.',
  async run() {
    // The service ends the process itself.
    await import('../main.js')
    return await new Promise<never>(() => undefined)
  },
}
