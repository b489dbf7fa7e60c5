/** An SDK, and what a team changes in its own code to send to this service. */
interface Line {
  sdk: string
  code(place: SdkTarget): string
}

/** Where an SDK is to send. */
export interface SdkTarget {
  /** of the service, without a slash at its end */
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
  lines: Line[]
  /** @param id of the event; its property `check` */
  request(place: SdkTarget, id: string): TestRequest
  /** whether the vendor's SDKs take this for a success */
  isTaken(status: number, body: string): boolean
}

/** Of the test event, and its user. */
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

/** By the name that the command takes. */
export const VENDORS: Record<string, VendorHelp> = {
  segment: {
    lines: [
      {
        sdk: '@segment/analytics-node 1 to 3',
        code: ({ url, key }) => `new Analytics({ writeKey: '${key}', host: '${url}', path: '/segment/v1/batch' })`,
      },
      {
        sdk: 'analytics-node 6',
        code: ({ url, key }) => `new Analytics('${key}', { host: '${url}', path: '/segment/v1/batch' })`,
      },
      {
        sdk: '@segment/analytics-next',
        code: ({ url, key }) => `AnalyticsBrowser.load({ writeKey: '${key}', cdnURL: '${url}/segment' })`,
      },
    ],
    request: ({ key }, id) => segmentBatch(key, id),
    isTaken: is2xx,
  },
  rudder: {
    lines: [
      {
        sdk: '@rudderstack/rudder-sdk-node',
        code: ({ url, key }) => `new Rudder('${key}', { dataPlaneUrl: '${url}', path: '/segment/v1/batch' })`,
      },
      {
        sdk: '@rudderstack/analytics-js',
        code: ({ url, key }) => `rudder.load('${key}', '${url}/segment', { configUrl: '${url}/segment' })`,
      },
    ],
    request: ({ key }, id) => segmentBatch(key, id),
    isTaken: is2xx,
  },
  jitsu: {
    lines: [
      { sdk: '@jitsu/js', code: ({ url, key }) => `jitsuAnalytics({ host: '${url}/jitsu', writeKey: 'x:${key}' })` },
    ],
    request: ({ key }, id) => ({
      path: '/jitsu/api/s/track',
      headers: { 'x-write-key': `x:${key}` },
      body: js({ type: 'track', messageId: id, userId: TEST_NAME, event: TEST_NAME, properties: { check: id } }),
    }),
    isTaken: is2xx,
  },
  posthog: {
    lines: [
      { sdk: 'posthog-node', code: ({ url, key }) => `new PostHog('${key}', { host: '${url}/posthog' })` },
      { sdk: 'posthog-js', code: ({ url, key }) => `posthog.init('${key}', { api_host: '${url}/posthog' })` },
    ],
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
    lines: [
      {
        sdk: 'mixpanel',
        code: ({ host, protocol, key }) =>
          `Mixpanel.init('${key}', { host: '${host}', path: '/mixpanel', protocol: '${protocol}' })`,
      },
      { sdk: 'mixpanel-browser', code: ({ url, key }) => `mixpanel.init('${key}', { api_host: '${url}/mixpanel' })` },
    ],
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
    lines: [
      {
        sdk: '@amplitude/analytics-node, @amplitude/node',
        code: ({ url, key }) => `amplitude.init('${key}', { serverUrl: '${url}/amplitude/2/httpapi' })`,
      },
      {
        // Without the others, it asks Amplitude for its settings with the key, and reports to Amplitude how it does.
        sdk: '@amplitude/analytics-browser',
        code: ({ url, key }) =>
          `amplitude.init('${key}', {\n  serverUrl: '${url}/amplitude/2/httpapi',\n` +
          '  fetchRemoteConfig: false,\n  remoteConfig: { fetchRemoteConfig: false },\n  enableDiagnostics: false,\n})',
      },
      {
        sdk: 'amplitude-js 8',
        code: ({ host, key }) => `amplitude.getInstance().init('${key}', null, { apiEndpoint: '${host}/amplitude' })`,
      },
    ],
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
    lines: [
      {
        sdk: '@openpanel/sdk, @openpanel/web',
        code: ({ url, key }) => `new OpenPanel({ clientId: '${key}', apiUrl: '${url}/openpanel' })`,
      },
    ],
    request: ({ key }, id) => ({
      path: '/openpanel/track',
      headers: { 'openpanel-client-id': key },
      body: js({ type: 'track', payload: { name: TEST_NAME, profileId: TEST_NAME, properties: { check: id } } }),
    }),
    isTaken: (status) => status === 200 || status === 202,
  },
}
