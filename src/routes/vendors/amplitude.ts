import {
  amplitudeGroupIdentifications,
  amplitudeIdentifications,
  amplitudeMessages,
  amplitudeUserMappings,
} from '../../vendors/amplitude.js'
import type { Ingested } from './ingest.js'
import { type Answer, type CallContext, type SdkProtocol, vendorRoutes } from './protocol.js'

const protocol: SdkProtocol = {
  prefix: '/amplitude',
  keyPaths: [['api_key']],
  calls: [
    {
      methods: ['POST'],
      // amplitude-js 8 sends to the address itself.
      paths: ['/', '/2/httpapi', '/batch'],
      messages: amplitudeMessages,
      answer,
      // amplitude-js 8 would resend a refused request forever, and nothing else.
      isAllOrNone: (request) => !isForm(request),
    },
    // The oldest HTTP API and its siblings take a form or a query.
    ...Object.entries({
      '/httpapi': amplitudeMessages,
      '/identify': amplitudeIdentifications,
      '/groupidentify': amplitudeGroupIdentifications,
      '/usermap': amplitudeUserMappings,
    }).map(([path, messages]) => ({
      methods: ['GET' as const, 'POST' as const],
      paths: [path],
      messages,
      answer: answerInWords,
    })),
  ],
  stubs: [],
  failure: ({ message, code, status }) =>
    code === 'unauthorized' || code === 'wrong_key_kind'
      ? // With any other response, the SDKs would resend the request several times.
        { status: 400, body: JSON.stringify({ code: 400, error: `Invalid API key: ${message}` }) }
      : { body: JSON.stringify({ code: status, error: message }) },
}

/** amplitude-js 8 sends a form; all others send JSON. */
function isForm({ fields }: CallContext): boolean {
  return fields.has('checksum') || fields.has('client')
}

/**
 * The SDKs use the code in the body, not the status. After a 400 that names events, they immediately resend the others,
 * so only the faults are stored in that case. A change that its profile refuses is found only after the events were
 * stored, so it is reported as accepted.
 */
function answer({ taken, faults }: Ingested, request: CallContext): Answer {
  if (isForm(request)) return { type: 'text/plain', body: 'success' }
  if (taken === 0 && faults.length > 0) return refusal(faults)
  const { length, receivedAt, json } = request
  const events = json?.member('events')?.elements() ?? []
  const refused = new Set(faults.map(({ index }) => index))
  return {
    body: JSON.stringify({
      code: 200,
      events_ingested: events.length - refused.size,
      payload_size_bytes: length,
      server_upload_time: receivedAt,
    }),
  }
}

/** Responds with the reason if nothing of the request could be stored, otherwise with a success. */
function answerInWords({ taken, faults }: Ingested): Answer {
  const [first] = faults
  if (taken === 0 && first) return { status: 400, type: 'text/plain; charset=utf-8', body: first.reason }
  return { type: 'text/plain', body: 'success' }
}

/** Amplitude's names of the fields of an event. */
const FIELDS: Record<string, string> = {
  event: 'event_type',
  distinct_id: 'user_id',
  timestamp: 'time',
  properties: 'event_properties',
}

/** Lists the indexes of the invalid events by the field that is missing or invalid. */
function refusal(faults: Ingested['faults']): Answer {
  const missing: Record<string, number[]> = {}
  const invalid: Record<string, number[]> = {}
  for (const { field = 'properties', isMissing, index = 0 } of faults) {
    const found = isMissing ? missing : invalid
    const name = FIELDS[field] ?? field
    found[name] ??= []
    found[name].push(index)
  }
  const body = {
    code: 400,
    error: faults[0]?.reason,
    events_with_invalid_fields: invalid,
    events_with_missing_fields: missing,
  }
  return { status: 400, body: JSON.stringify(body) }
}

/** The calls of Amplitude's SDKs. */
export const amplitude = vendorRoutes(protocol)
