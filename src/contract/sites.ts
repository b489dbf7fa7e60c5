import { REFERRERS } from './referrers.js'

/** A table for ClickHouse's `transform`: two lists of the same length. */
interface Table {
  keys: string[]
  values: string[]
}

/** The sites that visitors come from. The value of a table is the kind and the name of a site, separated by a tab. */
interface Sites {
  /** by host, in which a country is `{}` */
  hosts: Table
  /** by domain, for all hosts below it */
  domains: Table
  /** by the name in lower case */
  names: Table
  /**
   * Regular expressions for hosts, which JavaScript and RE2 read alike: the `m.` of a mobile host; hosts that end or
   * begin with a country, with the rest as a group; and any host, with its domain as a group.
   */
  mobile: string
  ofCountry: string
  inCountry: string
  domain: string
}

/** What may be between a name and its country, as in `google.co.uk`. */
const SECOND_LEVEL = '(?:(?:com|org|net|co|it|edu)[.])'

export const SITES = readSites()

function readSites(): Sites {
  const [hosts, domains, names] = [new Map<string, string>(), new Map<string, string>(), new Map<string, string>()]
  for (const [kind, text] of Object.entries(REFERRERS)) {
    for (const line of text.trim().replaceAll('\n  ', ' ').split('\n')) {
      const [name = '', list = ''] = line.split(': ')
      const site = `${kind}\t${name}`
      add(names, name.toLowerCase(), site)
      for (const host of list.split(' ')) {
        if (host.startsWith('*.')) add(domains, host.slice(2), site)
        else add(hosts, host, site)
      }
    }
  }
  const all = [...hosts.keys()]
  const before = all.filter((host) => host.endsWith('.{}')).map((host) => host.slice(0, -3))
  const after = all.filter((host) => host.startsWith('{}.')).map((host) => host.slice(3))
  return {
    hosts: toTable(hosts),
    domains: toTable(domains),
    names: toTable(names),
    mobile: '^m[.]',
    ofCountry: `^(${joinTexts(before)})[.]${SECOND_LEVEL}?[a-z]{2}$`,
    inCountry: `^[a-z]{2}[.](${joinTexts(after)})$`,
    domain: `^[^\t]*?([^.\t]+[.](?:${SECOND_LEVEL}[a-z]{2}|[^.\t]+))$`,
  }
}

/** Finds the name of the site with a host without `www.`; null if the site is not known. */
export function findSiteName(host: string): string | null {
  const general = host
    .replace(new RegExp(SITES.mobile), '')
    .replace(new RegExp(SITES.ofCountry), '$1.{}')
    .replace(new RegExp(SITES.inCountry), '{}.$1')
  const domain = general.replace(new RegExp(SITES.domain), '$1')
  const site = find(SITES.hosts, host) ?? find(SITES.hosts, general) ?? find(SITES.domains, domain)
  return site?.replace(/^.*\t/, '') ?? null
}

function find({ keys, values }: Table, key: string): string | undefined {
  return values[keys.indexOf(key)]
}

function add(sites: Map<string, string>, key: string, site: string): void {
  if (!sites.has(key)) sites.set(key, site)
}

function toTable(sites: Map<string, string>): Table {
  return { keys: [...sites.keys()], values: [...sites.values()] }
}

function joinTexts(texts: string[]): string {
  return texts.map((text) => text.replaceAll('.', '[.]')).join('|')
}
