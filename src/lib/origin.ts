/**
 * The host of a page: labels, with a final dot if the page was opened so, or IPv6. URL accepts more, such as a `*`, but
 * pages are only on hosts that can be looked up. It has put other scripts into their `xn--` form.
 */
const HOST = /^(?:[\w-]+(?:\.[\w-]+)*\.?|\[[\da-f:]+\])$/

/** The origin that browsers send for the pages of an address; null if a text is no address of a page. */
export function originOf(text: string): string | null {
  if (!URL.canParse(text)) return null
  const { protocol, hostname, origin } = new URL(text)
  return /^https?:$/.test(protocol) && HOST.test(hostname) ? origin : null
}

/** Whether a text is an origin exactly as browsers send it: any other would never match. */
export function isOrigin(text: string): boolean {
  return originOf(text) === text
}
