import type { ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { isBrowserKey } from '../../keys/keys.js'
import { type ClientLimits, timeOut } from '../socket/connection-limits.js'
import type { Authentication } from './authenticate.js'
import type { BodyAccount, BodyBudget } from './body-budget.js'
import { API_KEY, findBodyKey, type KeyPath } from './body-key.js'
import { type BrowserLimits, clientAddress } from './browser-limits.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** set before the body is read */
    rawResponse: ServerResponse
    /** the body's share of the memory budget; null for a small one */
    account: BodyAccount | null
  }
}

/** If a body begins with its key, the key is within this many bytes. */
const KEY_WITHIN = 1024

/** The limits for reading bodies. */
export interface BodyBounds {
  budget: BodyBudget
  clientLimits: ClientLimits
  browserLimits: BrowserLimits
  /** path of the key in a body; default: the field `apiKey` */
  keyPaths?: readonly KeyPath[]
}

/**
 * Counts a large body from its arrival until the response is sent, and cuts off one that stalls.
 */
export class BodyWatch {
  readonly #request: FastifyRequest
  readonly #account: BodyAccount
  /** null for a body whose key is not a public one */
  readonly #limits: BrowserLimits | null
  readonly #idle: NodeJS.Timeout
  readonly #unknown: NodeJS.Timeout | null

  /**
   * @param begun the first bytes of the body
   * @param stop stops reading the body and releases it
   * @throws ApiError `overloaded`
   */
  constructor(
    request: FastifyRequest,
    begun: Buffer | undefined,
    keys: Authentication,
    { budget, clientLimits, browserLimits, keyPaths = [API_KEY] }: BodyBounds,
    stop: () => void,
  ) {
    // Many clients write the key first. It only decides which count is used, because the rest of the body may contain
    // another key.
    const grant = request.grant ?? keys.findBodyGrant(request, begun && firstKey(begun, keyPaths))
    const account = openAccount(request, grant?.projectId ?? null, budget)
    this.#request = request
    this.#account = account
    this.#limits = grant && !isBrowserKey(grant.kind) ? null : browserLimits
    const cutOff = () => {
      this.end()
      stop()
      account.close()
      timeOut(request.raw.socket, request.server.server)
    }
    this.#idle = setTimeout(cutOff, clientLimits.bodyIdleMs).unref()
    this.#unknown = grant === null ? setTimeout(cutOff, clientLimits.unknownBodyMs).unref() : null
  }

  /** @throws ApiError `overloaded` */
  count(bytes: number): void {
    this.#idle.refresh()
    this.#account.take(bytes)
  }

  /**
   * @param bytes by which the body has grown
   * @param sent bytes of the compressed body so far
   * @throws ApiError `rate_limited`
   */
  countInflated(bytes: number, sent: number): void {
    if (!this.#limits) return
    const request = this.#request
    request.sentBytes = sent
    request.toll ??= this.#limits.open(request)
    request.toll.touch(bytes)
  }

  /** Call it once the whole body has arrived, or no more of it is needed. */
  end(): void {
    clearTimeout(this.#idle)
    if (this.#unknown) clearTimeout(this.#unknown)
  }
}

/**
 * Gives a request an account of its body, until the response is sent.
 * @param projectId null if its key is not known yet
 */
export function openAccount(request: FastifyRequest, projectId: string | null, budget: BodyBudget): BodyAccount {
  const account = projectId === null ? budget.ofAddress(clientAddress(request)) : budget.ofProject(projectId)
  request.account = account
  request.rawResponse.once('close', () => account.close())
  return account
}

function firstKey(begun: Buffer, paths: readonly KeyPath[]): unknown {
  const start = begun.subarray(0, KEY_WITHIN)
  return paths.map((path) => findBodyKey(start, path)).find((key) => typeof key === 'string')
}
