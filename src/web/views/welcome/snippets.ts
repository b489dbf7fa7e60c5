import { scriptLine } from '../../lib/script-line.js'

/** A way to send a first event. */
export interface Snippet {
  title: string
  /** commands that install the package */
  install?: string
  code: string
  /** what else to try, and its code */
  more?: [hint: string, code: string]
  /** additional information */
  note?: string
}

/** Stands for the write key. */
export const PLACEHOLDER = 'YOUR_WRITE_KEY'

/**
 * Code for sending a first event with Tallyhouse's clients and with other vendors' SDKs; docs/vendors has the
 * details.
 * @param base URL of the service, such as `https://events.example`
 * @param key the write key that the code uses
 */
export function buildSnippets(base: string, key = PLACEHOLDER): Snippet[] {
  const { host, origin, protocol, pathname } = new URL(base)
  const below = pathname === '/' ? '' : pathname
  return [
    {
      title: 'Website',
      code: scriptLine(base, key),
      note: 'Put this line into every page, before </head>. It records page views and visits, and where they come from.',
      more: ['Your own events, in the code of a page:', `tallyhouse.track('signed up', { plan: 'pro' })`],
    },
    {
      title: 'curl',
      code: `curl ${base}/public/track \\
  -H 'content-type: application/json' \\
  -H 'x-api-key: ${key}' \\
  -d '{"event":"signed up","distinct_id":"ada","properties":{"plan":"pro"}}'`,
    },
    {
      title: 'Node',
      install: `curl -fO ${base}/packages/tallyhouse-client.tgz
npm install ./tallyhouse-client.tgz`,
      code: `import { Tallyhouse } from 'tallyhouse-client'

const tallyhouse = new Tallyhouse({ url: '${base}', secretKey: '${key}' })
await tallyhouse.track({ event: 'signed up', distinct_id: 'ada', properties: { plan: 'pro' } })
await tallyhouse.updateProfile('ada', { $set: { plan: 'pro' } })
await tallyhouse.close()`,
      note: 'To change a profile, use updateProfile with $set as here: identify replaces all properties.',
    },
    {
      title: 'Segment',
      install: 'npm install @segment/analytics-node',
      code: `import { Analytics } from '@segment/analytics-node'

const analytics = new Analytics({ writeKey: '${key}', host: '${origin}', path: '${below}/segment/v1/batch' })
analytics.track({ userId: 'ada', event: 'signed up', properties: { plan: 'pro' } })
await analytics.closeAndFlush()`,
      more: ['Or from a web page:', `AnalyticsBrowser.load({ writeKey: '${key}', cdnURL: '${base}/segment' })`],
    },
    {
      title: 'PostHog',
      install: 'npm install posthog-node',
      code: `import { PostHog } from 'posthog-node'

const posthog = new PostHog('${key}', { host: '${base}/posthog' })
posthog.capture({ distinctId: 'ada', event: 'signed up', properties: { plan: 'pro' } })
await posthog.shutdown()`,
      more: ['Or from a web page:', `posthog.init('${key}', { api_host: '${base}/posthog' })`],
    },
    {
      title: 'Mixpanel',
      install: 'npm install mixpanel',
      code: `import Mixpanel from 'mixpanel'

const mixpanel = Mixpanel.init('${key}', { host: '${host}', path: '${below}/mixpanel', protocol: '${protocol.slice(0, -1)}' })
mixpanel.track('signed up', { distinct_id: 'ada', plan: 'pro' })`,
      more: ['Or from a web page:', `mixpanel.init('${key}', { api_host: '${base}/mixpanel' })`],
    },
    {
      title: 'Amplitude',
      install: 'npm install @amplitude/analytics-node',
      code: `import * as amplitude from '@amplitude/analytics-node'

await amplitude.init('${key}', { serverUrl: '${base}/amplitude/2/httpapi' }).promise
await amplitude.track('signed up', { plan: 'pro' }, { user_id: 'ada' }).promise`,
      more: [
        'Or from a web page:',
        `amplitude.init('${key}', {
  serverUrl: '${base}/amplitude/2/httpapi',
  remoteConfig: { fetchRemoteConfig: false },
})`,
      ],
    },
  ]
}
