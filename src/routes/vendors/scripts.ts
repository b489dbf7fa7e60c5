import { type FileHandle, open } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A vendor's script that its snippet loads from the configured address. */
export interface SdkScript {
  /** below the vendor's prefix */
  paths: string[]
  /** name on npm; the operator installs it */
  package: string
  /** the path of the requested file within the package; null if there is no such file */
  file(params: Record<string, string>): string | null
  /** whether a page without the script works; otherwise the console says what is missing */
  isOptional?: boolean
  /** Transforms the script before it is sent; unchanged if absent. */
  adapt?(text: string): string
}

const TYPE = 'text/javascript; charset=utf-8'
/** Cache time: a new version should reach pages soon after it is installed. */
const CACHED = 'public, max-age=300'
/** Size limit. The largest vendor script has 1.5 MB including all of its parts. */
const MAX_SCRIPT_BYTES = 8 * 1024 * 1024

/** Serves the scripts of packages that are installed in a folder, or above it as in Node's resolution. */
export function serveScripts(scope: FastifyInstance, scripts: readonly SdkScript[], folder: string): void {
  const require = createRequire(join(resolve(folder), 'index.js'))
  for (const script of scripts) {
    const folders = (require.resolve.paths(script.package) ?? []).map((modules) => join(modules, script.package))
    for (const url of script.paths) {
      scope.get(url, { schema: { hide: true } }, async (request, reply) => {
        const name = script.file(request.params as Record<string, string>)
        const file = name === null ? null : await openFirst(folders.map((each) => join(each, name)))
        if (file) return await send(file, script, request, reply)
        if (name === null || script.isOptional) return reply.callNotFound()
        reply.header('content-type', TYPE).header('cache-control', 'no-store')
        return reply.send(complaint(script.package))
      })
    }
  }
}

async function openFirst(paths: string[]): Promise<FileHandle | null> {
  for (const path of paths) {
    const file = await open(path).catch(() => null)
    if (file) return file
  }
  return null
}

async function send(
  file: FileHandle,
  { adapt = (text) => text }: SdkScript,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  try {
    const { size, mtimeMs } = await file.stat()
    if (size > MAX_SCRIPT_BYTES) return reply.callNotFound()
    const tag = `W/"${size.toString(36)}-${Math.trunc(mtimeMs).toString(36)}"`
    reply.header('etag', tag).header('cache-control', CACHED)
    if (headers['if-none-match'] === tag) return reply.code(304).send()
    return reply.header('content-type', TYPE).send(adapt(await file.readFile('utf8')))
  } finally {
    await file.close()
  }
}

/**
 * Sent in place of a script that is not installed. The status is a success, because browsers do not run scripts with an
 * error status.
 */
function complaint(name: string): string {
  const text =
    `Tallyhouse: nothing is captured, because this service does not have the script of ${name}. ` +
    `Run "npm install ${name}" in the service's working directory, or in the folder that VENDOR_SCRIPTS names.`
  return `console.error(${JSON.stringify(text)});\n`
}
