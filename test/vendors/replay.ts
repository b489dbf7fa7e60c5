import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

/** A request of an SDK as it was captured. */
export interface Captured {
  sdk: string
  /** what caused it */
  call: string
  method: string
  path: string
  /** with its question mark, or empty */
  query: string
  headers: Record<string, string>
  body: Buffer
  /** the JSON that the recorder found in it */
  unwrapped: string
}

/** The requests of a capture, in order, including preflights without a body or query. */
export function readCapture(name: string): Captured[] {
  const text = gunzipSync(readFileSync(`test/data/sdk/${name}.ndjson.gz`)).toString()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .filter((line) => line.method !== undefined)
    .map(({ sdk, call, method, path, query, headers, encoding, body, unwrapped }) => {
      const raw = Buffer.from(body ?? '', encoding === 'base64' ? 'base64' : 'utf8')
      return { sdk, call, method, path, query: query ?? '', headers, body: raw, unwrapped: unwrapped ?? body ?? '' }
    })
}
