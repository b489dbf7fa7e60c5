import type { Readable } from 'node:stream'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import { ApiError } from '../contract/errors.js'
import { formatExactJson } from '../contract/exact-json.js'
import { asApiError, messageFor } from '../http/error-handler.js'
import { countLimit } from '../http/limit-counts.js'
import { hangUpSignal } from '../http/reply.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import type { ProjectData } from '../mcp/project-data.js'
import type { Catalog } from '../questions/catalog.js'
import { parseFieldText } from '../questions/field-name.js'
import type { Questions } from '../questions/run.js'
import type { EventReads } from '../reads/event-reads.js'
import { readUser, type UserReadParts } from '../users/read-user.js'

export interface McpOptions extends UserReadParts {
  questions: Questions
  catalog: Catalog
  reads: EventReads
}

const BEARER = /^Bearer +(\S+) *$/i

/**
 * Serves the tools of `src/mcp` to assistants (Model Context Protocol, Streamable HTTP), without sessions. This is not
 * part of the API: after the authentication, messages and errors are those of JSON-RPC.
 */
export const mcp: FastifyPluginAsync<McpOptions> = async (app, parts) => {
  app.addHook('onRequest', async (request, reply) => {
    // Browsers send Origin, including DNS-rebinding pages; MCP clients do not.
    if (request.headers.origin !== undefined) return reply.code(403).send(refusal('Web pages may not call this.'))
    useBearer(request)
  })

  app.post('/mcp', { config: { access: 'read' } }, async (request, reply) => {
    // Each message of a JSON-RPC batch would take a slot for questions, and only one earlier revision of the protocol
    // has batches.
    if (Array.isArray(request.body)) return reply.code(400).send(refusal('Send one message at a time.'))
    // Loaded on demand: these modules take longer to load than the rest of the service, and most services never need
    // them.
    const { answerMessage } = await import('../mcp/http.js')
    const signal = hangUpSignal(reply)
    const onFailure = (err: unknown) => {
      if (!signal.aborted) app.log.error({ reqId: request.id, keyId: request.keyId, err }, 'a tool failed')
    }
    const message = { headers: copyHeaders(request), body: request.body, signal }
    const response = await answerMessage(message, { data: createProjectData(parts, request, onFailure), onFailure })
    reply.code(response.status).headers(Object.fromEntries(response.headers))
    return reply.send(await response.text())
  })

  app.route({
    method: ['GET', 'DELETE'],
    url: '/mcp',
    config: { access: 'read' },
    handler: async (_, reply) => {
      return reply.code(405).header('allow', 'POST').send(refusal('There are no sessions and no streams: use POST.'))
    },
  })
}

/** Clients are configured with a bearer token, or with the API's `x-api-key`, which takes precedence. */
function useBearer({ raw: { headers } }: FastifyRequest): void {
  const token = BEARER.exec(headers.authorization ?? '')?.[1]
  if (token !== undefined) headers['x-api-key'] ??= token
}

/** The headers that the protocol reads. */
function copyHeaders({ headers }: FastifyRequest): Headers {
  const read = Object.entries(headers).filter(([name]) => /^(accept|content-type|mcp-.*)$/.test(name))
  return new Headers(read.map(([name, value]): [string, string] => [name, String(value)]))
}

/** A refusal as a JSON-RPC message. */
function refusal(message: string): object {
  return { jsonrpc: '2.0', error: { code: -32_000, message }, id: null }
}

/** The data of the key's project, as the API's routes return it. */
function createProjectData(
  parts: McpOptions,
  request: FastifyRequest,
  onFailure: (error: unknown) => void,
): ProjectData {
  const { questions, catalog, reads } = parts
  const { projectId } = request
  const answer = async (read: () => Promise<string>) => {
    try {
      return await read()
    } catch (error) {
      const known = asApiError(error as Error)
      const { code, status, message, ...more } = known
      countLimit(request, known)
      if (status >= 500) onFailure(error)
      throw new ApiError(code, messageFor(request, message), omitUndefined(more))
    }
  }
  return {
    ask: (question, signal) =>
      answer(async () => formatExactJson(await questions.ask(projectId, question, signal, catalog.review))),
    eventNames: () => answer(async () => formatExactJson(await catalog.events(projectId))),
    propertyNames: ({ event }) => answer(async () => formatExactJson(await catalog.properties({ projectId, event }))),
    values: (wanted) => {
      return answer(async () => {
        return formatExactJson(await catalog.values(projectId, { ...wanted, field: parseFieldText(wanted.field) }))
      })
    },
    user: (name) => {
      return answer(async () => {
        const user = await readUser(parts, projectId, name)
        if (user === null) throw new ApiError('not_found', 'There is no user with this distinct_id.')
        return `{"user":${user}}`
      })
    },
    events: ({ event, distinct_id: distinctId, from, to, limit, cursor }, signal) => {
      const filter = omitUndefined({ event, distinctId, from, to })
      return answer(async () => readText(await reads.json({ projectId, filter, limit, cursor, order: 'desc' }, signal)))
    },
  }
}

/** Results for assistants are truncated beyond this anyway. */
const MAX_EVENTS_BYTES = 8 * 1024 * 1024

/** @throws ApiError if the text is larger than a process should hold for one assistant */
async function readText(stream: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_EVENTS_BYTES) throw new ApiError('invalid_request', 'These events are over 8 MiB. Ask for fewer.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
