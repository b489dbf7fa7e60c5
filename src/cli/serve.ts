import { type Command, UsageError } from './command.js'

/** How often it is checked whether npx is still there. */
const PARENT_CHECK_MS = 250

export const command: Command = {
  summary: 'runs the service, as npm start does',
  usage: 'Usage: tallyhouse serve\n\nIt is configured by environment variables, which docs/settings.md lists.',
  handlesSignals: true,
  async run([argument], { env }) {
    if (argument !== undefined) {
      const advice = 'Set the variables that docs/settings.md lists, for example PORT=4000 tallyhouse serve'
      throw new UsageError(`serve takes no arguments, but there is ${argument}. ${advice}.`)
    }
    if (env.npm_command === 'exec') endWithParent()
    // The service ends the process itself.
    await import('../main.js')
    return await new Promise<never>(() => undefined)
  },
}

/** npx passes a signal on to the shell between it and this process, which ends without passing it on. */
function endWithParent(): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, PARENT_CHECK_MS)
  timer.unref()
}
