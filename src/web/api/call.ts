/** A failure that the service answered with, or that kept it from answering. */
export class CallError extends Error {
  override readonly name = 'CallError'
  /** HTTP status; 0 if there was no response */
  readonly status: number
  /** `code` of the response; `unreachable` if there was none */
  readonly code: string
  /** which fields of the request are at fault */
  readonly details: { path: string; message: string }[]

  constructor(message: string, status: number, code: string, details: CallError['details'] = []) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
  }
}

/** JSON that is sent as it is typed: making it of values would change numbers. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

const TIMEOUT_MS = 45_000

let csrfToken = ''
let onSignedOut: (reason: string) => void = () => undefined

/** The token of the session that has begun, which every change carries. */
export function useToken(token: string): void {
  csrfToken = token
}

/** @param listener called when a call shows that the session has ended, as when its key was revoked */
export function whenSignedOut(listener: (reason: string) => void): void {
  onSignedOut = listener
}

/**
 * Calls the service with the session of the page.
 * @param path with its query, such as `/public/events?limit=10`
 * @param signal ends the call, which then rejects with an AbortError
 * @throws CallError
 */
export async function call<T>(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal)
  return (await response.json()) as T
}

/** As `call`, for a response that is not JSON. */
export async function send(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const limit = AbortSignal.timeout(TIMEOUT_MS)
  return await request(method, path, {
    body,
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    caller: signal,
  })
}

/** Opens a stream that goes on for as long as both want. @param lastEventId what it resumes behind @throws CallError */
export async function openStream(
  path: string,
  { lastEventId, signal }: { lastEventId: string; signal: AbortSignal },
): Promise<ReadableStream<Uint8Array>> {
  const { body } = await request('GET', path, { signal, caller: signal, lastEventId })
  if (!body) throw new CallError('The service answered with nothing.', 0, 'unreachable')
  return body
}

interface RequestOptions {
  body?: unknown
  signal: AbortSignal
  /** the signal of whoever calls, whose end is no failure */
  caller: AbortSignal | undefined
  lastEventId?: string
}

async function request(
  method: Method,
  path: string,
  { body, signal, caller, lastEventId = '' }: RequestOptions,
): Promise<Response> {
  const response = await fetch(path, {
    method,
    credentials: 'same-origin',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(method !== 'GET' && { 'x-csrf-token': csrfToken }),
      ...(lastEventId && { 'last-event-id': lastEventId }),
    },
    ...(body !== undefined && { body: body instanceof JsonText ? body.text : JSON.stringify(body) }),
    signal,
  }).catch((error: unknown) => {
    if (caller?.aborted) throw error
    throw new CallError('The service cannot be reached. Check that it is running, then try again.', 0, 'unreachable')
  })
  if (!response.ok) throw await failureOf(response, path)
  return response
}

async function failureOf(response: Response, path: string): Promise<CallError> {
  const body = await response.json().catch(() => ({}))
  const message = typeof body.error === 'string' ? body.error : `The service answered with ${response.status}.`
  if (response.status === 401 && path !== '/session') onSignedOut('The session has ended: sign in again.')
  return new CallError(message, response.status, body.code ?? 'unknown', body.details)
}
