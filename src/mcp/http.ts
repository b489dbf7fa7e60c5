import {
  createMcpHandler,
  isLegacyRequest,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { abortable } from '../lib/abortable.js'
import { openMcpServer, type ServerOptions } from './server.js'

export interface McpRequest {
  headers: Headers
  /** one message, parsed */
  body: unknown
  /** aborted when the client hangs up, which aborts the tools' reads */
  signal: AbortSignal
}

/**
 * Answers one message statelessly with JSON. Supports the revision 2026-07-28, which has no handshake, and earlier
 * ones.
 * @throws the signal's reason if it is aborted
 */
export async function answerMessage({ headers, body, signal }: McpRequest, options: ServerOptions): Promise<Response> {
  const request = new Request('http://tallyhouse/mcp', { method: 'POST', headers, signal })
  const open = () => openMcpServer(options)
  if (await isLegacyRequest(request, body)) return await answerFormer(request, body, open())
  // A subscription would hold a connection open for changes that never happen.
  const handler = createMcpHandler(open, { legacy: 'reject', maxSubscriptions: 0 })
  return await abortable(handler.fetch(request, { parsedBody: body }), signal).finally(() => handler.close())
}

async function answerFormer(request: Request, body: unknown, server: McpServer): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  try {
    await server.connect(transport)
    // A closed transport never settles its answer.
    return await abortable(transport.handleRequest(request, { parsedBody: body }), request.signal)
  } finally {
    // This aborts tools that are still running.
    await server.close()
  }
}
