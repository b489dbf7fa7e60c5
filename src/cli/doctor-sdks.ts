/** The service that an SDK should send to. */
export interface SdkTarget {
  /** of the service, without a trailing slash */
  url: string
  /** as `url`, without the scheme */
  host: string
  /** `http` or `https` */
  protocol: string
  key: string
}

/** An event as one SDK of a vendor sends it. */
interface TestRequest {
  path: string
  headers?: Record<string, string>
  body: string
}

export interface VendorHelp {
  /** by SDK: the change in a team's code that makes it send to this service */
  sdks: Record<string, (place: SdkTarget) => string>
  /** @param id of the event; its property `check` */
  request(place: SdkTarget, id: string): TestRequest
  /** whether the vendor's SDKs treat this response as a success */
  isTaken(status: number, body: string): boolean
}

/** Name of the test event and of its user. */
export const TEST_NAME = 'tallyhouse doctor'

const is2xx = (status: number) => status >= 200 && status < 300
const js = (value: unknown) => JSON.stringify(value)

const segmentBatch = (key: string, id: string): TestRequest => ({
  path: '/segment/v1/batch',
  headers: { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` },
  body: js({
    batch: [{ type: 'track', messageId: id, userId: TEST_NAME, event: TEST_NAME, properties: { check: id } }],
  }),
})

/** Vendors by the name that the command takes. */
export const VENDORS: Record<string, VendorHelp> = {
  segment: {
    sdks: {
      '@segment/analytics-node 1 to 3': ({ url, key }) =>
        `new Analytics({ writeKey: '${key}', host: '${url}', path: '/segment/v1/batch' })`,
      'analytics-node 6': ({ url, key }) => `new Analytics('${key}', { host: '${url}', path: '/segment/v1/batch' })`,
      '@segment/analytics-next': ({ url, key }) =>
        `AnalyticsBrowser.load({ writeKey: '${key}', cdnURL: '${url}/segment' })`,
    },
    request: ({ key }, id) => segmentBatch(key, id),
    isTaken: is2xx,
  },
  rudder: {
    sdks: {
      '@rudderstack/rudder-sdk-node': ({ url, key }) =>
        `new Rudder('${key}', { dataPlaneUrl: '${url}', path: '/segment/v1/batch' })`,
      '@rudderstack/analytics-js': ({ url, key }) =>
        `rudder.load('${key}', '${url}/segment', { configUrl: '${url}/segment' })`,
    },
    request: ({ key }, id) => segmentBatch(key, id),
    isTaken: is2xx,
  },
  jitsu: {
    sdks: {
      '@jitsu/js': ({ url, key }) => `jitsuAnalytics({ host: '${url}/jitsu', writeKey: 'x:${key}' })`,
    },
    request: ({ key }, id) => ({
      path: '/jitsu/api/s/track',
      headers: { 'x-write-key': `x:${key}` },
      body: js({ type: 'track', messageId: id, userId: TEST_NAME, event: TEST_NAME, properties: { check: id } }),
    }),
    isTaken: is2xx,
  },
  posthog: {
    sdks: {
      'posthog-node': ({ url, key }) => `new PostHog('${key}', { host: '${url}/posthog' })`,
      'posthog-js': ({ url, key }) => `posthog.init('${key}', { api_host: '${url}/posthog' })`,
    },
    request: ({ key }, id) => ({
      path: '/posthog/batch/',
      body: js({
        api_key: key,
        batch: [{ event: TEST_NAME, uuid: id, distinct_id: TEST_NAME, properties: { check: id } }],
      }),
    }),
    isTaken: (status) => status === 200,
  },
  mixpanel: {
    sdks: {
      mixpanel: ({ host, protocol, key }) =>
        `Mixpanel.init('${key}', { host: '${host}', path: '/mixpanel', protocol: '${protocol}' })`,
      'mixpanel-browser': ({ url, key }) => `mixpanel.init('${key}', { api_host: '${url}/mixpanel' })`,
    },
    request: ({ key }, id) => ({
      path: '/mixpanel/track',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `data=${Buffer.from(
        js([{ event: TEST_NAME, properties: { token: key, distinct_id: TEST_NAME, $insert_id: id, check: id } }]),
      ).toString('base64')}`,
    }),
    isTaken: (_status, body) => body === '1',
  },
  amplitude: {
    sdks: {
      '@amplitude/analytics-node, @amplitude/node': ({ url, key }) =>
        `amplitude.init('${key}', { serverUrl: '${url}/amplitude/2/httpapi' })`,
      // Without the other options, the SDK fetches its settings from Amplitude with the key, and reports its own
      // health there.
      '@amplitude/analytics-browser': ({ url, key }) =>
        `amplitude.init('${key}', {\n  serverUrl: '${url}/amplitude/2/httpapi',\n` +
        '  fetchRemoteConfig: false,\n  remoteConfig: { fetchRemoteConfig: false },\n  enableDiagnostics: false,\n})',
      'amplitude-js 8': ({ host, key }) =>
        `amplitude.getInstance().init('${key}', null, { apiEndpoint: '${host}/amplitude' })`,
    },
    request: ({ key }, id) => ({
      path: '/amplitude/2/httpapi',
      body: js({
        api_key: key,
        events: [{ event_type: TEST_NAME, user_id: TEST_NAME, insert_id: id, event_properties: { check: id } }],
      }),
    }),
    isTaken: (status, body) => is2xx(status) && body.includes('"code":200'),
  },
  openpanel: {
    sdks: {
      '@openpanel/sdk, @openpanel/web': ({ url, key }) =>
        `new OpenPanel({ clientId: '${key}', apiUrl: '${url}/openpanel' })`,
    },
    request: ({ key }, id) => ({
      path: '/openpanel/track',
      headers: { 'openpanel-client-id': key },
      body: js({ type: 'track', payload: { name: TEST_NAME, profileId: TEST_NAME, properties: { check: id } } }),
    }),
    isTaken: (status) => status === 200 || status === 202,
  },
}
