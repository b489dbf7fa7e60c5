import { setMaxListeners } from 'node:events'
import { Readable } from 'node:stream'
import compress from '@fastify/compress'
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import type { VendorPrefix } from '../contract/vendor-prefixes.js'
import { connectionsWithin, readOpenFilesLimit } from '../lib/open-files.js'
import { prepareCompressed } from './admission/body.js'
import { acceptZstd } from './admission/zstd.js'
import { decorateFew } from './decorate-few.js'
import { handleErrors, refuseMalformedRequest, sendError } from './error-handler.js'
import { IgnoredFields } from './ignored-fields.js'
import { countLimits, type LimitCounts } from './limit-counts.js'
import { describeApi } from './openapi/document.js'
import { paceRefusals } from './refusal-pace.js'
import { RequestLog } from './request-log.js'
import { countRequests, type RequestMetrics } from './request-metrics.js'
import { type ClientLimits, endUnreadResponse, resetBrokenResponse, serverLimits } from './socket/connection-limits.js'
import { Connections } from './socket/connections.js'
import { HeadWatch, limitHeads, MAX_PARSED_HEAD, routedUrl } from './socket/head-limits.js'
import { validatorCompiler } from './validator.js'
import { routeByHost } from './vendor-hosts.js'

/** How long requests in flight may take once the server closes. */
const LAST_REQUESTS_MS = 2_000

/** Settings of the service, by their names. */
export interface ServerSettings {
  /** bytes of a body, decompressed; a route may set another limit */
  BODY_LIMIT: number
  /** addresses or networks, comma-separated */
  TRUST_PROXY?: string
  MAX_CONNECTIONS: number
  /** levels of objects and arrays in properties */
  MAX_PROPERTY_DEPTH: number
}

export interface OpenServer {
  server: FastifyInstance
  requests: RequestMetrics
  limitCounts: LimitCounts
  ignored: IgnoredFields
  /** aborted when the server begins to close */
  closing: AbortSignal
}

/**
 * A server with our error responses, request log, metrics, limits and decompression, but without a
 * route.
 * @param hosts that have the paths of a vendor at their root
 */
export function openServer(
  settings: ServerSettings,
  log: FastifyBaseLogger,
  clientLimits: ClientLimits,
  hosts: ReadonlyMap<string, VendorPrefix> = new Map(),
): OpenServer {
  const requestLog = new RequestLog(log)
  const rewriteUrl = routeByHost(hosts)
  const { http, ...timeouts } = serverLimits(clientLimits)
  const server: FastifyInstance = Fastify({
    // With a logger, Fastify would create a child logger and two listeners per request. RequestLog
    // logs the failures.
    logger: false,
    logController: requestLog,
    genReqId: (raw) => requestLog.chooseId(raw),
    bodyLimit: settings.BODY_LIMIT,
    trustProxy: settings.TRUST_PROXY ?? false,
    // A user ID in a path may have 255 characters, each escaped as up to 12 bytes.
    routerOptions: { maxParamLength: 4096 },
    forceCloseConnections: 'idle',
    ...timeouts,
    // Node would refuse a request without the header itself, with an error of another shape.
    http: { ...http, requireHostHeader: false, maxHeaderSize: MAX_PARSED_HEAD },
    rewriteUrl: hosts.size > 0 ? (request) => routedUrl({ url: rewriteUrl(request) }) : routedUrl,
    // Requests that arrive while the server closes are served like any other.
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => {
      sendError(error, request, reply, () => {
        // No hook runs for a URL that the router cannot parse.
        requestLog.conclude(request, reply)
        requests.unmatched.count(reply.statusCode, 0)
      })
    },
    clientErrorHandler: (error, socket) => refuseMalformedRequest(error, socket, requestLog),
  }).withTypeProvider<TypeBoxTypeProvider>()
  // This log is for everything except requests, whose own `log` stays silent.
  server.log = log
  server.setValidatorCompiler(validatorCompiler(settings.MAX_PROPERTY_DEPTH))
  server.decorateRequest('projectId', '')
  server.decorateRequest('keyId', '')
  server.decorateRequest('keyKind', null)
  server.decorateRequest('sentBytes', 0)
  server.decorateRequest('rawBody')
  server.decorateRequest('key')
  server.decorateRequest('grant', null)
  decorateFew(server, ['keyRefusal', 'signIn', 'account', 'json', 'toll', 'failure'])
  requestLog.watch(server)
  const requests = countRequests(server)
  const limitCounts = countLimits(server)
  paceRefusals(server)
  const connections = new Connections(server.server, log, { maxOpen: maxConnections(settings, log) })
  new HeadWatch(server.server, connections, log)
  limitHeads(server)
  const closing = closeInTime(server, clientLimits)

  handleErrors(server)
  // Registered before the routes, which it describes.
  server.register(swagger, describeApi())
  prepareCompressed(server)
  // Request bodies only: the body limit holds for the decompressed size.
  server.register(compress, { global: false, globalDecompression: true })
  server.after(() => acceptZstd(server))
  return { server, requests, limitCounts, ignored: new IgnoredFields(), closing }
}

/** MAX_CONNECTIONS, or less with a warning if the process may not open that many files. */
function maxConnections({ MAX_CONNECTIONS: wanted }: ServerSettings, log: FastifyBaseLogger): number {
  const openFiles = readOpenFilesLimit()
  const max = connectionsWithin(wanted, openFiles)
  if (max < wanted) {
    log.warn(
      { wanted, max, openFiles },
      'fewer connections than MAX_CONNECTIONS are accepted, because the process may open too few files: raise ulimit -n, or lower it',
    )
  }
  return max
}

/** Keeps slow clients from delaying the shutdown. */
function closeInTime(server: FastifyInstance, clientLimits: ClientLimits): AbortSignal {
  const closing = new AbortController()
  // Every part listens to it, once.
  setMaxListeners(0, closing.signal)
  server.addHook('preClose', async () => {
    closing.abort()
    // A client that has not sent the whole request by then gets no response.
    setTimeout(() => server.server.closeAllConnections(), LAST_REQUESTS_MS).unref()
  })
  server.addHook('onSend', (request, reply, payload, done) => {
    if (payload instanceof Readable) {
      if (!request.routeOptions.config.isEndless) endUnreadResponse(payload, request, clientLimits)
      resetBrokenResponse(payload, request)
    }
    // An idle keep-alive connection would delay the shutdown.
    if (closing.signal.aborted) reply.header('connection', 'close')
    done()
  })
  return closing.signal
}
