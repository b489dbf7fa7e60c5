import {
  fromJsonSchema,
  type JsonSchemaType,
  type JsonSchemaValidatorResult,
  type jsonSchemaValidator,
  McpServer,
} from '@modelcontextprotocol/server'
import type { TObject } from '@sinclair/typebox'
import { ApiError } from '../contract/errors.js'
import { type Check, compileCheck } from '../contract/validation.js'
import { VERSION } from '../version.js'
import { INSTRUCTIONS } from './instructions.js'
import type { ProjectData } from './project-data.js'
import { toFailure, toResult } from './results.js'
import { TOOLS, type Tool } from './tools.js'

export interface ServerOptions {
  data: ProjectData
  /** called with errors other than ApiErrors, which the client does not see */
  onFailure: (error: unknown) => void
}

/** Arguments are checked by `checkArguments`, so that the errors are those of the API. */
const UNCHECKED: jsonSchemaValidator = {
  getValidator<T>() {
    return (input: unknown): JsonSchemaValidatorResult<T> => ({
      valid: true,
      data: input as T,
      errorMessage: undefined,
    })
  },
}

const OFFERED = TOOLS.map((tool) => ({
  tool,
  check: compileCheck(tool.schema, null),
  inputSchema: fromJsonSchema<Record<string, unknown>>(toToolSchema(tool.schema), UNCHECKED),
}))

/** Opens a server with the tools of one project, for one connection or request. */
export function openMcpServer({ data, onFailure }: ServerOptions): McpServer {
  const server = new McpServer(
    { name: 'tallyhouse', title: 'Tallyhouse', version: VERSION },
    { instructions: INSTRUCTIONS, capabilities: { tools: { listChanged: false } } },
  )
  for (const { tool, check, inputSchema } of OFFERED) {
    const { name, title, description } = tool
    const annotations = {
      title,
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
    }
    server.registerTool(
      name,
      { title, description, inputSchema, annotations },
      async (given, { mcpReq: { signal } }) => {
        try {
          return toResult(await tool.read(data, checkArguments(tool, check, given), signal), tool.narrower)
        } catch (error) {
          if (error instanceof ApiError) return toFailure(error)
          if (!signal.aborted) onFailure(error)
          return toFailure(new ApiError('internal', 'Something went wrong, and was logged. Try again.'))
        }
      },
    )
  }
  return server
}

/**
 * Checks arguments and adds defaults. A null counts as absent, because models write it for arguments that they omit.
 * @throws ApiError `invalid_request`
 */
function checkArguments({ schema }: Tool, check: Check, given: Record<string, unknown>): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(schema.properties)) {
    if (property.default !== undefined) values[name] = property.default
  }
  for (const [name, value] of Object.entries(given)) if (value !== null) values[name] = value
  const error = check(values)
  if (error) throw error
  return values
}

/** Converts a schema to plain JSON Schema: without our own keywords, and without null, which counts as absent. */
function toToolSchema(schema: TObject): JsonSchemaType {
  const { required = [], ...rest } = JSON.parse(JSON.stringify(schema), (name, value) => {
    if (name === 'message' || (name === 'default' && value === null)) return undefined
    const [inner, other] = value?.anyOf ?? []
    if (other?.type !== 'null') return value
    const { anyOf: _, ...outer } = value
    return { ...inner, ...outer }
  })
  const isRequired = (name: string) => schema.properties[name]?.default === undefined
  return { ...rest, required: required.filter(isRequired) }
}
