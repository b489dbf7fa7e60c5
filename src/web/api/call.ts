import { formatExactJson } from '../../contract/exact-json.js'
import { BASE_URL } from '../lib/base-url.js'
import { firstEvent } from '../lib/first-event.js'
import { readMembers } from '../lib/json-text.js'
import { checkStatus } from './service-status.js'

/** An error response of the service, or a missing response. */
export class CallError extends Error {
  override readonly name = 'CallError'
  /** HTTP status; 0 if there was no response */
  readonly status: number
  /** `code` of the response; `unreachable` if there was none */
  readonly code: string
  /** validation errors by field */
  readonly details: { path: string; message: string }[]

  constructor(message: string, status: number, code: string, details: CallError['details'] = []) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
  }
}

/** JSON that is sent as typed, because parsing it would change numbers. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

const TIMEOUT_MS = 45_000
const SIGN_IN_PATH = '/session'
/** A POST that only reads. */
const QUERY_PATH = '/public/query'
/** Statuses of transient failures: no response, or a service that is not ready or unreachable for its proxy. */
const TRANSIENT_STATUSES = [0, 502, 503, 504]

let csrfToken = ''
let project = ''
/** Ends the reads of the project when the user signs in to another one. */
let reads = new AbortController()
let notifySignedOut: (reason: string) => void = () => undefined
/** number of sign-ins so far */
let signIns = 0
let hasEnded = false
/** Dispatches `begin` at each sign-in. */
const signIn = new EventTarget()

/**
 * Sets the project of the sign-in, and the CSRF token that every change sends. Reads for another project are rejected,
 * even if they wait for a sign-in: a file, for example, must not have the data of both.
 */
export function setSignIn(signedInTo: string, token: string): void {
  csrfToken = token
  if (project === signedInTo) return
  project = signedInTo
  reads.abort(new CallError(`You signed in to ${project} in the meantime.`, 401, 'signed_out'))
  reads = new AbortController()
}

/** @param listener called when the user was signed out, for example because the key was revoked */
export function onSignedOut(listener: (reason: string) => void): void {
  notifySignedOut = listener
}

/** Records that the user was signed out; reads wait for the next sign-in. @param reason shown to the user */
export function noteSignedOut(reason: string): void {
  if (hasEnded) return
  hasEnded = true
  notifySignedOut(reason)
}

/** Records a sign-in, and resumes the reads that waited. */
export function noteSignedIn(): void {
  signIns++
  hasEnded = false
  signIn.dispatchEvent(new Event('begin'))
}

/** Whether a failure is transient, so that the same request may succeed later. */
export function isTransient(error: Error): boolean {
  // A failure to load a chunk of the page is a TypeError.
  return error instanceof CallError ? TRANSIENT_STATUSES.includes(error.status) : error instanceof TypeError
}

/** Whether a call failed because someone else saved the same thing first. */
export function isConflict(error: unknown): boolean {
  return error instanceof CallError && error.code === 'revision_conflict'
}

/** What someone else did to a thing that was to be saved. */
export type Conflict = 'changed' | 'deleted'

/**
 * Finds out why a thing could not be saved; null if that has nothing to do with anyone else.
 * @param read reads the thing that is saved now
 * @throws CallError
 */
export async function findConflict(error: unknown, read: () => Promise<unknown>): Promise<Conflict | null> {
  if (!isConflict(error)) return null
  try {
    await read()
    return 'changed'
  } catch (failure) {
    if (failure instanceof CallError && failure.code === 'not_found') return 'deleted'
    throw failure
  }
}

type Kind = 'boards' | 'events' | 'keys' | 'questions' | 'sessions' | 'users'

/** The path of a thing of the project, such as `/public/boards/ID`. @param rest of the path, encoded */
export function toPath(kind: Kind, id: string, rest = ''): string {
  return `/public/${kind}/${encodeURIComponent(id)}${rest}`
}

/**
 * Calls the service with the cookie of the sign-in. While signed out, reads wait for the next one to the same project.
 * @param path with its query, such as `/public/events?limit=10`
 * @param signal cancels the call, which then rejects with an AbortError
 * @throws CallError
 */
export async function call<T>(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal)
  const text = await response.text()
  try {
    return JSON.parse(text) as T
  } catch {
    throw new CallError(
      `Unexpected response from ${BASE_URL}${path}. Is there a proxy in between?`,
      response.status,
      'unknown',
    )
  }
}

/** Like `call`, but returns the source text of each member of the response, because parsing changes numbers. */
export async function readExact(path: string, signal?: AbortSignal): Promise<Map<string, string>> {
  const response = await send('GET', path, undefined, signal)
  return readMembers(await response.text())
}

/** Like `call`, for a response that is not JSON. */
export async function send(method: Method, path: string, body?: unknown, caller?: AbortSignal): Promise<Response> {
  return await request(method, path, { body, caller, limitMs: TIMEOUT_MS })
}

/**
 * Opens a stream that lasts until either side ends it.
 * @param lastEventId the event to resume after
 * @throws CallError
 */
export async function openStream(
  path: string,
  { lastEventId, signal }: { lastEventId: string; signal: AbortSignal },
): Promise<ReadableStream<Uint8Array>> {
  const { body } = await request('GET', path, { caller: signal, lastEventId })
  if (!body) throw new CallError('The service returned nothing.', 0, 'unreachable')
  return body
}

interface FetchOptions {
  body?: unknown
  /** aborting it is not a failure of the service */
  stop: AbortSignal
  /** response timeout, ms */
  limitMs?: number
  lastEventId?: string
}

interface RequestOptions extends Omit<FetchOptions, 'stop'> {
  caller: AbortSignal | undefined
}

async function request(method: Method, path: string, { caller, ...options }: RequestOptions): Promise<Response> {
  const isRead = (method === 'GET' && path !== SIGN_IN_PATH) || path === QUERY_PATH
  const stop = AbortSignal.any([...(isRead ? [reads.signal] : []), ...(caller ? [caller] : [])])
  for (;;) {
    if (hasEnded && isRead) await waitForSignIn(stop)
    const before = signIns
    const response = await fetchOnce(method, path, { ...options, stop }).catch((error) => {
      if (isTransient(error)) checkStatus()
      throw error
    })
    if (response.ok) return response
    const error = await readError(response)
    if (isTransient(error)) checkStatus()
    if (error.status !== 401 || path === SIGN_IN_PATH) throw error
    // There may have been another sign-in in the meantime.
    if (before === signIns) noteSignedOut('You have been signed out. Sign in again.')
    if (!isRead) throw new CallError('You were signed out. Sign in and try again.', 401, error.code)
  }
}

async function fetchOnce(
  method: Method,
  path: string,
  { body, stop, limitMs, lastEventId = '' }: FetchOptions,
): Promise<Response> {
  return await fetch(`${BASE_URL}${path}`, {
    method,
    credentials: 'same-origin',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(method !== 'GET' && { 'x-csrf-token': csrfToken }),
      ...(lastEventId && { 'last-event-id': lastEventId }),
    },
    ...(body !== undefined && { body: body instanceof JsonText ? body.text : formatExactJson(body) }),
    signal: limitMs === undefined ? stop : AbortSignal.any([stop, AbortSignal.timeout(limitMs)]),
  }).catch((error: unknown) => {
    if (stop.aborted) throw error
    throw new CallError('The service cannot be reached. Check that it is running, then try again.', 0, 'unreachable')
  })
}

async function readError(response: Response): Promise<CallError> {
  const { error, code = 'unknown', details } = await response.json().catch(() => ({}))
  const message = typeof error === 'string' ? error : `The service returned status ${response.status}.`
  return new CallError(message, response.status, code, details)
}

async function waitForSignIn(stop: AbortSignal): Promise<void> {
  stop.throwIfAborted()
  await firstEvent([signIn, 'begin'], [stop, 'abort'])
  stop.throwIfAborted()
}
