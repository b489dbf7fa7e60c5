/**
 * The channel of a visit, after the default channel groups of Google Analytics 4
 * (https://support.google.com/analytics/answer/9756891). Medium and source are first put into classes, which leaves
 * few cases: ClickHouse gets them as a table.
 */

/** The kinds of sites in `contract/referrers.ts`; empty for an unknown site. */
const KINDS = ['', 'search', 'social', 'video', 'email', 'ai'] as const
type Kind = (typeof KINDS)[number]

const MEDIUMS = [
  ...[
    '',
    'cpm',
    'display',
    'paid',
    'social',
    'video',
    'email',
    'affiliate',
    'organic',
    'audio',
    'sms',
    'push',
    'referral',
  ],
  'other',
] as const
type Medium = (typeof MEDIUMS)[number]

/** `site`: there is a referrer, but no source. */
const SOURCES = ['', 'site', 'email', 'sms', 'other'] as const
type Source = (typeof SOURCES)[number]

const EMAIL = ['email', 'e-mail', 'e_mail', 'e mail', 'newsletter']

/** Sources by class. */
export const SOURCE_CLASSES = toTable({ email: EMAIL, sms: ['sms'] })
/** Mediums by class. */
export const MEDIUM_CLASSES = toTable({
  cpm: ['cpm'],
  display: ['display', 'banner', 'expandable', 'interstitial'],
  paid: ['ppc', 'retargeting'],
  social: ['social', 'social-network', 'social-media', 'sm', 'social network', 'social media'],
  email: EMAIL,
  organic: ['organic'],
  audio: ['audio'],
  sms: ['sms'],
  referral: ['referral', 'app', 'link'],
} satisfies Partial<Record<Medium, string[]>>)
/** The classes of other mediums, by regular expressions for the whole text; the first that matches counts. */
export const MEDIUM_PATTERNS = [
  ['[^\\t]*cp[^\\t]*|paid[^\\t]*', 'paid'],
  ['[^\\t]*video[^\\t]*', 'video'],
  ['affiliate[^\\t]*', 'affiliate'],
  ['[^\\t]*(?:mobile|notification)[^\\t]*|[^\\t]*push', 'push'],
  ['[^\\t]+', 'other'],
] as const satisfies [string, Medium][]

/** The channel by kind of site, class of medium and class of source, each after a tab. */
export const CHANNELS = listChannels()

function listChannels(): { keys: string[]; values: string[] } {
  const [keys, values]: [string[], string[]] = [[], []]
  for (const kind of KINDS) {
    for (const medium of MEDIUMS) {
      for (const source of SOURCES) {
        keys.push(`\t${kind}\t${medium}\t${source}`)
        values.push(chooseChannel(kind, medium, source))
      }
    }
  }
  return { keys, values }
}

function chooseChannel(kind: Kind, medium: Medium, source: Source): string {
  if (source === '' && medium === '') return 'Direct'
  const isPaid = medium === 'paid' || medium === 'cpm'
  if (isPaid && kind === 'search') return 'Paid Search'
  if (isPaid && kind === 'social') return 'Paid Social'
  if (isPaid && kind === 'video') return 'Paid Video'
  if (medium === 'display' || medium === 'cpm') return 'Display'
  if (isPaid) return 'Paid Other'
  if (kind === 'social' || medium === 'social') return 'Organic Social'
  if (kind === 'video' || medium === 'video') return 'Organic Video'
  if (kind === 'email' || medium === 'email' || source === 'email') return 'Email'
  if (medium === 'affiliate') return 'Affiliates'
  if (kind === 'search' || medium === 'organic') return 'Organic Search'
  if (kind === 'ai') return 'AI Assistants'
  if (medium === 'audio') return 'Audio'
  if (medium === 'sms' || source === 'sms') return 'SMS'
  if (medium === 'push') return 'Mobile Push'
  return medium === 'referral' || (medium === '' && source === 'site') ? 'Referral' : 'Unassigned'
}

function toTable(classes: Record<string, string[]>): { keys: string[]; values: string[] } {
  const pairs = Object.entries(classes).flatMap(([name, texts]) => texts.map((text) => [text, `\t${name}`] as const))
  return { keys: pairs.map(([text]) => text), values: pairs.map(([, name]) => name) }
}
