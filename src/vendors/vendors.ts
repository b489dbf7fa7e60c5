import { amplitude } from './amplitude.js'
import { mixpanel } from './mixpanel.js'
import { posthog } from './posthog.js'
import { segment } from './segment.js'

/** The products whose exports `tallyhouse import --from` reads. */
export const VENDORS = { mixpanel, amplitude, posthog, segment }
export type VendorName = keyof typeof VENDORS
