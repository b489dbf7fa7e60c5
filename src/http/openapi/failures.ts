import type { ErrorCode } from '../../contract/errors.js'

/** When each error occurs, and an example of its message. */
export const FAILURES: Record<ErrorCode, { when: string; message: string; path?: string }> = {
  invalid_json: { when: 'The body does not parse.', message: 'The body is not valid JSON at position 7.' },
  invalid_request: {
    when: 'A field is missing or of the wrong type, or a parameter is out of range or unknown.',
    message: '/distinct_id is required and must be a string of 1 to 255 characters.',
    path: '/distinct_id',
  },
  too_many_events: {
    when: 'The batch has more than 1000 events.',
    message: 'A batch holds at most 1000 events. Split it.',
  },
  not_numeric: {
    when: '`$add` is applied to a property that is not a number.',
    message: 'The property visits is not a number.',
  },
  not_array: {
    when: '`$append`, `$prepend`, `$union` or `$remove` is applied to a property that is not an array.',
    message: 'The property tags is not an array.',
  },
  too_old: {
    when: 'An event is past the project’s retention; nothing in the request was stored.',
    message:
      'timestamp is before the earliest time for which the project keeps events: 2024-10-26T08:00:00.000Z. Keep events for longer in the project’s settings, or leave it out.',
    path: '/timestamp',
  },
  quota_exceeded: {
    when: 'The project has reached a hard quota; nothing in the request was stored.',
    message:
      'The project has reached its quota: events_per_day is 1000000. Its events are refused until 2026-11-27T00:00:00.000Z, or until the quota is raised in the project’s settings.',
  },
  unauthorized: {
    when: 'The key is missing or unknown.',
    message: 'The key is not known. Check the key and its project.',
  },
  wrong_key_kind: {
    when: 'The key is of the wrong kind for this call.',
    message: 'This call needs a secret or write key of the project; you sent a public key.',
  },
  invalid_csrf_token: {
    when: 'The call is signed in with a cookie, and its `x-csrf-token` is missing or wrong.',
    message: 'With a cookie, any call except a GET needs the header x-csrf-token; GET /session returns its value.',
  },
  quota_locked: {
    when: 'The change affects a quota that the operator of the service has set; nothing was changed.',
    message:
      'The quota events_per_month was set by the operator of the service, and only the operator can change it. Leave it out, or ask the operator.',
    path: '/quotas/events_per_month',
  },
  not_found: {
    when: 'The project has nothing with this id.',
    message: 'There is no event with this id.',
  },
  session_ended: { when: 'The session is completed.', message: 'The session has ended. Start a new one.' },
  session_owner_mismatch: {
    when: 'The session belongs to another user.',
    message: 'The session belongs to another distinct_id.',
  },
  idempotency_conflict: {
    when: 'The `Idempotency-Key` was used with another body.',
    message: 'This Idempotency-Key was used with another body. Use a new key for a new request.',
  },
  alias_conflict: {
    when: 'The alias names another user.',
    message: 'The alias belongs to another user. An alias names one user only.',
  },
  revision_conflict: {
    when: 'The change is based on a revision other than the stored one.',
    message: 'It was changed in the meantime. Read it again, and repeat the change.',
  },
  key_conflict: {
    when: 'The key is set in the environment, is the last secret key, or the project has too many keys.',
    message: 'SECRET_KEY is set in the environment of the service. Change it there, and restart the service.',
  },
  payload_too_large: {
    when: 'The body is over the limit.',
    message: 'The body is over the limit. Send less per request.',
  },
  unsupported_media_type: {
    when: 'The type or encoding of the body is not supported.',
    message: 'The body must be application/json.',
  },
  query_too_large: {
    when: 'The question takes more time or memory than allowed; `error` says what to narrow.',
    message:
      'The question takes more than 30 s. Ask about a shorter time (from, to), fewer events or fewer breakdowns.',
  },
  rate_limited: {
    when: 'The key is over its request limit, or its project is at its limit of remembered `Idempotency-Key`s; `Retry-After` says when to retry.',
    message: 'Too many requests with this key. Try again later.',
  },
  internal: {
    when: 'The service failed; its log has a line with the response’s `x-request-id`.',
    message: 'Something went wrong, and was logged. Try again.',
  },
  store_damaged: {
    when: 'The call needs data in a damaged part of the store; `error` names the part. Retrying does not help: the operator has to restore it. Calls that do not need it keep working.',
    message:
      'A part of the store is damaged (202611_1_24_2, with events of 2026-11), so this cannot be read. Retrying does not help: the operator has to restore it. Ask about other times (from, to).',
  },
  overloaded: {
    when: 'For a write: the journal is full until ClickHouse catches up, and nothing was stored. With several lanes, `error` names the full one, and says so if a part of a batch whose events have an `insert_id` is stored: send the whole batch again. For a question: others are still running. For a live stream: the service has reached its limit.',
    message: 'The journal is full until the store catches up. Try again later.',
  },
  unavailable: {
    when: 'The journal or the store is unavailable: a read cannot be answered, and a write has stored nothing. With several lanes or shards, `error` names the one that is down; calls that do not need it keep working. As with `overloaded`, a part of a batch whose events have an `insert_id` may be stored; `error` says so.',
    message: 'The journal cannot be reached. Try again in a moment.',
  },
}
