/** The line that records a website's page views and visits. @param base URL of the service @param key a write key */
export function scriptLine(base: string, key: string): string {
  return `<script defer src="${base}/t.js" data-key="${key}"></script>`
}
