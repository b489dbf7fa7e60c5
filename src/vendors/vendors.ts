import { amplitude } from './amplitude.js'
import { ga4 } from './ga4.js'
import { matomo } from './matomo.js'
import { mixpanel } from './mixpanel.js'
import { plausible } from './plausible.js'
import { posthog } from './posthog.js'
import { segment } from './segment.js'
import { umami } from './umami.js'

/** The products whose exports `tallyhouse import --from` reads. */
export const VENDORS = { mixpanel, amplitude, posthog, segment, ga4, matomo, umami, plausible }
export type VendorName = keyof typeof VENDORS
