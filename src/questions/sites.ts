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
  /** regular expressions for what comes before and after a country */
  before: string
  after: string
}

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
  return {
    hosts: toTable(hosts),
    domains: toTable(domains),
    names: toTable(names),
    before: joinTexts(all.filter((host) => host.endsWith('.{}')).map((host) => host.slice(0, -3))),
    after: joinTexts(all.filter((host) => host.startsWith('{}.')).map((host) => host.slice(3))),
  }
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
