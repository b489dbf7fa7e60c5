// Reads all events as NDJSON, page after page by the cursor, as an export does. Argument: URL of the service.
// Prints one line of JSON: the status of every answer, their bytes, and the seconds that they took.
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { PAGE } from '../pages.js'
import { SECRET_KEY } from '../servers.js'

const [url = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
const headers = { 'x-api-key': SECRET_KEY }

let bytes = 0
let cursor: string | null = ''
const startedAt = performance.now()
while (cursor !== null) {
  const query: string = cursor === '' ? '' : `&cursor=${cursor}`
  const request = get(`${url}/public/events?format=ndjson&limit=${PAGE}${query}`, { agent, headers })
  const [answer] = (await once(request, 'response')) as [IncomingMessage]
  if (answer.statusCode !== 200) throw new Error(`a page was answered with ${answer.statusCode}`)
  for await (const chunk of answer) bytes += (chunk as Buffer).length
  const next = answer.headers['x-next-cursor']
  cursor = typeof next === 'string' ? next : null
}
console.log(JSON.stringify({ status: 200, bytes, seconds: (performance.now() - startedAt) / 1000 }))
agent.destroy()
