export type { Quota, SettingsChange } from '../contract/project-settings.js'
export type {
  AnswerTo,
  AnyAnswer,
  Cohort,
  DefinitionInput,
  ExclusionInput,
  FieldName,
  Filter,
  FunnelInput,
  FunnelLine,
  FunnelStep,
  Interval,
  Metric,
  Paths,
  PathsInput,
  Question,
  QuestionInput,
  RetentionInput,
  SeriesDefinitionInput,
  SeriesInput,
  SeriesLine,
  SeriesPoint,
  UsersInput,
  UsersPage,
} from '../contract/questions.js'
export type {
  EventName,
  EventNames,
  FieldValue,
  FieldValues,
  ProjectUsage,
  Properties,
  PropertyName,
  PropertyNames,
  PropertyType,
  Session,
  SessionPage,
  StoredEvent,
  UsedOnDay,
  User,
} from '../contract/responses.js'
export type { Warning } from '../contract/warning.js'
export type { CallOptions, ConnectionOptions } from './connection.js'
export { type ClientErrorCode, TallyhouseError } from './errors.js'
export type { GivenProperties, JsonText, TrackEvent } from './event.js'
export type { EventQueueOptions } from './event-queue.js'
export type { EventFilter, ExportOptions } from './export.js'
export type { LiveOptions } from './live.js'
export type { RetryPolicy } from './retry.js'
export {
  type FieldValuesOptions,
  type ProfileOperations,
  type Project,
  type PropertyNamesOptions,
  type SessionFilter,
  type SessionListOptions,
  Tallyhouse,
  type TallyhouseOptions,
  type UsageOptions,
  type UserRecord,
} from './tallyhouse.js'
