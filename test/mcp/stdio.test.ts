import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { ProjectData } from '../../src/mcp/project-data.js'
import { serveStreams } from '../../src/mcp/stdio.js'

const initialize = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const call = { id: 2, method: 'tools/call', params: { name: 'list_events', arguments: {} } }
const cancel = { method: 'notifications/cancelled', params: { requestId: 2 } }

/**
 * Sends messages and closes the input immediately.
 * @param answer of the tool
 */
async function send(messages: object[], answer: ProjectData['eventNames'], options: { signal?: AbortSignal } = {}) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()]
  const data = { eventNames: answer } as ProjectData
  const { signal = new AbortController().signal } = options
  const served = serveStreams({ stdin, stdout, signal, data, onFailure: (error) => t.fail(String(error)) })
  stdin.end(messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join(''))
  await served
  stdout.end()
  const lines = (await text(stdout)).split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line).id)
}

t.test('calls in flight are answered after the input has ended', async (t) => {
  const slowly = async () => {
    await wait(100)
    return '{"status":1,"error":null,"events":[]}'
  }
  t.strictSame(await send([initialize, call], slowly), [1, 2])
  t.strictSame(await send([initialize, { ...call, id: 'b' }, call], slowly), [1, 'b', 2])
  t.strictSame(await send([], slowly), [])
})

t.test('a call that is cancelled or aborted does not block the end', async (t) => {
  const never = async (signal: AbortSignal) => {
    await once(signal, 'abort')
    throw signal.reason
  }
  t.strictSame(await send([initialize, call, cancel], never), [1])
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 200)
  t.strictSame(await send([initialize, call], never, { signal: stop.signal }), [1])
})
