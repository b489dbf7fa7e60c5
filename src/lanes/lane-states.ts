import { idempotencyConflict } from '../contract/errors.js'
import { chooseLane } from '../model/choose-lane.js'
import { toChangeId } from '../model/insert-id.js'
import type { IdempotencyKey } from '../model/request-ids.js'
import type { Sender } from '../model/sender.js'
import { type StateKind, toStateKey } from '../model/state-key.js'
import type { Change, FencingStates, Repetition, StateFence, StateStore } from '../states/state-store.js'
import type { Lane } from './lane.js'

/** The profiles or sessions of several lanes: each is changed in the lane of its key, so by one compare-and-set. */
export class LaneStates<Value> implements FencingStates<Value> {
  readonly #kind: StateKind
  readonly #lanes: readonly Lane[]
  readonly #findStore: (lane: Lane) => StateStore<Value>

  constructor(kind: StateKind, lanes: readonly Lane[], findStore: (lane: Lane) => StateStore<Value>) {
    this.#kind = kind
    this.#lanes = lanes
    this.#findStore = findStore
  }

  async get(projectId: string, name: string): Promise<Value | null> {
    return (await this.read(projectId, name)).value
  }

  async read(projectId: string, name: string): Promise<{ value: Value | null; fence: StateFence }> {
    return await this.#findStore(this.#findLane(toStateKey(this.#kind, projectId, name))).read(projectId, name)
  }

  /**
   * Like `StateStore.change`. An idempotency key is remembered in its own lane, where every other request with that key
   * looks for it, and then committed with the change in the lane of the state. So the change is executed once even if
   * this process ends between the two. A change that is refused does not use up the key. A change that was sent under
   * another name of the value may already have been made in another lane, while that name still had a separate value.
   */
  async change(projectId: string, name: string, change: Change<Value>, repetition: Repetition = {}): Promise<void> {
    const lane = this.#findLane(toStateKey(this.#kind, projectId, name))
    const { keyClass = 'secret', insertId, sentTo = name } = repetition
    const sentKey = toStateKey(this.#kind, projectId, sentTo)
    const sentLane = this.#findLane(sentKey)
    const sender = { projectId, keyClass }
    if (insertId !== undefined && sentLane !== lane) {
      const known = await sentLane.journal.ids.find({ sender, digests: toChangeId(sentKey, insertId) })
      if (known.length > 0) return
    }
    const elsewhere = await this.#checkKey(lane, sender, repetition.idempotencyKey)
    await this.#findStore(lane).change(projectId, name, change, { ...repetition, ...elsewhere })
  }

  /**
   * @returns how to reserve the key in its lane; null if there is no key, or its lane is also the lane of the state
   * @throws ApiError `idempotency_conflict` if its lane knows the key with another body
   */
  async #checkKey(
    lane: Lane,
    sender: Sender,
    key: IdempotencyKey | undefined,
  ): Promise<Pick<Repetition, 'reserveKey'> | null> {
    const keyLane = key && this.#findLane(key.key)
    if (!keyLane || keyLane === lane) return null
    const known = await keyLane.journal.findRequest(key)
    if (known?.status === 'mismatch') throw idempotencyConflict()
    return { reserveKey: () => keyLane.commits.reserve(sender, key) }
  }

  #findLane(digest: string): Lane {
    const lane = this.#lanes[chooseLane(digest, this.#lanes.length)]
    if (!lane) throw new RangeError('the lanes are numbered from 0')
    return lane
  }
}
