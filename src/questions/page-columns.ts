import { splitField } from '../contract/filters.js'
import { AD_CLICKS, type PageName, type PagePlace } from '../contract/page-fields.js'
import { SITES } from '../contract/sites.js'
import { FirstTexts } from '../store/first-texts.js'
import { emptyToUnset, failIf, repairText, unmarkHalves } from '../store/json-sql.js'
import { CHANNELS, MEDIUM_CLASSES, MEDIUM_PATTERNS, SOURCE_CLASSES } from './channels.js'
import type { KeptValues } from './property-paths.js'
import type { Statement } from './statement.js'

/** SQL for whether a row is a page view, from its column `event`. */
export function isPageView(statement: Statement): string {
  return `event IN ${statement.texts(statement.context.pages.page_views)}`
}

/**
 * The places that a text is looked for. `location` is `url`, and then `path`: as one text, it can be a column of facts
 * that ClickHouse parses once for each distinct text.
 */
type Place = PagePlace | 'location'

/** The places that each field of a page is read from. */
const PLACES_OF: Record<PageName, readonly Place[]> = {
  url: ['url'],
  host: ['url'],
  path: ['location'],
  title: ['title'],
  referrer: ['url', 'referrer'],
  source: ['url', 'referrer', 'source'],
  medium: ['url', 'medium'],
  campaign: ['url', 'campaign'],
  term: ['url', 'term'],
  content: ['url', 'content'],
  channel: ['url', 'path', 'title', 'referrer', 'source', 'medium', 'campaign'],
}
/** The places that the channel of a page view is read from: the others only show that an event has a page. */
const PLACES_OF_PAGE_VIEW: readonly Place[] = ['url', 'referrer', 'source', 'medium']

/** Fields whose texts are columns with a dictionary. */
const DICTIONARIES: readonly PageName[] = ['host', 'path', 'referrer']

/** Fields that may also be in the query of a page's URL, as `utm_source` and so on. */
const PARAMETERS = ['source', 'medium', 'campaign', 'term', 'content'] as const satisfies PagePlace[]
type Parameter = (typeof PARAMETERS)[number]

/** For each parameter that ads add, a host of the ad's site, as in `SITES`. */
const AD_HOSTS = {
  keys: Object.keys(AD_CLICKS),
  values: Object.values(AD_CLICKS).map((name) => `${name.toLowerCase()}.com`),
}

/**
 * Columns with the fields of the page of an event. The texts of all places are found with one pass of the parser over
 * the properties, unless facts have columns with them. Values derived from a text are computed once per block for each
 * distinct text (LowCardinality).
 */
export class PageColumns {
  readonly #statement: Statement
  readonly #ofPageViews: boolean
  readonly #names = new Set<PageName>()

  /** @param options `ofPageViews`: whether all rows with properties are page views */
  constructor(statement: Statement, { ofPageViews = false } = {}) {
    this.#statement = statement
    this.#ofPageViews = ofPageViews
  }

  get isEmpty(): boolean {
    return this.#names.size === 0
  }

  /** The column with the token of a field. */
  column(name: PageName): string {
    this.#names.add(name)
    return `page_${name}`
  }

  /** Whether facts lack a column for any text that the fields are computed from. */
  needsProperties(kept: KeptValues | null): boolean {
    // Do not stop at the first missing column: each one has to be requested.
    return this.#places()
      .map((place) => this.#findColumn(place, kept))
      .includes(null)
  }

  /** Columns of events or facts from which `select` makes the others. */
  raws(kept: KeptValues | null): string[] {
    const places = this.#places()
    const columns = new Map(places.map((place) => [place, this.#findColumn(place, kept)]))
    const others = this.#findTexts(places.filter((place) => columns.get(place) === null))
    const same = this.#findTexts(places.filter((place) => columns.get(place) !== null))
    const given = [...same.find(same.parse('properties'), 'properties')].map(([place, found]) => {
      const text = kept?.isThere
        ? columns.get(place as Place)
        : `toLowCardinality(${same.check(place, found, 'properties')})`
      return `${text} AS text_${place}`
    })
    return others.isEmpty ? given : [...given, `${others.parse('properties')} AS page_raw`]
  }

  /**
   * Operand of FROM. Columns build upon each other in several steps, because ClickHouse would analyze an expression
   * again for each use.
   * @param rows with `properties` and the columns of `raws`. If those come from `kept` and texts are not repaired, the
   *   parser must accept all of them
   * @param options `isPage`: SQL for whether a row is a page view
   */
  select(
    rows: string,
    { isPage = isPageView(this.#statement), kept = null }: { isPage?: string; kept?: KeptValues | null } = {},
  ): string {
    if (this.isEmpty) return rows
    const steps = [
      ...this.#selectTexts(kept),
      this.#selectHosts(),
      [...this.#selectParameters(), ...this.#selectReferrer()],
      ...this.#selectSites(),
      this.#computeTexts(isPage),
      this.#tokens(),
    ]
    return steps
      .filter((columns) => columns.length > 0)
      .reduce((from, columns) => `(SELECT *, ${columns.join(', ')} FROM ${from})`, rows)
  }

  #findTexts(places: readonly Place[]): FirstTexts {
    const lists = new Map(places.map((place) => [place, listPaths(this.#statement, place)]))
    return new FirstTexts(lists, (text) => this.#statement.text(text))
  }

  /** The text of each place without a column in facts; empty if there is no text. */
  #selectTexts(kept: KeptValues | null): string[][] {
    const places = this.#places().filter((place) => this.#findColumn(place, kept) === null)
    if (places.length === 0) return []
    const texts = this.#findTexts(places)
    const find = (raw: string, json: string, name: string) =>
      [...texts.find(raw, json)].map(([place, found]) => `${found} AS ${name}_${place}`)
    const check = (json: string) =>
      places.map((place) => `${texts.check(place, `found_${place}`, json)} AS text_${place}`)
    const { repairsTexts } = this.#statement.context
    if (kept && !repairsTexts) return [find('page_raw', 'properties', 'found'), check('properties')]
    const hasNone = places.map((place) => `first_${place} = ''`).join(' AND ')
    const isRefused = `${hasNone} AND properties != '{}' AND NOT isValidJSON(properties)`
    if (!repairsTexts) {
      const refused = `${failIf(isRefused)} AS page_refused`
      // Every column depends on the check, so the check always runs, and runs first.
      const checked = places.map((place) => `if(page_refused, '', first_${place}) AS found_${place}`)
      return [find('page_raw', 'properties', 'first'), [refused], checked, check('properties')]
    }
    return [
      find('page_raw', 'properties', 'first'),
      [`if(${isRefused}, ${repairText('properties')}, properties) AS page_json`],
      [`${texts.parse('page_json')} AS page_read`],
      find('page_read', 'page_json', 'found'),
      check('page_json'),
    ]
  }

  /** The page's host, the referrer's host, the path, the parameters in the page's URL, and the one that an ad added. */
  #selectHosts(): string[] {
    const places = this.#places().filter((place) => place === 'url' || place === 'referrer')
    const hosts = places.map((place) => `${computeHost(`text_${place}`)} AS host_${place}`)
    const path = computePath('text_location')
    return [
      ...hosts,
      ...(this.#names.has('path') ? [`${path} AS path`] : []),
      ...this.#parameters().map((place) => `${findParameter('text_url', `utm_${place}`)} AS given_${place}`),
      ...(this.#hasSource ? [`${findAdClick('text_url')} AS ad_click`] : []),
    ]
  }

  /** The campaign parameters: from their properties, or else from the URL. */
  #selectParameters(): string[] {
    return this.#parameters().map((place) => {
      const decoded = `decodeURLFormComponent(given_${place})`
      return `multiIf(text_${place} != '', text_${place}, isValidUTF8(${decoded}), ${decoded}, given_${place}) AS utm_${place}`
    })
  }

  /**
   * The host that the visitor came from, empty if it is the host of the page; and the host of the ad that they clicked
   * on.
   */
  #selectReferrer(): string[] {
    if (!this.#places().includes('referrer')) return []
    const [own, other] = ['host_url', 'host_referrer'].map(withoutWww)
    const referrer = `${toDictionary(`if(${other} = ${own}, '', ${other})`)} AS referrer`
    return this.#hasSource ? [referrer, `${this.#find('ad_click', AD_HOSTS)} AS ad_host`] : [referrer]
  }

  /**
   * The name of the site that the visitor came from, and the kind of site that determines the channel: the kind of the
   * source, or else of that site.
   */
  #selectSites(): string[][] {
    if (!this.#hasSource) return []
    // An `if` would evaluate `ad_host` for each row, and not for each value in its dictionary.
    const cameFrom = `extract(${toDictionary(`concat(referrer, '\t', ad_host)`)}, '^\t?([^\t]+)') AS came_from`
    const name = this.#names.has('source') ? this.#findSites('came_from', `extract(site, '\t(.*)$') AS site_name`) : []
    if (!this.#names.has('channel')) return [[cameFrom], ...name]
    return [
      [
        cameFrom,
        ...['source', 'medium'].map((place) => {
          // A tab marks a result, so the text must not contain one.
          return `${toDictionary(`replaceAll(lower(utm_${place}), '\t', ' ')`)} AS small_${place}`
        }),
      ],
      ...name,
      [`${this.#find('small_source', SITES.names)} AS named_source`],
      [`${toDictionary(`if(small_source = '', came_from, ${withoutWww('named_source')})`)} AS origin`],
      ...this.#findSites('origin', `extract(site, '^(.*)\t') AS site_kind`),
      [
        `${this.#find('small_source', SOURCE_CLASSES)} AS source_found`,
        `${this.#find('small_medium', MEDIUM_CLASSES)} AS medium_found`,
      ],
      [
        `replaceRegexpOne(source_found, '^[^\t]+$', '\tother') AS source_class`,
        `${MEDIUM_PATTERNS.reduce((text, [pattern, name]) => `replaceRegexpOne(${text}, '^(?:${pattern})$', '\t${name}')`, 'medium_found')} AS medium_class`,
      ],
      [
        // Any other site may link to a URL that someone copied after a click on an ad.
        `concat('\t', site_kind, multiIf(medium_class != '', medium_class,
          ad_host != '' AND site_kind IN ('search', 'video'), '\tpaid', '\t'),
          multiIf(source_class != '', source_class, referrer = '', '\t', '\tsite')) AS channel_key`,
      ],
      [`${toDictionary('channel_key')} AS channel_entry`],
    ]
  }

  /**
   * Each step leaves the results of earlier ones, which contain a tab, unchanged, so that all steps run on the
   * dictionary only. They are separate, because ClickHouse's plans repeat the lists in the name of each expression that
   * contains them.
   */
  #findSites(host: string, result: string): string[][] {
    const mobile = `'${SITES.mobile}', ''`
    const ofCountry = `'${SITES.ofCountry}', '${FIRST}.{}'`
    const inCountry = `'${SITES.inCountry}', '{}.${FIRST}'`
    const domain = `'${SITES.domain}', '${FIRST}'`
    const steps = [
      (site: string) => this.#find(site, SITES.hosts),
      (site: string) =>
        `replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(${site}, ${mobile}), ${ofCountry}), ${inCountry})`,
      (site: string) => this.#find(site, SITES.hosts),
      (site: string) => `replaceRegexpOne(${site}, ${domain})`,
      (site: string) => this.#find(site, SITES.domains),
    ]
    const column = (step: number) => (step < 0 ? host : `${host}_site${step}`)
    const found = steps.map((step, i) => [`${step(column(i - 1))} AS ${column(i)}`])
    return [...found, [result.replace('site', column(steps.length - 1))]]
  }

  /** The value of a key in a table, or the key itself if the table lacks it. */
  #find(key: string, { keys, values }: { keys: string[]; values: string[] }): string {
    return `transform(${key}, (SELECT ${this.#statement.texts(keys)}), (SELECT ${this.#statement.texts(values)}))`
  }

  /** Columns with the tokens of the fields. */
  #tokens(): string[] {
    const { repairsTexts } = this.#statement.context
    return [...this.#names].map((name) => {
      const text = this.#findText(name)
      const written = repairsTexts ? unmarkHalves(`toJSONString(${text})`) : `toJSONString(${text})`
      // A function of one column with a dictionary is computed for the values in it.
      const token = DICTIONARIES.includes(name) ? emptyToUnset(written) : `if(${text} = '', '', ${written})`
      return `${token} AS page_${name}`
    })
  }

  /** Columns with the texts of the fields that are computed from others. */
  #computeTexts(isPage: string): string[] {
    return [...this.#names].flatMap((name) => {
      const column = this.#findText(name)
      return column.startsWith('value_') ? [`${this.#compute(name, isPage)} AS ${column}`] : []
    })
  }

  /** The column with the text of a field. */
  #findText(name: PageName): string {
    if (name === 'host') return 'host_url'
    if (name === 'referrer' || name === 'path') return name
    if (name === 'source' || name === 'channel') return `value_${name}`
    return name === 'url' || name === 'title' ? `text_${name}` : `utm_${name}`
  }

  #places(): Place[] {
    const placesOf = (name: PageName) => {
      return name === 'channel' && this.#ofPageViews ? PLACES_OF_PAGE_VIEW : PLACES_OF[name]
    }
    return [...new Set([...this.#names].flatMap(placesOf))]
  }

  /** The column of facts with the text of a place; null without one, or if texts may have to be repaired. */
  #findColumn(place: Place, kept: KeptValues | null): string | null {
    if (!kept || this.#statement.context.repairsTexts) return null
    return kept.find({ firstOf: listPaths(this.#statement, place) })
  }

  get #hasSource(): boolean {
    return this.#names.has('source') || this.#names.has('channel')
  }

  #parameters(): Parameter[] {
    return PARAMETERS.filter((name) => this.#places().includes(name))
  }

  /** SQL for the text of a field that is computed. */
  #compute(name: PageName, isPage: string): string {
    if (name === 'channel') return this.#computeChannel(isPage)
    return `multiIf(utm_source != '', utm_source, site_name != '', site_name, referrer)`
  }

  #computeChannel(isPage: string): string {
    const places = ['url', 'path', 'title', 'referrer', 'campaign'].map((place) => `text_${place}`)
    const hasPage = this.#ofPageViews ? isPage : `notEmpty(concat(${places.join(', ')})) OR ${isPage}`
    return `if(channel_key != '\t\t\t' OR ${hasPage}, ${this.#find('channel_entry', CHANNELS)}, '')`
  }
}

/** The first group of a regular expression, in a replacement. */
const FIRST = String.raw`\\1`

/** The properties that have the text of a place, by their paths. */
function listPaths({ context }: Statement, place: Place): string[][] {
  const { url, path } = context.pages.page_fields
  const fields = place === 'location' ? [...url, ...path] : context.pages.page_fields[place]
  return fields.map((field) => splitField(field).slice(1))
}

const ORIGIN = '(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//'

function toDictionary(text: string): string {
  return `toLowCardinality(${text})`
}

function computeHost(url: string): string {
  const authority = `extract(${toDictionary(url)}, '^${ORIGIN}([^/?#\t]*)')`
  return `lower(replaceRegexpOne(replaceRegexpOne(${authority}, '(?s)^.*@', ''), ':[0-9]*$', ''))`
}

/**
 * The path of a URL, `/` if the URL has none; empty without a URL. Removing what is not the path takes half as long as
 * extracting the path.
 */
function computePath(url: string): string {
  const having = `replaceRegexpOne(${toDictionary(url)}, '(?s)^(?:${ORIGIN}[^/?#]*(?:[?#].*)?|[?#].*)$', '/')`
  return `replaceRegexpOne(cutQueryStringAndFragment(${having}), '^${ORIGIN}[^/?#]*', '')`
}

/** The first non-empty value of a parameter, as written in the URL. */
function findParameter(url: string, name: string): string {
  // Most URLs lack the parameter; leave them out of the dictionary.
  const having = `if(position(${url}, '${name}=') > 0, ${url}, '')`
  return `extract(${toDictionary(having)}, '^[^?#]*[?](?:[^#]*?&)??${name}=([^&#]+)')`
}

/** The first parameter of an ad that has a value; empty if there is none. */
function findAdClick(url: string): string {
  const names = Object.keys(AD_CLICKS)
  const having = `if(multiSearchAny(${url}, [${names.map((name) => `'${name}='`).join(', ')}]), ${url}, '')`
  return `extract(${toDictionary(having)}, '^[^?#]*[?](?:[^#]*?&)??(${names.join('|')})=[^&#]')`
}

function withoutWww(host: string): string {
  return String.raw`replaceRegexpOne(${host}, '^www\\.', '')`
}
