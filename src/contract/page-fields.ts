import { CONTEXT_TEXTS } from './context.js'
import type { FieldName } from './filters.js'

/** The events that are page views, and the properties with details of the page. Both are settings of a project. */

/** Maximum number of names of page views in a project. */
export const MAX_PAGE_VIEWS = 100
/** Maximum number of properties that a page field may be taken from. */
export const MAX_PLACES = 10

/** Names of page views by default: ours, Segment's, PostHog's, Mixpanel's, Amplitude's and OpenPanel's. */
export const PAGE_VIEWS: readonly string[] = [
  '$pageview',
  'page viewed',
  'Page Viewed',
  'page',
  'screen',
  'screen_view',
  '$screen',
  '$mp_web_page_view',
  '[Amplitude] Page Viewed',
]

/**
 * The properties that page fields are taken from by default; the first one with a text value counts. First ours, then
 * those of Segment, PostHog, Mixpanel, Amplitude and OpenPanel.
 */
export const PAGE_FIELDS = {
  url: list('url', 'page.url', [
    '$current_url',
    'current_url',
    // Amplitude's URL lacks the query; its location has it.
    '[Amplitude] Page Location',
    '[Amplitude] Page URL',
    '__path',
  ]),
  path: list('path', 'page.path', ['$pathname', '$screen_name', 'current_url_path', '[Amplitude] Page Path']),
  title: list('title', 'page.title', ['current_page_title', '[Amplitude] Page Title', '__title']),
  referrer: list('referrer', 'page.referrer', ['$referrer', '__referrer']),
  source: list('utm_source', 'campaign.source', ['utm.source']),
  medium: list('utm_medium', 'campaign.medium', ['utm.medium']),
  campaign: list('utm_campaign', 'campaign.name', ['utm.campaign']),
  term: list('utm_term', 'campaign.term', ['utm.term']),
  content: list('utm_content', 'campaign.content', ['utm.content']),
} as const satisfies Record<string, readonly FieldName[]>

/** @param inContext the name in Segment's `context`, which is a property of the event or below `$segment` */
function list(ours: string, inContext: string, others: readonly string[]): readonly FieldName[] {
  const all = [ours, `context.${inContext}`, `$segment.context.${inContext}`, ...others]
  return all.map((name) => `properties.${name}`)
}

/**
 * The parameters that ads add to the URL of their page by default (Google Ads: auto-tagging; Microsoft Advertising:
 * Click ID), and the source that they stand for.
 */
export const AD_CLICKS: Readonly<Record<string, 'Google' | 'Bing'>> = {
  gclid: 'Google',
  gbraid: 'Google',
  wbraid: 'Google',
  msclkid: 'Bing',
}

export type PagePlace = keyof typeof PAGE_FIELDS
export const PAGE_PLACES = Object.keys(PAGE_FIELDS) as readonly PagePlace[]

/** A project's settings about its pages. */
export interface PageSettings {
  /** the names of events that are page views */
  page_views: readonly string[]
  /** the properties that each page field is taken from; the first one with a text value counts */
  page_fields: Readonly<Record<PagePlace, readonly FieldName[]>>
}

/** The names of `page.` fields in questions. */
export const PAGE_NAMES = [
  ...['url', 'host', 'path', 'title', 'referrer', 'source', 'medium', 'campaign', 'term', 'content', 'channel'],
] as const
export type PageName = (typeof PAGE_NAMES)[number]

/** The names of `context.` fields in questions, which are columns of events and sessions. */
export const CONTEXT_NAMES = [...CONTEXT_TEXTS, 'bot'] as const
