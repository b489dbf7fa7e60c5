import type { Context } from '../../contract/context.js'
import { type Random, weighted } from './random.js'

/** A place where people live, and the languages of their browsers. */
interface Country {
  code: string
  /** hours from UTC, without daylight saving time */
  offset: number
  language: string
  cities: readonly (readonly [region: string, city: string])[]
}

type CountryRow = [weight: number, code: string, offset: number, language: string, cities: string]

/** Countries that the shop ships to, weighted by population in millions. Cities follow their region. */
const COUNTRY_ROWS: readonly CountryRow[] = [
  [
    340,
    'US',
    -6,
    'en-US',
    'California: Los Angeles, San Francisco; New York: New York; Texas: Austin; Illinois: Chicago',
  ],
  [212, 'BR', -3, 'pt-BR', 'São Paulo: São Paulo, Campinas; Rio de Janeiro: Rio de Janeiro'],
  [130, 'MX', -6, 'es-MX', 'Mexico City: Mexico City; Jalisco: Guadalajara'],
  [124, 'JP', 9, 'ja-JP', 'Tokyo: Tokyo; Osaka: Osaka; Kyoto: Kyoto'],
  [84, 'DE', 1, 'de-DE', 'Land Berlin: Berlin; Bavaria: Munich; Hamburg: Hamburg; Hesse: Frankfurt am Main'],
  [69, 'GB', 0, 'en-GB', 'England: London, Manchester, Bristol; Scotland: Edinburgh'],
  [68, 'FR', 1, 'fr-FR', 'Île-de-France: Paris; Auvergne-Rhône-Alpes: Lyon; Occitanie: Toulouse'],
  [59, 'IT', 1, 'it-IT', 'Lombardy: Milan; Lazio: Rome; Piedmont: Turin'],
  [49, 'ES', 1, 'es-ES', 'Madrid: Madrid; Catalonia: Barcelona; Andalusia: Seville'],
  [41, 'CA', -5, 'en-CA', 'Ontario: Toronto; Quebec: Montreal; British Columbia: Vancouver'],
  [37, 'PL', 1, 'pl-PL', 'Mazovia: Warsaw; Lesser Poland: Krakow'],
  [27, 'AU', 10, 'en-AU', 'New South Wales: Sydney; Victoria: Melbourne'],
  [18, 'NL', 1, 'nl-NL', 'North Holland: Amsterdam; Utrecht: Utrecht'],
  [12, 'BE', 1, 'nl-BE', 'Brussels Capital: Brussels; Flanders: Ghent'],
  [11, 'SE', 1, 'sv-SE', 'Stockholm: Stockholm; Västra Götaland: Gothenburg'],
  [11, 'PT', 0, 'pt-PT', 'Lisbon: Lisbon; Porto: Porto'],
  [9, 'AT', 1, 'de-AT', 'Vienna: Vienna; Styria: Graz; Tyrol: Innsbruck'],
  [9, 'CH', 1, 'de-CH', 'Zurich: Zurich; Bern: Bern; Geneva: Geneva'],
  [6, 'DK', 1, 'da-DK', 'Capital Region: Copenhagen'],
  [6, 'NO', 1, 'nb-NO', 'Oslo: Oslo'],
  [5, 'IE', 0, 'en-IE', 'Leinster: Dublin'],
  [5, 'NZ', 12, 'en-NZ', 'Auckland: Auckland'],
]

const COUNTRIES = weighted(
  COUNTRY_ROWS.map(([weight, code, offset, language, places]) => {
    const cities = places.split('; ').flatMap((place) => {
      const [region = '', names = ''] = place.split(': ')
      return names.split(', ').map((city) => [region, city] as const)
    })
    return [weight, { code, offset, language, cities } satisfies Country] as const
  }),
)

interface Machine {
  device: NonNullable<Context['device']>
  os: string
  /** newest first */
  osVersions: readonly string[]
  browser: string
  /** newest first */
  browserVersions: readonly string[]
}

const CHROME = ['146', '145', '144', '138', '109']
const SAFARI = ['26.1', '26', '18.6', '17.6', '16.6']
const IOS = ['26.1', '26', '18.7', '17.7', '16.7']
const MACOS = ['10.15']
const ANDROID = ['16', '15', '14', '13', '11']
const SAMSUNG = ['29', '28', '27']
const FIREFOX = ['147', '146', '140', '128']

const MACHINES = weighted<Machine>([
  [27, { device: 'mobile', os: 'iOS', osVersions: IOS, browser: 'Safari', browserVersions: SAFARI }],
  [4, { device: 'mobile', os: 'iOS', osVersions: IOS, browser: 'Chrome', browserVersions: CHROME }],
  [24, { device: 'mobile', os: 'Android', osVersions: ANDROID, browser: 'Chrome', browserVersions: CHROME }],
  [4, { device: 'mobile', os: 'Android', osVersions: ANDROID, browser: 'Samsung Internet', browserVersions: SAMSUNG }],
  [1, { device: 'mobile', os: 'Android', osVersions: ANDROID, browser: 'Firefox', browserVersions: FIREFOX }],
  [15, { device: 'desktop', os: 'Windows', osVersions: ['10', '11'], browser: 'Chrome', browserVersions: CHROME }],
  [6, { device: 'desktop', os: 'Windows', osVersions: ['10'], browser: 'Microsoft Edge', browserVersions: CHROME }],
  [2, { device: 'desktop', os: 'Windows', osVersions: ['10'], browser: 'Firefox', browserVersions: FIREFOX }],
  [6, { device: 'desktop', os: 'macOS', osVersions: MACOS, browser: 'Safari', browserVersions: SAFARI }],
  [4, { device: 'desktop', os: 'macOS', osVersions: MACOS, browser: 'Chrome', browserVersions: CHROME }],
  [2, { device: 'desktop', os: 'Linux', osVersions: [''], browser: 'Firefox', browserVersions: FIREFOX }],
  [4, { device: 'tablet', os: 'iOS', osVersions: IOS, browser: 'Safari', browserVersions: SAFARI }],
  [1, { device: 'tablet', os: 'Android', osVersions: ANDROID, browser: 'Chrome', browserVersions: CHROME }],
])

const BOTS = weighted<Context>([
  [5, { browser: 'Googlebot', device: 'other', country: 'US', region: 'California', city: 'Mountain View', bot: true }],
  [3, { browser: 'BingCrawler', device: 'other', country: 'US', region: 'Virginia', city: 'Boydton', bot: true }],
  [3, { browser: 'AmazonBot', device: 'other', country: 'US', bot: true }],
  [2, { browser: 'GPTBot', device: 'other', country: 'US', region: 'Iowa', city: 'Des Moines', bot: true }],
])

/** A visitor's browser and location. The context is what the service would derive from its requests. */
export interface Client {
  country: string
  device: string
  /** hours from UTC */
  offset: number
  context: Context
}

/** Makes the browser of a person. */
export function makeClient(random: Random): Client {
  const { code: country, offset, language, cities } = random.pick(COUNTRIES)
  const { device, os, osVersions, browser, browserVersions } = random.pick(MACHINES)
  const [region, city] = random.early(cities)
  const os_version = random.early(osVersions)
  const context: Context = {
    browser,
    browser_version: random.early(browserVersions),
    os,
    ...(os_version !== '' && { os_version }),
    ...{ device, country, region, city, language },
  }
  return { country, device, offset, context }
}

const FIRST_NAMES = ['Emma', 'Lucas', 'Sofia', 'Noah', 'Yuki', 'Anna', 'Mateo', 'Zoé', 'Oliver', 'Inês', 'Kai', 'Lena']
const LAST_NAMES = ['Smith', 'Silva', 'Tanaka', 'García', 'Müller', 'Rossi', 'Martin', 'Nowak', 'Jansen', 'Byrne']

/** Makes the name and the email address of a customer. @param id keeps addresses apart */
export function makeName(id: string, random: Random): { name: string; email: string } {
  const [first, last] = [random.early(FIRST_NAMES), random.early(LAST_NAMES)]
  const plain = `${first}.${last}`
    .normalize('NFD')
    .replaceAll(/\p{Mn}/gu, '')
    .toLowerCase()
  return { name: `${first} ${last}`, email: `${plain}.${id}@example.com` }
}

/** Makes the browser of a bot. */
export function makeBot(random: Random): Client {
  const context = random.pick(BOTS)
  return { country: context.country ?? '', device: context.device ?? '', offset: 0, context }
}

/** How a visitor came to the shop. */
export interface Source {
  /** the address of the page with the link; absent if they typed the address, or the link was in a mail */
  referrer?: string
  utm?: Utm
  /** the pages that it links to; the home page comes first */
  links: readonly string[]
  /** the share of its visits that see only one page */
  bounces: number
}

interface Utm {
  source: string
  medium: string
  /** `{month}` is replaced by the month of the visit */
  campaign?: string
  term?: string
  content?: string
}

const HOME = ['/']
const GUIDES = ['/', '/guides/espresso-at-home', '/guides/how-to-brew-green-tea', '/guides/which-grinder', '/products']
const OFFERS = ['/sale', '/products', '/']
const GOOGLE = 'https://www.google.com/'
const INSTAGRAM = 'https://l.instagram.com/'

const SOURCES = weighted<Source>([
  [27, { links: ['/', '/', '/products', '/sale'], bounces: 0.53 }],
  [26, { referrer: GOOGLE, links: GUIDES, bounces: 0.59 }],
  [3, { referrer: 'https://www.bing.com/', links: GUIDES, bounces: 0.58 }],
  [3, { referrer: 'https://duckduckgo.com/', links: GUIDES, bounces: 0.55 }],
  [1, { referrer: 'https://www.ecosia.org/', links: GUIDES, bounces: 0.54 }],
  [
    5,
    {
      referrer: GOOGLE,
      links: HOME,
      bounces: 0.44,
      utm: { source: 'google', medium: 'cpc', campaign: 'brand', term: 'kettle and cup' },
    },
  ],
  [
    4,
    {
      referrer: GOOGLE,
      links: ['/products/coffee'],
      bounces: 0.69,
      utm: { source: 'google', medium: 'cpc', campaign: 'beans', term: 'espresso beans' },
    },
  ],
  [6, { links: OFFERS, bounces: 0.41, utm: { source: 'newsletter', medium: 'email', campaign: '{month} news' } }],
  [
    4,
    {
      referrer: INSTAGRAM,
      links: OFFERS,
      bounces: 0.75,
      utm: { source: 'instagram', medium: 'paid_social', campaign: 'gifts', content: 'story' },
    },
  ],
  [3, { referrer: INSTAGRAM, links: HOME, bounces: 0.75 }],
  [3, { referrer: 'https://www.facebook.com/', links: OFFERS, bounces: 0.75 }],
  [2, { referrer: 'https://www.reddit.com/', links: GUIDES, bounces: 0.71 }],
  [2, { referrer: 'https://www.youtube.com/', links: GUIDES, bounces: 0.69 }],
  [
    3,
    {
      referrer: 'https://roastery.example/partners',
      links: ['/products/grinders', '/'],
      bounces: 0.5,
      utm: { source: 'partner', medium: 'affiliate', campaign: 'roastery' },
    },
  ],
  [3, { referrer: 'https://coffee-notes.example/best-beans', links: ['/products/coffee', '/'], bounces: 0.56 }],
  [2, { referrer: 'https://tea-table.example/', links: ['/products/tea', '/'], bounces: 0.56 }],
  [
    3,
    {
      referrer: 'https://chatgpt.com/',
      links: GUIDES,
      bounces: 0.47,
      utm: { source: 'chatgpt.com', medium: 'referral' },
    },
  ],
])

/** Sources of returning visitors. Customers get the newsletter. */
const RETURNS = weighted<Source>(
  SOURCES.choices.map((source, i) => {
    const isKnown = source.referrer === undefined || source.utm?.campaign === 'brand'
    return [((SOURCES.ends[i] ?? 0) - (SOURCES.ends[i - 1] ?? 0)) * (isKnown ? 4 : 1), source] as const
  }),
)

/** Picks the source of a visit. */
export function findSource(random: Random, isReturning: boolean): Source {
  return random.pick(isReturning ? RETURNS : SOURCES)
}

const MONTH = new Intl.DateTimeFormat('en', { month: 'long', timeZone: 'UTC' })

/** Formats a source's campaign as URL parameters. */
export function toUtmParameters({ utm }: Source, at: number): Record<string, string> {
  if (!utm) return {}
  const { campaign, ...others } = utm
  const all = { ...others, ...(campaign && { campaign: campaign.replace('{month}', MONTH.format(at).toLowerCase()) }) }
  const names = ['source', 'medium', 'campaign', 'term', 'content'] as const
  return Object.fromEntries(names.flatMap((name) => (all[name] ? [[`utm_${name}`, all[name]]] : [])))
}
