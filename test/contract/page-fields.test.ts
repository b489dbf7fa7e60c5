import t from 'tap'
import { PAGE_FIELDS } from '../../src/contract/page-fields.js'

/** Patterns of properties, in the order in which they count: Segment, PostHog, Mixpanel, Amplitude, OpenPanel. */
const VENDORS = [/^(\$segment\.)?context\./, /^\$/, /^(current_|utm\.)/, /^\[Amplitude\] /, /^__/]

t.test('the properties of our own clients count first, then those of other vendors', (t) => {
  for (const [place, [ours, ...others]] of Object.entries(PAGE_FIELDS)) {
    const vendors = others.map((name) =>
      VENDORS.findIndex((pattern) => pattern.test(String(name).slice('properties.'.length))),
    )
    t.match(ours, /^properties\.\w+$/, place)
    t.strictSame(
      vendors,
      [...vendors].sort((a, b) => a - b),
      place,
    )
    t.notOk(vendors.includes(-1), place)
  }
  const { url } = PAGE_FIELDS
  t.ok(
    url.indexOf('properties.[Amplitude] Page Location') < url.indexOf('properties.[Amplitude] Page URL'),
    'the query',
  )
  t.end()
})
