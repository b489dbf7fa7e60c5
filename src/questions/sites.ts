import { REFERRERS } from './referrers.js'

/**
 * The sites that visitors come from, as two lists for ClickHouse's `transform`: a host as in `referrers.ts`, or `=` and
 * a name in lower case, and the kind and name of the site, separated by a tab.
 */
export const SITES = listSites()

function listSites(): { hosts: string[]; sites: string[] } {
  const byHost = new Map<string, string>()
  for (const [kind, text] of Object.entries(REFERRERS)) {
    for (const line of text.trim().replaceAll('\n  ', ' ').split('\n')) {
      const [name = '', hosts = ''] = line.split(': ')
      for (const key of [`=${name.toLowerCase()}`, ...hosts.split(' ')]) {
        if (!byHost.has(key)) byHost.set(key, `${kind}\t${name}`)
      }
    }
  }
  return { hosts: [...byHost.keys()], sites: [...byHost.values()] }
}
