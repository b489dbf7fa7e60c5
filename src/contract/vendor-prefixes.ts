/** Below which path the SDKs of a vendor send, by the name that settings and commands have for the vendor. */
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
