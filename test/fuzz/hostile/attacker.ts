import { setPriority } from 'node:os'
import { ATTACKS, type Keyring } from './attacks.js'
import { Calls } from './calls.js'

// A separate process with the lowest priority, because the CPU time of the sender must not slow the service or the
// measurement. It is told when to start and stop.

setPriority(19)
const { url, name, keys } = JSON.parse(process.argv[2] ?? '{}') as { url: string; name: string; keys: Keyring }
const attack = ATTACKS.find((one) => one.name === name)
if (!attack) throw new Error(`there is no attack ${name}`)
const { connections, step } = attack
const calls = new Calls(url, connections)
const setUp = new Calls(url, 4)
await attack.prepare?.(setUp, keys)
setUp.close()

let isOver = false
process.on('message', (message) => {
  if (message === 'start') start()
  if (message === 'stop') stop()
})
process.send?.('ready')

function start(): void {
  for (let connection = 0; connection < connections; connection++) repeat(connection).catch(console.error)
}

async function repeat(connection: number): Promise<void> {
  for (let turn = 0; !isOver; turn++) {
    const { status } = await step(calls, keys, { connection, turn })
    // A hostile client does not wait. But if its connections are closed immediately, it would only measure its own
    // loop.
    if (status === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

function stop(): void {
  isOver = true
  const { statuses } = calls
  process.send?.({ statuses }, () => {
    calls.close()
    process.disconnect()
    process.exit(0)
  })
}
