import type { ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Authentication } from './authenticate.js'
import type { BodyAccount, BodyBudget } from './body-budget.js'
import { findBodyKey } from './body-key.js'
import { clientAddress } from './client-address.js'
import { type ClientLimits, timeOut } from './connection-limits.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** set before the body is read */
    answer: ServerResponse
    /** what the body takes; null for a small one */
    account: BodyAccount | null
  }
}

/** Where a body begins with its key, the key is in these bytes. */
const KEY_WITHIN = 1024

/** What the reading of bodies is bounded by. */
export interface BodyBounds {
  budget: BodyBudget
  clientLimits: ClientLimits
}

/** Counts a large body while it comes, until its request is answered, and cuts off one that stops coming. */
export class BodyWatch {
  readonly #account: BodyAccount
  readonly #idle: NodeJS.Timeout
  readonly #unknown: NodeJS.Timeout | null

  /**
   * @param begun the first bytes of the body
   * @param stop lets go of the body; nothing of it is read any more
   * @throws ContractError `overloaded`
   */
  constructor(
    request: FastifyRequest,
    begun: Buffer | undefined,
    keys: Authentication,
    { budget, clientLimits }: BodyBounds,
    stop: () => void,
  ) {
    // Many clients write the key first. What was found is only used to count: the whole body may say otherwise.
    const projectId = request.key ? request.projectId : keys.projectOf(request, begun && firstKey(begun))
    const account = projectId === null ? budget.ofAddress(clientAddress(request)) : budget.ofProject(projectId)
    this.#account = account
    request.account = account
    request.answer.once('close', () => account.close())
    const cutOff = () => {
      this.end()
      stop()
      account.close()
      timeOut(request.raw.socket, request.server.server)
    }
    this.#idle = setTimeout(cutOff, clientLimits.bodyIdleMs).unref()
    this.#unknown = projectId === null ? setTimeout(cutOff, clientLimits.unknownBodyMs).unref() : null
  }

  /** @throws ContractError `overloaded` */
  count(bytes: number): void {
    this.#idle.refresh()
    this.#account.take(bytes)
  }

  /** The whole body is there, or nothing more of it is wanted. */
  end(): void {
    clearTimeout(this.#idle)
    if (this.#unknown) clearTimeout(this.#unknown)
  }
}

function firstKey(begun: Buffer): unknown {
  return findBodyKey(begun.subarray(0, KEY_WITHIN))
}
