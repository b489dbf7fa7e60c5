import type { JsonValue } from '../../json/value.js'
import { linesToArray, mixpanelEvents, mixpanelUpdates } from '../../vendors/mixpanel.js'
import type { Ingested } from './ingest.js'
import { type Answer, type CallContext, PIXEL, type SdkProtocol, vendorRoutes } from './protocol.js'

/** Exactly this text is a success for Mixpanel's SDKs. */
const TAKEN: Answer = { type: 'text/plain', body: '1' }
const REFUSED: Answer = { type: 'text/plain', body: '0' }

const NOTHING_TO_DECIDE = {
  config: { enable_collect_everything: false },
  notifications: [],
  surveys: [],
  event_bindings: [],
  variants: [],
  automatic_events: false,
  integrations: [],
}

const protocol: SdkProtocol = {
  prefix: '/mixpanel',
  keyPaths: [['properties', 'token'], [0, 'properties', 'token'], ['$token'], [0, '$token']],
  calls: [
    { methods: ['GET', 'POST'], paths: ['/track'], messages: mixpanelEvents, answer },
    { methods: ['GET', 'POST'], paths: ['/engage', '/groups'], messages: mixpanelUpdates, answer },
    {
      methods: ['GET', 'POST'],
      paths: ['/import'],
      messages: mixpanelEvents,
      answer: answerToImport,
      toJson: linesToArray,
    },
  ],
  stubs: [
    { method: 'GET', path: '/flags', answer: () => ({ body: '{"flags":{}}' }) },
    { method: 'GET', path: '/settings', answer: () => ({ body: '{"sdk_config":{"config":{}}}' }) },
    // Older SDKs ask here which features are enabled.
    { method: 'GET', path: '/decide', answer: () => ({ body: JSON.stringify(NOTHING_TO_DECIDE) }) },
    // Session recordings are not stored.
    { method: 'POST', path: '/record', answer: () => ({ body: '{"code":200,"status":"OK"}' }) },
  ],
  failure: ({ message, status }) => ({ body: JSON.stringify({ error: message, status: 0, code: status }) }),
}

/**
 * A request is refused only if nothing of it could be stored. `redirect` is not followed, because a link to this
 * service could then lead to any page.
 */
function answer({ taken, faults }: Ingested, { fields }: CallContext): Answer {
  if (fields.get('img') === '1') return PIXEL
  const error = taken === 0 ? faults[0]?.reason : undefined
  if (fields.get('verbose') === '1') {
    return { body: JSON.stringify({ error: error ?? '', status: error === undefined ? 1 : 0 }) }
  }
  return error === undefined ? TAKEN : REFUSED
}

/** Mixpanel's own SDK sends a form, and expects the response of `/track`. Other clients send JSON, or JSON lines. */
function answerToImport(ingested: Ingested, request: CallContext): Answer {
  if (!/json/.test(request.header('content-type') ?? '')) return answer(ingested, request)
  // A record may have several faults, of its event and of its user.
  const first = new Map(ingested.faults.toReversed().map((fault) => [fault.index ?? 0, fault]))
  const failed = [...first.values()].reverse().map(({ index = 0, field = '', reason, text }) => {
    return { index, insert_id: insertIdIn(text), field: FIELDS[field] ?? field, message: reason }
  })
  const num_records_imported = countIn(request.json) - failed.length
  if (failed.length === 0) return { body: JSON.stringify({ code: 200, num_records_imported, status: 'OK' }) }
  const error = 'some data points in the request failed validation'
  return {
    status: 400,
    body: JSON.stringify({ code: 400, error, failed_records: failed, num_records_imported, status: 'Bad Request' }),
  }
}

/** Mixpanel's names of the fields of an event. */
const FIELDS: Record<string, string> = {
  distinct_id: 'properties.distinct_id',
  timestamp: 'properties.time',
  token: 'properties.token',
}

function countIn(json: JsonValue | null): number {
  return json?.isArray ? json.elements().length : Number(json !== null)
}

/** @param event the text of an invalid event */
function insertIdIn(event: string): unknown {
  try {
    return JSON.parse(event)?.properties?.$insert_id ?? ''
  } catch {
    return ''
  }
}

/** The SDKs of Mixpanel. */
export const mixpanel = vendorRoutes(protocol)
