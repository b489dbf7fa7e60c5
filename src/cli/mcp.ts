import { type Call, Connection } from '../client/connection.js'
import { TallyhouseError } from '../client/errors.js'
import { toSearchParams } from '../client/export.js'
import { pathTo, QUESTION_TIMEOUT_MS } from '../client/tallyhouse.js'
import { ApiError, ERROR_STATUS, type ErrorCode } from '../contract/errors.js'
import { formatExactJson } from '../contract/exact-json.js'
import { failureText } from '../lib/failure-text.js'
import type { ProjectData } from '../mcp/project-data.js'
import { callFailure } from './check-service.js'
import { type Command, parseOptions } from './command.js'
import { READ_TARGET_USAGE, readTarget, TARGET_OPTIONS, type Target } from './target.js'

const USAGE = `Usage: tallyhouse mcp [options]

Lets an assistant answer questions from the events of a running service. It is a server of the Model
Context Protocol on standard input and output, which the assistant starts itself. docs/mcp.md says
how to add it to Claude, Cursor and VS Code. If Tallyhouse is not installed on the assistant's
machine, they can connect to the service's own /mcp.

The tools only read: names of events, properties and values, answers to questions, one user, recent
events. So give it a read key: tallyhouse keys create --project NAME --kind read.

${READ_TARGET_USAGE}

It exits when the assistant has closed its input and every call is answered, or on Ctrl-C. It can
start before the service does. The exit code is 0, 1 if the output
cannot be written, and 2 for a usage error.`

/**
 * Someone is waiting for the answer and can ask again. MCP clients time out after 60 s, and an unresponsive store is
 * reported after 30.
 */
const RETRY = { attempts: 3, withinMs: 15_000 }

export const command: Command = {
  summary: 'lets an assistant ask a running service (MCP)',
  usage: USAGE,
  async run(args, io) {
    const target = await readTarget(parseOptions({ args, options: TARGET_OPTIONS }).values, io)
    const { serveStreams } = await import('../mcp/stdio.js')
    await serveStreams({
      data: toProjectData(target),
      onFailure: (error) => io.stderr.write(`${failureText(error)}\n`),
      ...io,
    })
    return 0
  },
}

/** Reads a project's data over the API of a service. */
function toProjectData({ url, secretKey }: Target): ProjectData {
  const connection = new Connection({ url, secretKey, retry: RETRY })
  const call = async (describe: () => Call, signal: AbortSignal) => {
    try {
      return (await connection.call({ ...describe(), timeoutMs: QUESTION_TIMEOUT_MS }, { signal })).text
    } catch (error) {
      throw error instanceof TallyhouseError ? asApiError(url, error) : error
    }
  }
  const read = (path: string, query: object, signal: AbortSignal) => {
    return call(() => ({ method: 'GET', path: `/public/${path}?${toSearchParams(query)}` }), signal)
  }
  return {
    ask: (question, signal) => {
      return call(() => ({ method: 'POST', path: '/public/query', body: formatExactJson(question) }), signal)
    },
    eventNames: (signal) => read('schema/events', {}, signal),
    propertyNames: (wanted, signal) => read('schema/properties', wanted, signal),
    values: (wanted, signal) => read('schema/values', wanted, signal),
    user: (distinctId, signal) => call(() => ({ method: 'GET', path: pathTo('users', distinctId) }), signal),
    events: (wanted, signal) => read('events', { ...wanted, order: 'desc' }, signal),
  }
}

/** Explains why there is no answer, with the address of the service. */
function asApiError(url: string, error: TallyhouseError): ApiError {
  const { code, details, retryAfterMs } = error
  const known = Object.hasOwn(ERROR_STATUS, code) ? (code as ErrorCode) : 'unavailable'
  const retryAfter = retryAfterMs === null ? undefined : Math.ceil(retryAfterMs / 1000)
  return new ApiError(known, callFailure(url, error), { details, retryAfter, cause: error })
}
