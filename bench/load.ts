import { fileURLToPath } from 'node:url'
import { hasWrk } from './machine.js'
import type { RequestList } from './requests.js'
import { programFile, type Servers } from './servers.js'

const WRK_SCRIPT = fileURLToPath(new URL('../../wrk.lua', import.meta.url))
const WITH_WRK = hasWrk()

export interface Stretch {
  url: string
  requests: RequestList
  /** requests of the list to skip at first */
  from?: number
  connections: number
  /** a whole number, at least 1 */
  seconds: number
}

export interface LoadResult {
  requests: number
  seconds: number
  perSecond: number
  /** time of the first counted request, by this process's `performance.now()` */
  startedAt: number
  /** ms */
  p50: number
  p99: number
}

/** The last line of output of a load process; times are in microseconds. */
export interface Printed {
  requests: number
  us: number
  connect: number
  read: number
  write: number
  timeout: number
  /** responses other than 2xx */
  status: number
  p50: number
  p99: number
}

/**
 * Sends requests from a separate process; each connection waits for a response before the next request. @throws Error
 * if a request failed, because a result that includes failures means nothing
 */
export async function load(servers: Servers, stretch: Stretch): Promise<LoadResult> {
  const { url, requests, from = 0, connections, seconds } = stretch
  const [command, ...args] = WITH_WRK
    ? ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '-s', WRK_SCRIPT, url]
    : [process.execPath, programFile('autocannon'), url, String(connections), String(seconds)]
  return await measure(servers, stretch, command ?? '', [...args, requests.file, String(from)])
}

/**
 * Sends `perSecond` requests a second, evenly, whether or not responses arrive. A latency counts from the moment its
 * request was due, so that one slow response does not hide those that had to wait for it. Neither tool can do that: wrk
 * has no rate, and autocannon sends the requests of each second in one burst.
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
      `Some of ${requests} requests failed: ${what || 'there was no response'}. Response to one more:\n${answer}`,
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

/** Repeats the first request of a measurement, to show why it failed. */
async function answerTo(servers: Servers, { url, requests, from = 0 }: Stretch): Promise<string> {
  const args = [programFile('download'), url, requests.file, String(from + 1)]
  return await servers.run('the load', process.execPath, args)
}
