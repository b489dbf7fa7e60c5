import type { PageName, PagePlace } from '../contract/page-fields.js'
import { failIf, repairText, unmarkHalves } from '../store/json-sql.js'
import { CHANNELS, MEDIUM_CLASSES, MEDIUM_PATTERNS, SOURCE_CLASSES } from './channels.js'
import { splitField } from './field-name.js'
import type { KeptValues } from './property-paths.js'
import { SITES } from './sites.js'
import type { Statement } from './statement.js'

/** SQL for whether a row with the column `event` is a page view. */
export function isPageView(statement: Statement): string {
  return `event IN ${statement.texts(statement.context.pages.page_views)}`
}

/** Where each field of a page comes from. */
const PLACES_OF: Record<PageName, readonly PagePlace[]> = {
  url: ['url'],
  host: ['url'],
  path: ['url', 'path'],
  title: ['title'],
  referrer: ['url', 'referrer'],
  source: ['url', 'referrer', 'source'],
  medium: ['url', 'medium'],
  campaign: ['url', 'campaign'],
  term: ['url', 'term'],
  content: ['url', 'content'],
  channel: ['url', 'path', 'title', 'referrer', 'source', 'medium', 'campaign'],
}
/** Where the channel of a page view comes from: the other places only show that an event has a page. */
const PLACES_OF_PAGE_VIEW: readonly PagePlace[] = ['url', 'referrer', 'source', 'medium']

/** Fields that a URL decides alone. */
const OF_URL: readonly PageName[] = ['url', 'host', 'path']

/** What is in the query of a page's URL, too, as `utm_source` and so on. */
const PARAMETERS = ['source', 'medium', 'campaign', 'term', 'content'] as const satisfies PagePlace[]
type Parameter = (typeof PARAMETERS)[number]

/** A name in a document, with the names below it; a leaf has the numbers of its place and of its rank there. */
interface Names {
  children: Map<string, Names>
  leaves: { place: PagePlace; rank: number }[]
}

/** A value that the parser found. */
interface Found {
  /** SQL for it. @param raw the result of the parser for all of `json` */
  take: (raw: string, json: string) => string
  path: string[]
}

/**
 * Columns with what is known about the page of an event. All places are read with one pass of the parser over the
 * properties; what follows from a text is computed once per block for each different text (LowCardinality).
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

  /** Whether a URL tells all that is asked for. */
  get areOfUrl(): boolean {
    return [...this.#names].every((name) => OF_URL.includes(name))
  }

  /** SQL for the text of the URL in the column of it, empty where it may be another; null if that is not enough. */
  findUrl(kept: KeptValues | null): string | null {
    const column = this.areOfUrl ? findUrlColumn(this.#statement, kept) : null
    if (column === null) return null
    return kept?.isThere ? `if(${isPlain(column)}, ${unquote(column)}, '')` : `''`
  }

  /**
   * Columns with the results of the parser.
   * @param url SQL for the text of the URL, if a text that has it need not be parsed; empty where it has to be
   */
  raws(url: string | null): string[] {
    if (this.isEmpty) return []
    if (url === null) return [`${this.#parse('properties')} AS page_raw`]
    return [`${url} AS kept_url`, `${this.#parse(`if(kept_url = '', properties, '{}')`)} AS page_raw`]
  }

  /**
   * Operand of FROM. Columns build upon each other in several steps, because ClickHouse would analyze an expression
   * again for each use.
   * @param rows with the columns `properties` and `raws`
   * @param options `isPage`: SQL for whether a row is a page view; `hasUrl`: whether `raws` were given the URL
   */
  select(
    rows: string,
    { isPage = isPageView(this.#statement), hasUrl = false }: { isPage?: string; hasUrl?: boolean } = {},
  ): string {
    if (this.isEmpty) return rows
    const steps = [
      ...this.#selectTexts(hasUrl),
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

  /** The text of each place; empty if none has one. */
  #selectTexts(hasUrl: boolean): string[][] {
    const leaves = this.#leaves()
    const first = (raw: string, json: string, name: string) =>
      [...leaves].map(([place, found]) => {
        const taken = chooseFirst(found.map(({ take }) => take(raw, json)))
        return `${hasUrl && place === 'url' ? `if(kept_url = '', ${taken}, kept_url)` : taken} AS ${name}_${place}`
      })
    const hasNone = [...leaves.keys()].map((place) => `first_${place} = ''`).join(' AND ')
    const isRefused = `${hasNone} AND properties != '{}' AND NOT isValidJSON(properties)`
    if (!this.#statement.context.repairsTexts) {
      const refused = `${failIf(isRefused)} AS page_refused`
      // Everything depends on the check.
      const checked = [...leaves.keys()].map((place) => `if(page_refused, '', first_${place}) AS found_${place}`)
      const texts = this.#checkTexts(leaves, 'properties', hasUrl ? `kept_url = ''` : '1')
      return [first('page_raw', 'properties', 'first'), [refused], checked, texts]
    }
    return [
      first('page_raw', 'properties', 'first'),
      [`if(${isRefused}, ${repairText('properties')}, properties) AS page_json`],
      [`${this.#parse('page_json')} AS page_read`],
      first('page_read', 'page_json', 'found'),
      this.#checkTexts(leaves, 'page_json'),
    ]
  }

  /**
   * The parser returns other values as texts, too, and takes what is within an object from an array by position. Where
   * the first one may not be a text of its name, each is looked at.
   * @param isParsed SQL for whether the texts come from the parser
   */
  #checkTexts(leaves: Map<PagePlace, Found[]>, json: string, isParsed = '1'): string[] {
    return [...leaves].map(([place, found]) => {
      if (found.length === 0) return `'' AS text_${place}`
      const tokens = found.map(({ path }) => `JSONExtractRaw(${json}, ${this.#formatPath(path)})`)
      const text = `JSONExtractString(arrayFirst(token -> ${IS_TEXT}, [${tokens.join(', ')}]))`
      const isWithin = found.some(({ path }) => path.length > 1)
      const mayBeInArray = isWithin ? ` OR (found_${place} != '' AND position(${json}, '[') > 0)` : ''
      const mayBeOther = `match(found_${place}, '${MAY_BE_OTHER}')${mayBeInArray}`
      const isDoubtful = isParsed === '1' ? mayBeOther : `${isParsed} AND (${mayBeOther})`
      return `if(${isDoubtful}, ${text}, found_${place}) AS text_${place}`
    })
  }

  /** The hosts of the page and of where the visitor came from, the path, and the parameters in the page's URL. */
  #selectHosts(): string[] {
    const places = this.#places().filter((place) => place === 'url' || place === 'referrer')
    const hosts = places.map((place) => `${computeHost(`text_${place}`)} AS host_${place}`)
    const path = computePath(`if(text_url = '', text_path, text_url)`)
    return [
      ...hosts,
      ...(this.#names.has('path') ? [`${path} AS bare_path`] : []),
      ...this.#parameters().map((place) => `${findParameter('text_url', `utm_${place}`)} AS given_${place}`),
    ]
  }

  /** The parameters of campaigns: from their own places, or else from the URL. */
  #selectParameters(): string[] {
    return this.#parameters().map((place) => {
      const decoded = `decodeURLFormComponent(given_${place})`
      return `multiIf(text_${place} != '', text_${place}, isValidUTF8(${decoded}), ${decoded}, given_${place}) AS utm_${place}`
    })
  }

  /** The host that the visitor came from, unless it is the page's own. */
  #selectReferrer(): string[] {
    if (!this.#places().includes('referrer')) return []
    const [own, other] = ['host_url', 'host_referrer'].map(withoutWww)
    return [`${toDictionary(`if(${other} = ${own}, '', ${other})`)} AS referrer`]
  }

  /**
   * The name of the referrer's site, and the kind of the site that decides on the channel, that of the source if there
   * is one.
   */
  #selectSites(): string[][] {
    const name = this.#names.has('source') ? this.#findSites('referrer', `extract(site, '\t(.*)$') AS site_name`) : []
    if (!this.#names.has('channel')) return name
    return [
      ...name,
      [
        ...['source', 'medium'].map((place) => {
          // A tab marks what was found.
          return `${toDictionary(`replaceAll(lower(utm_${place}), '\t', ' ')`)} AS small_${place}`
        }),
      ],
      [`${this.#find('small_source', SITES.names)} AS named_source`],
      [`${toDictionary(`if(small_source = '', referrer, ${withoutWww('named_source')})`)} AS origin`],
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
        `concat('\t', site_kind, if(medium_class = '', '\t', medium_class),
          multiIf(source_class != '', source_class, referrer = '', '\t', '\tsite')) AS channel_key`,
      ],
      [`${toDictionary('channel_key')} AS channel_entry`],
    ]
  }

  /**
   * Each step leaves what an earlier one has found, which has a tab, as it is, so that all run on the dictionary only.
   * They are separate, because ClickHouse's plans repeat the lists in the name of everything that contains them.
   */
  #findSites(host: string, result: string): string[][] {
    const ofCountry = `'^(${SITES.before})[.](?:(?:com|org|net|co|it|edu)[.])?[a-z]{2}$', '${FIRST}.{}'`
    const inCountry = `'^[a-z]{2}[.](${SITES.after})$', '{}.${FIRST}'`
    const domain = `'^[^\t]*?([^.\t]+[.](?:(?:com|org|net|co|it|edu)[.][a-z]{2}|[^.\t]+))$', '${FIRST}'`
    const steps = [
      (site: string) => this.#find(site, SITES.hosts),
      (site: string) => `replaceRegexpOne(replaceRegexpOne(${site}, ${ofCountry}), ${inCountry})`,
      (site: string) => this.#find(site, SITES.hosts),
      (site: string) => `replaceRegexpOne(${site}, ${domain})`,
      (site: string) => this.#find(site, SITES.domains),
    ]
    const column = (step: number) => (step < 0 ? host : `${host}_site${step}`)
    const found = steps.map((step, i) => [`${step(column(i - 1))} AS ${column(i)}`])
    return [...found, [result.replace('site', column(steps.length - 1))]]
  }

  /** The value of a key, or else the key. */
  #find(key: string, { keys, values }: { keys: string[]; values: string[] }): string {
    return `transform(${key}, (SELECT ${this.#statement.texts(keys)}), (SELECT ${this.#statement.texts(values)}))`
  }

  /** Columns with the tokens of the fields. */
  #tokens(): string[] {
    const { repairsTexts } = this.#statement.context
    return [...this.#names].map((name) => {
      const text = this.#findText(name)
      const written = repairsTexts ? unmarkHalves(`toJSONString(${text})`) : `toJSONString(${text})`
      return `if(${text} = '', '', ${written}) AS page_${name}`
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
    if (name === 'referrer') return 'referrer'
    if (name === 'path' || name === 'source' || name === 'channel') return `value_${name}`
    return name === 'url' || name === 'title' ? `text_${name}` : `utm_${name}`
  }

  #places(): PagePlace[] {
    const placesOf = (name: PageName) => {
      return name === 'channel' && this.#ofPageViews ? PLACES_OF_PAGE_VIEW : PLACES_OF[name]
    }
    return [...new Set([...this.#names].flatMap(placesOf))]
  }

  #parameters(): Parameter[] {
    return PARAMETERS.filter((name) => this.#places().includes(name))
  }

  /** The properties of each place, in their order. */
  #listFound(): { place: PagePlace; rank: number; path: string[] }[] {
    const { page_fields } = this.#statement.context.pages
    return this.#places().flatMap((place) =>
      page_fields[place].map((field, rank) => ({ place, rank, path: splitField(field).slice(1) })),
    )
  }

  #tree(): Names {
    const root: Names = { children: new Map(), leaves: [] }
    for (const { place, rank, path } of this.#listFound()) {
      if (path.some(isUnsafe)) continue
      let at = root
      for (const part of path) {
        const next = at.children.get(part) ?? { children: new Map(), leaves: [] }
        at.children.set(part, next)
        at = next
      }
      at.leaves.push({ place, rank })
    }
    return root
  }

  #parse(json: string): string {
    return `JSONExtract(${json}, ${this.#statement.text(formatType(this.#tree()))})`
  }

  #formatPath(path: readonly string[]): string {
    return path.map((name) => this.#statement.text(name)).join(', ')
  }

  /** By place, the values in their order. */
  #leaves(): Map<PagePlace, Found[]> {
    const byPlace = new Map<PagePlace, Found[]>(this.#places().map((place) => [place, []]))
    for (const { place, rank, path } of this.#listFound()) {
      const take: Found['take'] = (_, json) => `JSONExtract(${json}, ${this.#formatPath(path)}, 'String')`
      byPlace.get(place)?.splice(rank, 1, { take, path })
    }
    const visit = ({ children }: Names, sql: string) => {
      for (const [i, child] of [...children.values()].entries()) {
        const within = `${sql}.${i + 1}`
        // A text that may have others within it is an object in the type.
        if (child.children.size > 0) visit(child, within)
        else {
          for (const { place, rank } of child.leaves) {
            const found = byPlace.get(place)?.[rank]
            if (found) found.take = (raw) => `${raw}${within}`
          }
        }
      }
    }
    visit(this.#tree(), '')
    return byPlace
  }

  /** SQL for the text of a field that is computed. */
  #compute(name: PageName, isPage: string): string {
    if (name === 'channel') return this.#computeChannel(isPage)
    if (name === 'path') return `multiIf(text_url = '' AND text_path = '', '', bare_path = '', '/', bare_path)`
    return `multiIf(utm_source != '', utm_source, site_name != '', site_name, referrer)`
  }

  #computeChannel(isPage: string): string {
    const places = ['url', 'path', 'title', 'referrer', 'campaign'].map((place) => `text_${place}`)
    const hasPage = this.#ofPageViews ? isPage : `notEmpty(concat(${places.join(', ')})) OR ${isPage}`
    return `if(channel_key != '\t\t\t' OR ${hasPage}, ${this.#find('channel_entry', CHANNELS)}, '')`
  }
}

/** What a number, an array, an object, a boolean and an infinite number in a repaired text begin with. */
const MAY_BE_OTHER = '^(?:[-0-9{[]|true$|false$|\u{10fffd})'
const IS_TEXT = `startsWith(token, '"') AND token != '""' AND NOT startsWith(token, '"\u{10fffd}')`
/** The first group of a regular expression, in a replacement. */
const FIRST = String.raw`\\1`
const BACKSLASH = String.raw`\\`

/** The column with tokens of the URL, the first of the properties that have it, if facts keep one. */
function findUrlColumn({ context }: Statement, kept: KeptValues | null): string | null {
  const [field] = context.pages.page_fields.url
  if (!kept || context.repairsTexts || field === undefined) return null
  return kept.find(splitField(field).slice(1))
}

/** SQL for whether a token is that of a text without escapes. A regular expression would take ten times as long. */
function isPlain(token: string): string {
  return `startsWith(${token}, '"') AND ${token} != '""' AND position(${token}, '${BACKSLASH}') = 0`
}

function unquote(token: string): string {
  return `substring(${token}, 2, length(${token}) - 2)`
}

/** SQL for the properties if only the URL is needed: the token of the URL if that is a plain text, otherwise all of them. */
export function shortenToUrl(statement: Statement, kept: KeptValues | null): string {
  const column = kept?.isThere ? findUrlColumn(statement, kept) : null
  return column === null ? 'properties' : `if(${isPlain(column)}, ${column}, properties)`
}

/** The opposite of `shortenToUrl`. @returns SQL for the text of the URL, or else empty, and for the properties */
export function readShortened(json: string): { url: string; properties: string } {
  const isUrl = `startsWith(${json}, '"')`
  return { url: `if(${isUrl}, ${unquote(json)}, '')`, properties: `if(${isUrl} OR ${json} = '', '{}', ${json})` }
}

const ORIGIN = '(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//'

function toDictionary(text: string): string {
  return `toLowCardinality(${text})`
}

function computeHost(url: string): string {
  const authority = `extract(${toDictionary(url)}, '^${ORIGIN}([^/?#\t]*)')`
  return `lower(replaceRegexpOne(replaceRegexpOne(${authority}, '(?s)^.*@', ''), ':[0-9]*$', ''))`
}

function computePath(url: string): string {
  return `replaceRegexpOne(replaceRegexpOne(${toDictionary(url)}, '^${ORIGIN}[^/?#]*', ''), '(?s)[?#].*$', '')`
}

/** The first of the parameters with this name that has a value, as it is written. */
function findParameter(url: string, name: string): string {
  // Most URLs do not have it, and are left out of the dictionary.
  const having = `if(position(${url}, '${name}=') > 0, ${url}, '')`
  return `extract(${toDictionary(having)}, '^[^?#]*[?](?:[^#]*?&)??${name}=([^&#]+)')`
}

function withoutWww(host: string): string {
  return String.raw`replaceRegexpOne(${host}, '^www\\.', '')`
}

/** The first text that is not empty. ClickHouse would take many times as long to plan `multiIf`. */
function chooseFirst(texts: readonly string[]): string {
  const [only] = texts
  if (only === undefined) return `''`
  return texts.length === 1 ? only : `firstNonDefault(${texts.join(', ')})`
}

/** The type of ClickHouse that has a text for each leaf. */
function formatType({ children }: Names): string {
  if (children.size === 0) return 'String'
  const members = [...children].map(([name, child]) => `${quoteName(name)} ${formatType(child)}`)
  return `Tuple(${members.join(', ')})`
}

/** Whether a name has another meaning for ClickHouse in the type of a tuple, or after it. */
function isUnsafe(name: string): boolean {
  return /^(?:[0-9]+|null|true|false|nan|inf)$/i.test(name)
}

function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
}
