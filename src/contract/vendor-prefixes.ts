/** The path prefix of the calls that a vendor's SDKs make, by the vendor's name in settings and commands. */
export const VENDOR_PREFIXES = {
  segment: '/segment',
  rudder: '/segment',
  jitsu: '/jitsu',
  posthog: '/posthog',
  mixpanel: '/mixpanel',
  amplitude: '/amplitude',
  openpanel: '/openpanel',
} as const

export type VendorPrefix = (typeof VENDOR_PREFIXES)[keyof typeof VENDOR_PREFIXES]
