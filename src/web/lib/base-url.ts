/**
 * The URL of the page and of the service, without a trailing slash. It has a path if a proxy serves both under a
 * prefix.
 */
export const BASE_URL = new URL('.', location.href).href.slice(0, -1)
