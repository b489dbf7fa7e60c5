import type { PagePlace } from '../../../src/contract/page-fields.js'
import { REFERRERS } from '../../../src/contract/referrers.js'
import type { Fact } from './data.js'
import type { Value } from './json.js'

/** The page of an event, by the definitions of docs/questions.md; only the lists of names and hosts are the product's. */
export function pageField(name: string, fact: Fact): Value {
  const url = placed('url', fact)
  const host = url === null ? null : hostOf(url)
  const shortHost = withoutWww(host)
  const referring = withoutWww(hostOf(placed('referrer', fact)))
  const referrer = referring === shortHost ? null : referring
  switch (name) {
    case 'url':
      return url
    case 'host':
      return host
    case 'path':
      return url === null ? pathOf(placed('path', fact)) : pathOf(url)
    case 'title':
      return placed(name, fact)
    case 'medium':
    case 'campaign':
    case 'term':
    case 'content':
      return utm(name, fact)
    case 'referrer':
      return referrer
    case 'source':
      return utm('source', fact) ?? (referrer === null ? adOf(fact) : (known(referrer)?.name ?? referrer))
    case 'channel':
      return channelOf(fact, referrer)
    default:
      throw new Error(`no page field: ${name}`)
  }
}

export function isPageView({ event, isSession, project }: Fact): boolean {
  return !isSession && project.page_views.includes(event)
}

/** The first of the places with a text that is not empty. */
function placed(place: PagePlace, { properties, project }: Fact): string | null {
  for (const field of project.page_fields[place]) {
    const value = (typeof field === 'string' ? field.split('.') : field)
      .slice(1)
      .reduce<Value>((inner, one) => (inner instanceof Map ? (inner.get(one) ?? null) : null), properties)
    if (typeof value === 'string' && value !== '') return value
  }
  return null
}

/** A campaign parameter: from its own places, or else from the query of the page's URL. */
function utm(name: 'source' | 'medium' | 'campaign' | 'term' | 'content', fact: Fact): string | null {
  return placed(name, fact) ?? parameterOf(placed('url', fact) ?? '', `utm_${name}`)
}

/** The first of the parameters with this name that has a value. */
function parameterOf(url: string, name: string): string | null {
  const found = parametersOf(url).find((parameter) => parameter.startsWith(`${name}=`))
  return found ? decoded(found.slice(name.length + 1)) : null
}

/** The parameters that have a value. */
function parametersOf(url: string): string[] {
  const [beforeFragment = ''] = url.split('#')
  const [, ...query] = beforeFragment.split('?')
  return query
    .join('?')
    .split('&')
    .filter((parameter) => /^[^=]*=./s.test(parameter))
}

/** The site whose ad was clicked, by the parameter that it added to the page's URL. */
function adOf(fact: Fact): 'Google' | 'Bing' | null {
  for (const parameter of parametersOf(placed('url', fact) ?? '')) {
    if (/^(?:gclid|gbraid|wbraid)=/.test(parameter)) return 'Google'
    if (parameter.startsWith('msclkid=')) return 'Bing'
  }
  return null
}

/** Decodes text as forms encode it; anything that would not be UTF-8 stays as it is. */
function decoded(text: string): string {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  try {
    return text
      .split(/((?:%[0-9a-f]{2})+)/i)
      .map((part, i) =>
        i % 2 === 1 ? utf8.decode(Buffer.from(part.replaceAll('%', ''), 'hex')) : part.replaceAll('+', ' '),
      )
      .join('')
  } catch {
    return text
  }
}

/** The host of a URL in lower case, without user and port; null if it has none. */
function hostOf(url: string | null): string | null {
  const [, authority = ''] = /^(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?\/\/([^/?#\t]*)/.exec(url ?? '') ?? []
  const host = authority.replace(/^.*@/s, '').replace(/:[0-9]*$/, '')
  return host === '' ? null : host.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

function pathOf(url: string | null): string | null {
  if (url === null) return null
  const path = url.replace(/^(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?\/\/[^/?#]*/, '').replace(/[?#].*$/s, '')
  return path === '' ? '/' : path
}

function withoutWww(host: string | null): string | null {
  return host === null ? null : host.replace(/^www\./, '')
}

interface Site {
  kind: string
  name: string
}

/** A site by its host: the host itself, without `m.`, with any country's domain, or as a subdomain. */
function known(host: string): Site | null {
  const all = Object.entries(REFERRERS).flatMap(([kind, text]) =>
    text
      .trim()
      .replaceAll('\n  ', ' ')
      .split('\n')
      .map((line) => {
        const [name = '', hosts = ''] = line.split(': ')
        return { kind, name, hosts: hosts.split(' ') }
      }),
  )
  const find = (wanted: string) => all.find(({ hosts }) => hosts.includes(wanted))
  const desktop = host.replace(/^m\./, '')
  const ofCountry = desktop.replace(/\.(?:(?:com|org|net|co|it|edu)\.)?[a-z]{2}$/, '.{}')
  const inCountry = desktop.replace(/^[a-z]{2}\./, '{}.')
  const [domain = host] = /[^.]+\.(?:(?:com|org|net|co|it|edu)\.[a-z]{2}|[^.]+)$/.exec(host) ?? []
  return find(host) ?? find(desktop) ?? find(ofCountry) ?? find(inCountry) ?? find(`*.${domain}`) ?? null
}

/** The kind of a `utm_source` that is the name or host of a site. */
function sourceKind(source: string): string | null {
  const small = source.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
  for (const [kind, text] of Object.entries(REFERRERS)) {
    for (const line of text.trim().replaceAll('\n  ', ' ').split('\n')) {
      if (line.split(': ')[0]?.toLowerCase() === small) return kind
    }
  }
  return known(small.replace(/^www\./, ''))?.kind ?? null
}

function channelOf(fact: Fact, referrer: string | null): string | null {
  const lower = (text: string | null) => (text ?? '').replace(/[A-Z]/g, (letter) => letter.toLowerCase())
  const source = lower(utm('source', fact))
  const ad = adOf(fact)
  const given = lower(utm('medium', fact))
  const hasPage = (['url', 'path', 'title', 'referrer', 'campaign'] as const).some((place) => placed(place, fact))
  const kindOfSite = referrer === null ? (ad === null ? null : 'search') : (known(referrer)?.kind ?? null)
  const kind = source === '' ? kindOfSite : sourceKind(source)
  const medium = given === '' && ad !== null && (kind === 'search' || kind === 'video') ? 'cpc' : given
  if (source === '' && medium === '' && referrer === null) return hasPage || isPageView(fact) ? 'Direct' : null
  const isPaid = /cp|^ppc$|^retargeting$|^paid/.test(medium)
  if (isPaid && kind === 'search') return 'Paid Search'
  if (isPaid && kind === 'social') return 'Paid Social'
  if (isPaid && kind === 'video') return 'Paid Video'
  if (['display', 'banner', 'expandable', 'interstitial', 'cpm'].includes(medium)) return 'Display'
  if (isPaid) return 'Paid Other'
  const social = ['social', 'social-network', 'social-media', 'sm', 'social network', 'social media']
  if (kind === 'social' || social.includes(medium)) return 'Organic Social'
  if (kind === 'video' || medium.includes('video')) return 'Organic Video'
  const email = ['email', 'e-mail', 'e_mail', 'e mail', 'newsletter']
  if (kind === 'email' || email.includes(medium) || email.includes(source)) return 'Email'
  if (medium.startsWith('affiliate')) return 'Affiliates'
  if (kind === 'search' || medium === 'organic') return 'Organic Search'
  if (kind === 'ai') return 'AI Assistants'
  if (medium === 'audio') return 'Audio'
  if (medium === 'sms' || source === 'sms') return 'SMS'
  if (medium.endsWith('push') || medium.includes('mobile') || medium.includes('notification')) return 'Mobile Push'
  if (['referral', 'app', 'link'].includes(medium) || (medium === '' && source === '')) return 'Referral'
  return 'Unassigned'
}
