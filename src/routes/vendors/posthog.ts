import { posthogMessages } from '../../vendors/posthog.js'
import type { Ingested } from './ingest.js'
import { type Answer, type CallContext, type SdkProtocol, vendorRoutes } from './protocol.js'

const TAKEN: Answer = { body: '{"status":1}' }
const NO_FLAGS = { flags: {}, featureFlags: {}, featureFlagPayloads: {}, errorsWhileComputingFlags: false }

/**
 * What posthog-js asks for at its start: nothing that this service does not have is to be loaded.
 * `surveys` is absent because posthog-js loads the script of surveys even if it is false, and a page
 * would then log two missing scripts, or violations of its Content-Security-Policy.
 */
const CONFIG = {
  supportedCompression: ['gzip', 'gzip-js'],
  hasFeatureFlags: false,
  autocapture_opt_out: false,
  sessionRecording: false,
  heatmaps: false,
  captureDeadClicks: false,
  capturePerformance: false,
  autocaptureExceptions: false,
  analytics: { endpoint: '/i/v0/e/' },
  defaultIdentifiedOnly: true,
  elementsChainAsString: true,
  siteApps: [],
}

const protocol: SdkProtocol = {
  prefix: '/posthog',
  keyPaths: [
    ['api_key'],
    ['token'],
    ['properties', 'token'],
    [0, 'properties', 'token'],
    ['batch', 0, 'properties', 'token'],
  ],
  calls: [
    {
      methods: ['POST'],
      paths: ['/batch', '/e', '/i/v0/e', '/capture', '/track', '/i/v0/ai/batch'],
      messages: posthogMessages,
      answer: () => TAKEN,
    },
    { methods: ['POST'], paths: ['/i/v1/analytics/events'], messages: posthogMessages, answer: results },
  ],
  stubs: [
    {
      method: 'GET',
      path: '/array/:key/config',
      answer: ({ params }) => ({ body: JSON.stringify({ token: params.key, ...CONFIG }) }),
    },
    { method: 'POST', path: '/flags', answer: () => ({ body: JSON.stringify(NO_FLAGS) }) },
    {
      method: 'POST',
      path: '/decide',
      answer: () => ({
        body: JSON.stringify({ ...NO_FLAGS, supportedCompression: ['gzip-js'], sessionRecording: false, config: {} }),
      }),
    },
    {
      method: 'GET',
      path: '/flags/definitions',
      answer: () => ({ body: '{"flags":[],"group_type_mapping":{},"cohorts":{}}' }),
    },
    // Recordings, logs and traces are not kept.
    ...['/s', '/i/v1/logs', '/i/v1/metrics', '/i/v1/traces'].map((path) => {
      return { method: 'POST' as const, path, answer: () => TAKEN }
    }),
  ],
  failure: ({ message, code }, isAdmitted) => ({
    // posthog-js drops what gets a 429. Who sends many wrong keys may drop it.
    ...(code === 'rate_limited' && isAdmitted && { status: 503 }),
    body: JSON.stringify({ type: 'error', code, detail: message, attr: null }),
  }),
}

/** The outcome of each event by its id; an id that is missing counts as taken. */
function results({ faults }: Ingested, { json }: CallContext): Answer {
  const found = new Map<string, { result: 'ok' } | { result: 'drop'; details: string }>()
  for (const event of json?.member('batch')?.elements() ?? []) {
    const uuid = event.member('uuid')?.value
    if (typeof uuid === 'string') found.set(uuid, { result: 'ok' })
  }
  for (const { insertId, reason } of faults) {
    if (insertId !== undefined) found.set(insertId, { result: 'drop', details: reason })
  }
  return { body: JSON.stringify({ results: Object.fromEntries(found) }) }
}

/** What the SDKs of PostHog send. */
export const posthog = vendorRoutes(protocol)
