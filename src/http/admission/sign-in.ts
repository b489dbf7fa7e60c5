import { createHmac, timingSafeEqual } from 'node:crypto'
import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyRequest } from 'fastify'
import { DAY_MS } from '../../contract/durations.js'
import { ApiError } from '../../contract/errors.js'
import type { KeyRing } from '../../keys/key-ring.js'
import type { StoredKey } from '../../keys/keys.js'

const COOKIE = 'tallyhouse_sign_in'
/**
 * The cookie over HTTPS. With this prefix, browsers accept it only from this exact host, not from others in its
 * domain.
 */
const SECURE_COOKIE = `__Host-${COOKIE}`
/** How long a sign-in lasts, ms. Each visit renews it, so a page that is opened once a week stays signed in. */
const SIGN_IN_MS = 7 * DAY_MS
/** The header with which the page proves that it made the request. */
const CSRF_HEADER = 'x-csrf-token'

/** Appended to the signed text if the cookie is for HTTPS only, so that a renewed sign-in is, too. */
const SECURE = '.secure'

/** The sign-in that a request came with. */
interface FoundSignIn {
  grant: StoredKey
  isSecure: boolean
}

/** A new sign-in. */
export interface SignIn {
  /** value of the header Set-Cookie */
  cookie: string
  /**
   * value of the header `CSRF_HEADER` of every call that changes something; the same for all sign-ins with one key,
   * such as two tabs
   */
  csrfToken: string
  /** epoch ms */
  expiresAt: number
}

/**
 * The sign-ins to the page with a key. A sign-in is only a signed cookie, so every process accepts those of all others.
 * It names a key and an expiry time, and is signed with the hash of that key and with `SESSION_SECRET`, if there is
 * one. It ends when the key is revoked or at its expiry; signing out makes the browser forget it.
 */
export class SignIns {
  readonly #keys: KeyRing
  readonly #secret: string
  readonly #now: () => number

  /**
   * @param secret the same in all processes; without one, anybody who can read the stored key hashes can forge sign-ins
   * @param now epoch ms
   */
  constructor(keys: KeyRing, secret = '', now: () => number = Date.now) {
    this.#keys = keys
    this.#secret = secret
    this.#now = now
  }

  begin(grant: StoredKey, request: FastifyRequest): SignIn {
    const expiresAt = this.#now() + SIGN_IN_MS
    const isSecure = cameByHttps(request) || this.#findAny(request)?.isSecure === true
    const content = `${grant.id}.${expiresAt}${isSecure ? SECURE : ''}`
    const value = `${content}.${this.#sign(grant, 'sign-in', content)}`
    return {
      cookie: setCookie(value, SIGN_IN_MS / 1000, isSecure),
      csrfToken: this.#sign(grant, 'csrf', grant.id),
      expiresAt,
    }
  }

  /** The Set-Cookie headers that delete the sign-in, under both names. */
  end(request: FastifyRequest): string[] {
    return [setCookie('', 0, true), nameCookie(COOKIE, '', 0, cameByHttps(request))]
  }

  /**
   * The key of the request's sign-in; null if it has none that is still good.
   * @throws ApiError `invalid_csrf_token` if the request could change something and was not made by the page
   */
  find(request: FastifyRequest): StoredKey | null {
    const grant = this.#findAny(request)?.grant ?? null
    if (!grant || this.#isOfPage(request, grant)) return grant
    const message = `With a cookie, any call except a GET needs the header ${CSRF_HEADER}; GET /session returns its value.`
    throw new ApiError('invalid_csrf_token', message)
  }

  /** Like `find`, but returns null for a request that was not made by the page. */
  findOfPage(request: FastifyRequest): StoredKey | null {
    const grant = this.#findAny(request)?.grant
    return grant && this.#isOfPage(request, grant) ? grant : null
  }

  #findAny({ headers: { cookie } }: FastifyRequest): FoundSignIn | null {
    if (cookie === undefined) return null
    const cookies = parseCookie(cookie)
    const secure = this.#read(cookies[SECURE_COOKIE])
    if (secure) return secure
    // Another host in the domain can set a cookie without the prefix, so over HTTPS that one is ignored.
    const found = this.#read(cookies[COOKIE])
    return found?.isSecure ? null : found
  }

  #read(value: string | undefined): FoundSignIn | null {
    if (!value) return null
    const content = value.slice(0, Math.max(0, value.lastIndexOf('.')))
    const [id = '', expiresAt = ''] = content.split('.')
    if (!(Number(expiresAt) > this.#now())) return null
    const signed = value.slice(content.length + 1)
    const grant = this.#keys.withId(id).find((key) => isSame(signed, this.#sign(key, 'sign-in', content)))
    return grant ? { grant, isSecure: content.endsWith(SECURE) } : null
  }

  #isOfPage({ method, headers }: FastifyRequest, grant: StoredKey): boolean {
    if (method === 'GET' || method === 'HEAD') return true
    return isSame(String(headers[CSRF_HEADER]), this.#sign(grant, 'csrf', grant.id))
  }

  #sign({ hash }: StoredKey, purpose: 'sign-in' | 'csrf', content: string): string {
    return createHmac('sha256', hash + this.#secret)
      .update(`tallyhouse ${purpose} ${content}`)
      .digest('base64url')
  }
}

/** Compares in constant time. */
function isSame(text: string, expected: string): boolean {
  const bytes = Buffer.from(text)
  return bytes.length === expected.length && timingSafeEqual(bytes, Buffer.from(expected))
}

/**
 * Whether the browser loaded the page over HTTPS. Its Origin header, on all but GETs, says so whatever proxies are in
 * between; a client that forges it only affects its own cookie.
 */
function cameByHttps({ headers: { origin }, protocol }: FastifyRequest): boolean {
  return origin === undefined ? protocol === 'https' : origin.startsWith('https:')
}

function setCookie(value: string, maxAge: number, secure: boolean): string {
  return nameCookie(secure ? SECURE_COOKIE : COOKIE, value, maxAge, secure)
}

function nameCookie(name: string, value: string, maxAge: number, secure: boolean): string {
  return stringifySetCookie({ name, value, path: '/', httpOnly: true, sameSite: 'strict', secure, maxAge })
}
