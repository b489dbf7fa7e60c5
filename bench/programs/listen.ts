// Holds live streams open and counts the events. Arguments: URL, number of streams, and whether each follows a
// different user (`users`) or everything (`all`). Prints a line when all are open, and at SIGTERM one line of JSON.
import { once } from 'node:events'
import { connect } from 'node:net'
import { SECRET_KEY } from '../servers.js'

/** Streams that are opened at the same time; a server's backlog holds 511. */
const AT_ONCE = 100
const EVENT = Buffer.from('\nid: ')

const [url = '', count = '', kind = ''] = process.argv.slice(2)
const { hostname, port } = new URL(url)
const seen = { streams: 0, events: 0, bytes: 0, broken: 0 }

for (let i = 0; i < Number(count); i += AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, Number(count) - i) }, (_, j) => open(i + j)))
}
console.log('listening')

process.once('SIGTERM', () => {
  console.log(JSON.stringify(seen))
  // Leaves time for the line to be read before the end is noticed.
  setTimeout(() => process.exit(0), 200)
})

async function open(number: number): Promise<void> {
  const socket = connect(Number(port), hostname)
  const query = kind === 'users' ? `?distinct_id=user-${number}` : ''
  socket.write(`GET /public/events/live${query} HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${SECRET_KEY}\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  if (!head.toString('latin1').startsWith('HTTP/1.1 200 ')) throw new Error(`a stream was refused: ${head}`)
  seen.streams++
  socket.on('data', (chunk) => {
    seen.bytes += chunk.length
    for (let at = chunk.indexOf(EVENT); at >= 0; at = chunk.indexOf(EVENT, at + EVENT.length)) seen.events++
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    seen.broken++
  })
}
