import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { DEFAULT_SETTINGS } from '../../../src/contract/project-settings.js'
import { setProjectSettings } from '../../../src/web/lib/project-settings.js'
import { findVisitOrigin } from '../../../src/web/lib/visit-origin.js'
import { REFERRERS, URLS } from '../../questions/generate/pools.js'
import { worldOf } from '../../questions/reference/data.js'
import { pageField } from '../../questions/reference/pages.js'

const view = (properties: Record<string, unknown>, event = '$pageview') => ({ event, timestamp: 0, properties })

t.test('the origin of a visit is that of its first page view', async (t) => {
  const later = view({ url: 'https://shop.example/later' })
  const first = view({ url: 'https://shop.example/first?x=1#y', referrer: 'https://www.google.com/search' })
  t.strictSame(findVisitOrigin([later, first, view({}, 'opened')]), { path: '/first', source: 'Google' })
  t.equal(findVisitOrigin([view({ url: 'https://shop.example/' }, 'opened')]), null, 'no page view')
})

t.test('a campaign counts before the referrer, and the site itself is no source', async (t) => {
  const url = 'https://shop.example/'
  const cases: [object, string | null][] = [
    [{ url, referrer: 'https://news.example/', utm_source: 'mail' }, 'mail'],
    [{ url, referrer: 'https://shop.example/other' }, null],
    [{ url, referrer: 'https://www.shop.example/' }, null],
    [{ url, referrer: 'http://shop.example:8080/' }, null],
    [{ url: 'https://www.shop.example/', referrer: 'https://shop.example/' }, null],
    [{ url, referrer: 'android-app://com.google.android.gm/' }, 'Gmail'],
    [{ url, referrer: 'not a url' }, null],
    [{ $current_url: url, $referrer: '$direct' }, null],
    [{ context: { page: { url, referrer: 'https://news.example/' } } }, 'news.example'],
    [{ url, utm: { source: 'within' } }, 'within'],
    [{ url, 'utm.source': 'no path' }, null],
    [{ url: `${url}?utm_source=&utm_source=News+letter#?utm_source=x` }, 'News letter'],
    [{ url: '/?utm_source=relative' }, 'relative'],
    [{ url: '/?a=b&gclid=&msclkid=x&gclid=y' }, 'Bing'],
    [{ url: '/?%67clid=x&utm%5Fsource=y' }, null],
    [{ url: `${url}?gbraid=x`, referrer: 'https://news.example/' }, 'news.example'],
    [{ url: `${url}?toString=x#?gclid=y` }, null],
    [{ url, utm_source: 5, campaign: null }, null],
  ]
  for (const [properties, source] of cases) {
    t.strictSame(findVisitOrigin([view({ ...properties })]), { path: '/', source }, JSON.stringify(properties))
  }
})

t.test('the origin of a visit is what questions have as its page.path and page.source', async () => {
  const one = (texts: string[]) => fc.option(fc.constantFrom(...texts), { nil: undefined })
  const hosts = [
    'google.de',
    'm.google.co.uk',
    'de.search.yahoo.com',
    'a.wikipedia.org',
    'x.youtube.com:80',
    'unknown.at',
  ]
  const referrers = [...REFERRERS, ...hosts.map((host) => JSON.stringify(`https://www.${host}/x`))]
  const members = fc.record({
    url: one(URLS),
    path: one(['"/plain?x=1"', '"Home"', '""']),
    referrer: one(referrers),
    utm_source: one(['"google"', '""', '5']),
  })
  fc.assert(
    fc.property(members, (found) => {
      const texts = Object.entries(found).flatMap(([name, text]) => (text === undefined ? [] : [`"${name}":${text}`]))
      const properties = `{${texts.join()}}`
      const sent = { eventId: '', event: '$pageview', distinct_id: 'ada', timestamp: 0, properties }
      const [fact] = worldOf({ events: [sent], aliases: new Map(), profiles: new Map() }).facts
      if (!fact) throw new Error('no fact')
      const expected = { path: pageField('path', fact) ?? '', source: pageField('source', fact) }
      return isDeepStrictEqual(findVisitOrigin([view(JSON.parse(properties))]), expected)
    }),
    { numRuns: 500 },
  )
})

t.test('the project defines page views and the sources of their fields', async (t) => {
  t.teardown(() => setProjectSettings(DEFAULT_SETTINGS))
  const page_fields = { ...DEFAULT_SETTINGS.page_fields, url: ['properties.where.at'], source: [['properties', 'a.b']] }
  setProjectSettings({ ...DEFAULT_SETTINGS, page_views: ['opened'], page_fields })
  const opened = view(
    { where: { at: 'https://shop.example/x' }, 'a.b': 'ours', url: 'https://other.example/y' },
    'opened',
  )
  t.strictSame(findVisitOrigin([opened]), { path: '/x', source: 'ours' })
  t.equal(findVisitOrigin([view({ url: 'https://shop.example/' })]), null)
})
