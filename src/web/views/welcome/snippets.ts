/** A way to send a first event. */
export interface Snippet {
  title: string
  /** commands that install the package */
  install?: string
  /** `YOUR_WRITE_KEY` stands for the key */
  code: string
  /** the same from a web page */
  page?: string
  /** additional information */
  note?: string
}

/** Placeholder; real keys are never shown. */
const KEY = 'YOUR_WRITE_KEY'

/**
 * Code for sending a first event with Tallyhouse's clients and with other vendors' SDKs; docs/vendors has the
 * details.
 * @param base URL of the service, such as `https://events.example`
 */
export function buildSnippets(base: string): Snippet[] {
  const { host, origin, protocol, pathname } = new URL(base)
  const below = pathname === '/' ? '' : pathname
  return [
    {
      title: 'Website',
      code: `<script defer src="${base}/t.js" data-key="${KEY}"></script>`,
      note: "Put this line into every page, before </head>. From then on, page views and visits are recorded, with their sources. Events of your own: tallyhouse.track('signed up', { plan: 'pro' }).",
    },
    {
      title: 'curl',
      code: `curl ${base}/public/track \\
  -H 'content-type: application/json' \\
  -H 'x-api-key: ${KEY}' \\
  -d '{"event":"signed up","distinct_id":"ada","properties":{"plan":"pro"}}'`,
    },
    {
      title: 'Node',
      install: `curl -fO ${base}/packages/tallyhouse-client.tgz
npm install ./tallyhouse-client.tgz`,
      code: `import { Tallyhouse } from 'tallyhouse-client'

const tallyhouse = new Tallyhouse({ url: '${base}', secretKey: '${KEY}' })
await tallyhouse.track({ event: 'signed up', distinct_id: 'ada', properties: { plan: 'pro' } })
await tallyhouse.updateProfile('ada', { $set: { plan: 'pro' } })
await tallyhouse.close()`,
      note: 'To change a profile, use updateProfile with $set as here: identify replaces all properties.',
    },
    {
      title: 'Segment',
      install: 'npm install @segment/analytics-node',
      code: `import { Analytics } from '@segment/analytics-node'

const analytics = new Analytics({ writeKey: '${KEY}', host: '${origin}', path: '${below}/segment/v1/batch' })
analytics.track({ userId: 'ada', event: 'signed up', properties: { plan: 'pro' } })
await analytics.closeAndFlush()`,
      page: `AnalyticsBrowser.load({ writeKey: '${KEY}', cdnURL: '${base}/segment' })`,
    },
    {
      title: 'PostHog',
      install: 'npm install posthog-node',
      code: `import { PostHog } from 'posthog-node'

const posthog = new PostHog('${KEY}', { host: '${base}/posthog' })
posthog.capture({ distinctId: 'ada', event: 'signed up', properties: { plan: 'pro' } })
await posthog.shutdown()`,
      page: `posthog.init('${KEY}', { api_host: '${base}/posthog' })`,
    },
    {
      title: 'Mixpanel',
      install: 'npm install mixpanel',
      code: `import Mixpanel from 'mixpanel'

const mixpanel = Mixpanel.init('${KEY}', { host: '${host}', path: '${below}/mixpanel', protocol: '${protocol.slice(0, -1)}' })
mixpanel.track('signed up', { distinct_id: 'ada', plan: 'pro' })`,
      page: `mixpanel.init('${KEY}', { api_host: '${base}/mixpanel' })`,
    },
    {
      title: 'Amplitude',
      install: 'npm install @amplitude/analytics-node',
      code: `import * as amplitude from '@amplitude/analytics-node'

await amplitude.init('${KEY}', { serverUrl: '${base}/amplitude/2/httpapi' }).promise
await amplitude.track('signed up', { plan: 'pro' }, { user_id: 'ada' }).promise`,
      page: `amplitude.init('${KEY}', {
  serverUrl: '${base}/amplitude/2/httpapi',
  remoteConfig: { fetchRemoteConfig: false },
})`,
    },
  ]
}
