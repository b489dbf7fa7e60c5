export type { CallOptions, ConnectionOptions } from './connection.js'
export { type ClientErrorCode, TallyhouseError } from './errors.js'
export type { GivenProperties, JsonText, Properties, TrackEvent } from './event.js'
export type { EventQueueOptions } from './event-queue.js'
export type { EventFilter, ExportOptions, StoredEvent } from './export.js'
export type { RetryPolicy } from './retry.js'
export {
  type ProfileOperations,
  type Session,
  type SessionFilter,
  type SessionListOptions,
  type SessionPage,
  Tallyhouse,
  type TallyhouseOptions,
  type User,
  type UserRecord,
} from './tallyhouse.js'
