import { fileURLToPath } from 'node:url'
import { hasWrk } from './machine.js'
import type { RequestList } from './requests.js'
import { programFile, type Servers } from './servers.js'

const WRK_SCRIPT = fileURLToPath(new URL('../../wrk.lua', import.meta.url))
const WITH_WRK = hasWrk()

export interface Stretch {
  url: string
  requests: RequestList
  /** of the list to pass over at first */
  from?: number
  connections: number
  /** whole ones, at least 1 */
  seconds: number
}

export interface LoadResult {
  requests: number
  seconds: number
  perSecond: number
  /** when the first request that counts was sent, as `performance.now()` has it here */
  startedAt: number
  /** ms */
  p50: number
  p99: number
}

/** What a load process prints as its last line; times are in microseconds. */
export interface Printed {
  requests: number
  us: number
  connect: number
  read: number
  write: number
  timeout: number
  /** answers other than 2xx */
  status: number
  p50: number
  p99: number
}

/**
 * Sends requests from a process of their own, each connection the next one as soon as it has its answer.
 * @throws where one of them failed: a figure that counts failures means nothing
 */
export async function load(servers: Servers, stretch: Stretch): Promise<LoadResult> {
  const { url, requests, from = 0, connections, seconds } = stretch
  const [command, ...args] = WITH_WRK
    ? ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '-s', WRK_SCRIPT, url]
    : [process.execPath, programFile('autocannon'), url, String(connections), String(seconds)]
  return await measure(servers, stretch, command ?? '', [...args, requests.file, String(from)])
}

/**
 * Sends `perSecond` requests a second, evenly, whether or not answers come. A latency counts from the moment when its
 * request was due, so that one slow answer does not hide those that had to wait for it. Neither tool can do it: wrk has no
 * rate, and autocannon sends what is due in a second in one burst at its beginning.
 */
export async function pacedLoad(servers: Servers, stretch: Stretch & { perSecond: number }): Promise<LoadResult> {
  const { url, requests, connections, seconds, perSecond } = stretch
  const args = [url, String(connections), String(seconds), requests.file, String(perSecond)]
  return await measure(servers, stretch, process.execPath, [programFile('paced'), ...args])
}

async function measure(servers: Servers, stretch: Stretch, command: string, args: string[]): Promise<LoadResult> {
  const output = await servers.run('the load', command, args)
  const endedAt = performance.now()
  const printed = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '') as Printed
  const { requests, us, p50, p99, ...errors } = printed
  const failed = Object.entries(errors).filter(([, count]) => count > 0)
  if (failed.length > 0 || requests === 0) {
    const what = failed.map(([kind, count]) => `${kind} ${count}`).join(', ')
    const answer = await answerTo(servers, stretch)
    throw new Error(
      `Of ${requests} requests some failed: ${what || 'there was not one answer'}. One more was answered:\n${answer}`,
    )
  }
  const seconds = us / 1e6
  return {
    requests,
    seconds,
    perSecond: requests / seconds,
    startedAt: endedAt - us / 1000,
    p50: p50 / 1000,
    p99: p99 / 1000,
  }
}

/** What the first request of a stretch gets when it is sent once more, to see why it failed. */
async function answerTo(servers: Servers, { url, requests, from = 0 }: Stretch): Promise<string> {
  const args = [programFile('download'), url, requests.file, String(from + 1)]
  return await servers.run('the load', process.execPath, args)
}
