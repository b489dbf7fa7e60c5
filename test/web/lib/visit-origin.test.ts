import t from 'tap'
import { findVisitOrigin } from '../../../src/web/lib/visit-origin.js'

const view = (properties: Record<string, unknown>, event = '$pageview') => ({ event, timestamp: 0, properties })

t.test('the origin of a visit is that of its first page view', async (t) => {
  const later = view({ url: 'https://shop.example/later' })
  const first = view({ url: 'https://shop.example/first?x=1#y', referrer: 'https://www.google.com/search' })
  t.strictSame(findVisitOrigin([later, first, view({}, 'opened')]), { path: '/first', source: 'google.com' })
  t.equal(findVisitOrigin([view({ url: 'https://shop.example/' }, 'opened')]), null, 'no page view')
})

t.test('a campaign counts before the referrer, and the own site is no source', async (t) => {
  const url = 'https://shop.example/'
  const cases: [object, string | null][] = [
    [{ url, referrer: 'https://news.example/', utm_source: 'mail' }, 'mail'],
    [{ url, referrer: 'https://shop.example/other' }, null],
    [{ url, referrer: 'not a url' }, null],
    [{ $current_url: url, $referrer: '$direct' }, null],
    [{ context: { page: { url, referrer: 'https://news.example/' } } }, 'news.example'],
    [{ url, 'utm.source': 'dotted' }, 'dotted'],
    [{ url, utm_source: 5, campaign: null }, null],
  ]
  for (const [properties, source] of cases) {
    t.strictSame(findVisitOrigin([view({ ...properties })]), { path: '/', source }, JSON.stringify(properties))
  }
})
