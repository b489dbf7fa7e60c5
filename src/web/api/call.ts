import { BASE } from '../lib/base.js'
import { lookForTrouble, watched } from './trouble.js'

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
const SIGN_IN_PATH = '/session'
/** A POST that changes nothing. */
const QUERY_PATH = '/public/query'
/** Statuses of what passes by itself: no response, and those of a service that is not ready or behind a proxy without it. */
const PASSING = [0, 502, 503, 504]

let csrfToken = ''
let onSignedOut: (reason: string) => void = () => undefined
/** how often somebody has signed in */
let signIns = 0
let hasEnded = false
/** what waits for somebody to sign in again */
const waiting = new Set<() => void>()

/** The token of the sign-in, which every change carries. */
export function setCsrfToken(token: string): void {
  csrfToken = token
}

/** @param listener called when somebody was signed out, as when the key was revoked */
export function whenSignedOut(listener: (reason: string) => void): void {
  onSignedOut = listener
}

/** Notes that nobody is signed in any more: what is read waits for the next sign-in. @param reason for people */
export function noteSignedOut(reason: string): void {
  if (hasEnded) return
  hasEnded = true
  onSignedOut(reason)
}

/** Notes that somebody has signed in: what has waited for it is read now. */
export function noteSignedIn(): void {
  signIns++
  hasEnded = false
  for (const resume of waiting) resume()
  waiting.clear()
}

/** Whether a failure passes by itself, and not by another request. */
export function isPassing(error: Error): boolean {
  // A part of the page that could not be loaded is a TypeError.
  return error instanceof CallError ? PASSING.includes(error.status) : error instanceof TypeError
}

/**
 * Calls the service with the sign-in of the page. What only reads waits while nobody is signed in.
 * @param path with its query, such as `/public/events?limit=10`
 * @param signal ends the call, which then rejects with an AbortError
 * @throws CallError
 */
export async function call<T>(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal)
  const text = await response.text()
  try {
    return JSON.parse(text) as T
  } catch {
    throw new CallError(`Something else than Tallyhouse answers at ${BASE}${path}.`, response.status, 'unknown')
  }
}

/** As `call`, for a response that is not JSON. */
export async function send(method: Method, path: string, body?: unknown, caller?: AbortSignal): Promise<Response> {
  return await request(method, path, { body, caller, limitMs: TIMEOUT_MS })
}

/** Opens a stream that goes on for as long as both want. @param lastEventId what it resumes behind @throws CallError */
export async function openStream(
  path: string,
  { lastEventId, signal }: { lastEventId: string; signal: AbortSignal },
): Promise<ReadableStream<Uint8Array>> {
  const { body } = await request('GET', path, { caller: signal, lastEventId })
  if (!body) throw new CallError('The service answered with nothing.', 0, 'unreachable')
  return body
}

interface RequestOptions {
  body?: unknown
  /** the signal of whoever calls, whose end is no failure */
  caller: AbortSignal | undefined
  /** how long the response may take, ms */
  limitMs?: number
  lastEventId?: string
}

async function request(method: Method, path: string, options: RequestOptions): Promise<Response> {
  const isRead = method === 'GET' || path === QUERY_PATH
  for (;;) {
    if (hasEnded && isRead && path !== SIGN_IN_PATH) await untilSignedIn(options.caller)
    const before = signIns
    const response = await watched(() => attempt(method, path, options)).catch((error) => {
      if (error instanceof CallError) lookForTrouble()
      throw error
    })
    if (response.ok) return response
    const error = await failureOf(response)
    if (isPassing(error)) lookForTrouble()
    if (error.status !== 401 || path === SIGN_IN_PATH) throw error
    // Whoever has signed in meanwhile has another sign-in.
    if (before === signIns) noteSignedOut('You have been signed out: sign in again.')
    if (!isRead) throw new CallError('You had been signed out. Sign in, then do it again.', 401, error.code)
  }
}

async function attempt(
  method: Method,
  path: string,
  { body, caller, limitMs, lastEventId = '' }: RequestOptions,
): Promise<Response> {
  const ends = [caller, limitMs === undefined ? undefined : AbortSignal.timeout(limitMs)]
  return await fetch(`${BASE}${path}`, {
    method,
    credentials: 'same-origin',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(method !== 'GET' && { 'x-csrf-token': csrfToken }),
      ...(lastEventId && { 'last-event-id': lastEventId }),
    },
    ...(body !== undefined && { body: body instanceof JsonText ? body.text : JSON.stringify(body) }),
    signal: AbortSignal.any(ends.filter((signal) => signal !== undefined)),
  }).catch((error: unknown) => {
    if (caller?.aborted) throw error
    throw new CallError('The service cannot be reached. Check that it is running, then try again.', 0, 'unreachable')
  })
}

async function failureOf(response: Response): Promise<CallError> {
  const { error, code = 'unknown', details } = await response.json().catch(() => ({}))
  const message = typeof error === 'string' ? error : `The service answered with ${response.status}.`
  return new CallError(message, response.status, code, details)
}

async function untilSignedIn(signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const resume = () => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    const stop = () => {
      waiting.delete(resume)
      reject(signal?.reason)
    }
    waiting.add(resume)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
