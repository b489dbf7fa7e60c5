import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { CLI, type Scope, SECRET_KEY } from '../helper.js'

export interface ConnectOptions {
  over: 'http' | 'stdio'
  /** version of the protocol: `legacy` has a handshake, `auto` uses the revision without one if the server has it */
  era?: 'legacy' | 'auto'
  key?: string
  /** default: as a bearer token */
  keyHeader?: 'x-api-key'
}

/** The official client, connected to the service. */
export async function connect(t: Scope, url: string, options: ConnectOptions): Promise<Client> {
  const { over, era = 'auto', key = SECRET_KEY, keyHeader } = options
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } })
  const headers = keyHeader ? { [keyHeader]: key } : { authorization: `Bearer ${key}` }
  const transport =
    over === 'http'
      ? new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit: { headers } })
      : new StdioClientTransport({
          command: process.execPath,
          args: [CLI, 'mcp', '--url', url],
          env: { SECRET_KEY: key },
          stderr: 'ignore',
        })
  t.teardown(() => client.close())
  await client.connect(transport)
  return client
}

/** A tool's result, as a value and as the JSON that a model reads, or the texts of an error. */
export async function callTool(client: Client, name: string, given: object = {}, signal?: AbortSignal) {
  const result: CallToolResult = await client.callTool(
    { name, arguments: given as Record<string, unknown> },
    signal && { signal },
  )
  const texts = result.content.map((part) => (part.type === 'text' ? part.text : ''))
  return {
    value: result.structuredContent as Record<string, unknown> | undefined,
    note: texts[0] ?? '',
    json: texts[1] ?? '',
    isError: result.isError === true,
  }
}
