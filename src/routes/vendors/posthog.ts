import { mixpanelUpdates } from '../../vendors/mixpanel.js'
import { posthogMessages } from '../../vendors/posthog.js'
import type { Ingested } from './ingest.js'
import { type Answer, type CallContext, type SdkProtocol, vendorRoutes } from './protocol.js'
import type { SdkScript } from './scripts.js'

const TAKEN: Answer = { body: '{"status":1}' }
const NO_FLAGS = { flags: {}, featureFlags: {}, featureFlagPayloads: {}, errorsWhileComputingFlags: false }

/**
 * The configuration that posthog-js requests at its start, which disables everything that this service does not have.
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

const NO_DEFINITIONS = { flags: [], group_type_mapping: {}, cohorts: {} }

/** Features that the SDKs look up and this service does not have, by path. */
const EMPTY_LISTS = {
  '/flags/definitions': NO_DEFINITIONS,
  '/api/feature_flag/local_evaluation': NO_DEFINITIONS,
  '/api/surveys': { surveys: [], survey_config: null },
  '/api/early_access_features': { earlyAccessFeatures: [] },
  '/api/web_experiments': { experiments: [] },
  '/api/product_tours': { product_tours: [] },
}

/** Includes recorders, surveys and so on, which posthog-js loads only if its page asks for them. */
const SCRIPT_NAME = /^[a-z][\w.-]*\.js$/i

const scripts: SdkScript[] = [
  {
    paths: ['/static/array.js', '/static/:version/array.js', '/array/:key/array.js'],
    package: 'posthog-js',
    file: () => 'dist/array.js',
  },
  {
    paths: ['/static/:name', '/static/:version/:name'],
    package: 'posthog-js',
    file: ({ name = '' }) => (SCRIPT_NAME.test(name) ? `dist/${name}` : null),
    isOptional: true,
  },
]

const protocol: SdkProtocol = {
  prefix: '/posthog',
  keyPaths: [
    ['api_key'],
    ['token'],
    ['properties', 'token'],
    [0, 'properties', 'token'],
    ['batch', 0, 'properties', 'token'],
    ['$token'],
    [0, '$token'],
  ],
  calls: [
    {
      methods: ['POST'],
      paths: ['/batch', '/e', '/i/v0/e', '/capture', '/track', '/i/v0/ai/batch'],
      messages: posthogMessages,
      answer: () => TAKEN,
    },
    // posthog-js up to 1.70 changes profiles like the Mixpanel SDK that it was derived from.
    { methods: ['GET', 'POST'], paths: ['/engage'], messages: mixpanelUpdates, answer: () => TAKEN },
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
      path: '/array/:key/config.js',
      answer: ({ params: { key = '' } }) => ({ type: 'text/javascript; charset=utf-8', body: configScript(key) }),
    },
    ...Object.entries(EMPTY_LISTS).map(([path, body]) => {
      return { method: 'GET' as const, path, answer: () => ({ body: JSON.stringify(body) }) }
    }),
    // Recordings, logs and traces are not stored.
    ...['/s', '/i/v1/logs', '/i/v1/metrics', '/i/v1/traces'].map((path) => {
      return { method: 'POST' as const, path, answer: () => TAKEN }
    }),
  ],
  scripts,
  failure: ({ message, code, limit }) => ({
    // posthog-js drops requests that get a 429, which is fine for a client that sends many wrong keys.
    ...(code === 'rate_limited' && limit !== 'wrong_keys' && { status: 503 }),
    body: JSON.stringify({ type: 'error', code, detail: message, attr: null }),
  }),
}

/** The settings of a project for posthog-js, as a script that it loads first. */
function configScript(key: string): string {
  const [name, config] = [key, { token: key, ...CONFIG }].map((value) => JSON.stringify(value))
  return `(window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {})[${name}] = { config: ${config}, siteApps: [] };\n`
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

/** The SDKs of PostHog. */
export const posthog = vendorRoutes(protocol)
