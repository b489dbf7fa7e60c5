import { spreadOf } from './figures.js'
import type { HttpRequest } from './requests.js'
import { SECRET_KEY } from './servers.js'

/** The service or ClickHouse refused a call temporarily. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError'
}

/** The median of this number of consecutive calls, ms. */
export async function time(url: string, request: HttpRequest, times = 5): Promise<number> {
  const all: number[] = []
  for (let i = 0; i < times; i++) {
    const began = performance.now()
    await call(url, request)
    all.push(performance.now() - began)
  }
  return spreadOf(all).median
}

/** @throws OverloadedError for a 503, Error for any other failure */
export async function call(
  url: string,
  { method, path, body, headers = { 'x-api-key': SECRET_KEY } }: HttpRequest,
): Promise<void> {
  const content = body === undefined ? {} : { body, headers: { ...headers, 'content-type': 'application/json' } }
  const response = await fetch(`${url}${path}`, { method, headers, ...content })
  const text = await response.text()
  if (response.status === 503) throw new OverloadedError(text)
  if (!response.ok) throw new Error(`${path.slice(0, 100)} returned ${response.status}: ${text.slice(0, 1000)}`)
}
