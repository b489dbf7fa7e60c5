import {
  createMcpHandler,
  isLegacyRequest,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { abortable } from '../lib/unless-aborted.js'
import { openMcpServer, type ServerOptions } from './server.js'

export interface McpRequest {
  headers: Headers
  /** one message, parsed */
  body: unknown
  /** aborted when the client hangs up, which ends what the tools are reading */
  signal: AbortSignal
}

/**
 * Answers one message, statelessly, by JSON: of the revision 2026-07-28, which has no handshake, and of those before it.
 * @throws what the signal was aborted with
 */
export async function answerMessage({ headers, body, signal }: McpRequest, options: ServerOptions): Promise<Response> {
  const request = new Request('http://tallyhouse/mcp', { method: 'POST', headers, signal })
  const open = () => openMcpServer(options)
  if (await isLegacyRequest(request, body)) return await answerFormer(request, body, open())
  // A subscription would hold a connection for changes that never come.
  const handler = createMcpHandler(open, { legacy: 'reject', maxSubscriptions: 0 })
  return await abortable(handler.fetch(request, { parsedBody: body }), signal).finally(() => handler.close())
}

async function answerFormer(request: Request, body: unknown, server: McpServer): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  try {
    await server.connect(transport)
    // A transport that is closed leaves its answer open for good.
    return await abortable(transport.handleRequest(request, { parsedBody: body }), request.signal)
  } finally {
    // Which aborts the tools that still run.
    await server.close()
  }
}
