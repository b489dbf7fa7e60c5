import { laneOf } from '../model/lane-of.js'
import { type StateKind, stateKeyOf } from '../model/state-key.js'
import type { Lane } from './lane.js'
import type { Change, Repetition, StateStore } from './state-store.js'

/** Profiles or sessions, in whichever lane they are. */
export type States<Value> = Pick<StateStore<Value>, 'get' | 'change'>

/** The profiles or sessions of several lanes: each is changed in the lane of its key, so by one compare-and-set. */
export class LaneStates<Value> implements States<Value> {
  readonly #kind: StateKind
  readonly #lanes: readonly Lane[]
  readonly #storeOf: (lane: Lane) => StateStore<Value>

  constructor(kind: StateKind, lanes: readonly Lane[], storeOf: (lane: Lane) => StateStore<Value>) {
    this.#kind = kind
    this.#lanes = lanes
    this.#storeOf = storeOf
  }

  async get(projectId: string, name: string): Promise<Value | null> {
    return await this.#storeOf(this.#laneOf(stateKeyOf(this.#kind, projectId, name))).get(projectId, name)
  }

  /**
   * As StateStore has it. An idempotency key is reserved in its own lane, where every other request with that key looks
   * for it, and then committed with the change in the lane of the state: so the change is executed once even if this
   * process ends between the two.
   */
  async change(projectId: string, name: string, change: Change<Value>, repetition: Repetition = {}): Promise<void> {
    const key = repetition.idempotencyKey
    const lane = this.#laneOf(stateKeyOf(this.#kind, projectId, name))
    const keyLane = key && this.#laneOf(key.key)
    if (keyLane && keyLane !== lane) await keyLane.commits.reserve(key)
    await this.#storeOf(lane).change(projectId, name, change, repetition)
  }

  #laneOf(digest: string): Lane {
    const lane = this.#lanes[laneOf(digest, this.#lanes.length)]
    if (!lane) throw new RangeError('the lanes are numbered from 0')
    return lane
  }
}
