import { segmentMessages } from '../../vendors/segment.js'
import { type Answer, PIXEL, type SdkProtocol, vendorRoutes } from './protocol.js'

const SUCCESS: Answer = { body: '{"success":true}' }
/** Types of messages by analytics.js's abbreviations. */
const TYPES: Record<string, string> = { t: 'track', i: 'identify', g: 'group', a: 'alias', p: 'page', s: 'screen' }

const protocol: SdkProtocol = {
  prefix: '/segment',
  keyPaths: [['writeKey'], ['batch', 0, 'writeKey']],
  calls: [
    {
      methods: ['POST'],
      paths: ['/v1/batch', '/v1/b', '/v1/import', '/beacon/v1/batch'],
      messages: (json, request) => segmentMessages(json, request),
      answer: () => SUCCESS,
    },
    {
      methods: ['POST'],
      paths: Object.entries(TYPES).flatMap(([letter, name]) => [`/v1/${letter}`, `/v1/${name}`]),
      messages: (json, request) => segmentMessages(json, request, parseType(request.path)),
      answer: () => SUCCESS,
    },
    {
      methods: ['GET'],
      paths: Object.values(TYPES).map((name) => `/v1/pixel/${name}`),
      messages: (json, request) => segmentMessages(json, request, parseType(request.path)),
      answer: () => PIXEL,
    },
  ],
  stubs: [
    {
      // Without these settings, analytics.js sends nothing.
      method: 'GET',
      path: '/v1/projects/:key/settings',
      answer: ({ params, host, protocol }) => ({
        body: JSON.stringify({
          integrations: { 'Segment.io': { apiKey: params.key, apiHost: `${host}/segment/v1`, protocol } },
        }),
      }),
    },
    {
      // Without these settings, RudderStack's browser SDK sends nothing.
      method: 'GET',
      path: '/sourceConfig',
      answer: () => ({
        body: '{"source":{"id":"s","config":{},"enabled":true,"workspaceId":"w","destinations":[]}}',
      }),
    },
  ],
  scripts: [
    {
      paths: ['/analytics.js/v1/:key/analytics.min.js', '/analytics.js/v1/:key/analytics.js'],
      package: '@segment/analytics-next',
      file: () => 'dist/umd/standalone.js',
    },
    {
      // Parts of the script that are loaded on demand.
      paths: ['/analytics-next/bundles/:name'],
      package: '@segment/analytics-next',
      file: ({ name = '' }) => (/^[\w-][\w.-]*\.js$/.test(name) ? `dist/umd/${name}` : null),
      isOptional: true,
    },
  ],
  failure: ({ message, code }) => ({ body: JSON.stringify({ success: false, message, code }) }),
}

function parseType(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return TYPES[name] ?? name
}

/** The SDKs of Segment and RudderStack. */
export const segment = vendorRoutes(protocol)

const jitsuProtocol: SdkProtocol = {
  ...protocol,
  prefix: '/jitsu',
  calls: ['/api/s', '/api/s/s2s'].map((folder) => ({
    methods: ['POST'],
    paths: Object.values(TYPES).map((name) => `${folder}/${name}`),
    messages: (json, request) => segmentMessages(json, request, parseType(request.path)),
    answer: () => ({ body: '{"ok":true}' }),
  })),
  stubs: [],
  scripts: [
    {
      paths: ['/p.js'],
      package: '@jitsu/js',
      file: () => 'dist/web/p.js.txt',
      // The script sends to the origin that it was loaded from, but without the path prefix of Jitsu's calls.
      adapt: (text) => text.replace(/new URL\((\w+)\.src\)\.origin/, 'new URL(".", $1.src).href.slice(0, -1)'),
    },
  ],
}

/** Jitsu's SDKs: they send Segment's messages to other paths. */
export const jitsu = vendorRoutes(jitsuProtocol)
