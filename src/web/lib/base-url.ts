/** Where the page is, without a slash at its end, and so where the service is: a proxy may have both below a path. */
export const BASE_URL = new URL('.', location.href).href.slice(0, -1)
