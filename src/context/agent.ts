import { parse } from 'bowser'
import { isbot } from 'isbot'
import { type Context, shortenVersion } from '../contract/context.js'

/** A browser's description of itself, as spelled in its headers; a field that it leaves out is empty. */
export interface Agent {
  /** User-Agent */
  name: string
  /** Sec-CH-UA: brands with their versions */
  brands: string
  /** Sec-CH-UA-Mobile: `?1` or `?0` */
  mobile: string
  /** Sec-CH-UA-Platform, a quoted name */
  platform: string
  /** Sec-CH-UA-Platform-Version, quoted; browsers send it only if they were asked to */
  platformVersion: string
}

export type AgentContext = Pick<Context, 'browser' | 'browser_version' | 'os' | 'os_version' | 'device' | 'bot'>

const BRAND = /"((?:[^"\\]|\\.)*)"\s*;\s*v="([^"]*)"/g
const CONSOLE = /\b(?:PlayStation|Xbox|Nintendo)\b/
const TV = /\b(?:smart-?tv|hbbtv|apple ?tv|google ?tv|android ?tv|crkey|bravia|roku|tv)\b/i
/** Models of Fire TV. */
const FIRE_TV = /\bAFT[A-Z]\w*\b/
/** Models of tablets: Galaxy Tab, Fire, and models with `tab`, `tablet` or `pad` in their names. */
const TABLET = /\bSM-[PTX]\d|\bKF[A-Z]{3}|\btab(?:let)?\b|pad\b/i
/** On a Macintosh these browsers use other names, so this is an iPad that requests desktop pages. */
const IPAD_AS_MAC = /Macintosh.*\b(?:CriOS|FxiOS|EdgiOS|OPT|DuckDuckGo\/\d+ Mobile)\//
/** HTTP libraries of apps, which `isbot` mistakes for bots because they are not browsers. */
const APP = /^(?!Mozilla\/).*(?:android|\bios\b|iphone|ipad|okhttp|cfnetwork|dalvik|\bdart\b|flutter|react-native)/i

/** The default User-Agent of a runtime's `fetch`. It does not identify a client. */
const RUNTIME = /^(?:node|undici|(?:Deno|Bun)\/[\w.+-]+)$/

const BROWSER = /^(?:Mozilla|Opera)\//

/**
 * Whether the agent belongs to a person: a browser or an app. Server libraries report what other people do.
 * @param name User-Agent
 */
export function isPersonal(name: string): boolean {
  return BROWSER.test(name) || APP.test(name)
}

/** Takes some 60 µs, so callers remember the result. */
export function readAgent({ name, brands, mobile, platform, platformVersion }: Agent): AgentContext {
  if (name === '' || RUNTIME.test(name)) return {}
  const list = [...brands.matchAll(BRAND)].map(([, brand = '', version = '']) => ({ brand, version }))
  const { browser, os, platform: hardware } = parse(name, list.length > 0 ? { brands: list } : undefined)
  const hinted = platformName(platform)
  const system = IPAD_AS_MAC.test(name) ? 'iOS' : hinted || (os.name ?? '')
  const isSame = system === os.name
  // The parser would mistake any library's name, or the `Mozilla` at the beginning of every agent, for a browser.
  const isNamed = BROWSER.test(name) && browser.name !== 'Mozilla'
  const { name: title = '', version = '' } = isNamed ? browser : {}
  return {
    ...text('browser', title.replace(/ for Android$/, '')),
    ...text('browser_version', shortenVersion(version)),
    ...text('os', system),
    ...text('os_version', systemVersion(system, unquote(platformVersion), isSame ? os : {})),
    device: findDevice(name, { system, mobile, type: hardware.type ?? '' }),
    ...(isbot(name) && !APP.test(name) && { bot: true }),
  }
}

function findDevice(
  name: string,
  { system, mobile, type }: { system: string; mobile: string; type: string },
): NonNullable<Context['device']> {
  if (type === 'bot') return 'other'
  if (CONSOLE.test(name)) return 'console'
  if (type === 'tv' || TV.test(name) || FIRE_TV.test(name)) return 'tv'
  if (IPAD_AS_MAC.test(name)) return 'tablet'
  if (mobile === '?1') return type === 'tablet' ? 'tablet' : 'mobile'
  if (mobile === '?0' && system === 'Android') return 'tablet'
  // The parser takes an Android device without `Mobile` in its agent for a tablet, but only browsers write `Mobile`.
  if (system === 'Android' && !BROWSER.test(name)) return TABLET.test(name) ? 'tablet' : 'mobile'
  if (type === 'mobile' || type === 'tablet' || type === 'desktop') return type
  // Systems that the parser does not know, such as FreeBSD.
  return name.startsWith('Mozilla/5.0 (X11;') ? 'desktop' : 'other'
}

/** The version in the browser's hint is exact; the one in its User-Agent may be frozen. */
function systemVersion(system: string, hinted: string, os: { version?: string; versionName?: string }): string {
  const major = Number.parseInt(hinted, 10)
  // Windows 11 has version 13 and later of the API that browsers report, Windows 10 has 1 to 10.
  if (system === 'Windows' && major > 0) return major >= 13 ? '11' : '10'
  if (hinted !== '' && system !== 'Windows') return shortenVersion(hinted)
  return system === 'Windows' ? (os.versionName ?? shortenVersion(os.version)) : shortenVersion(os.version)
}

function platformName(header: string): string {
  const name = unquote(header)
  if (name === 'Unknown') return ''
  return name === 'Chromium OS' ? 'Chrome OS' : name
}

function unquote(text: string): string {
  return /^"([^"\\]*)"$/.exec(text)?.[1] ?? ''
}

/** Anybody can write a header, so it is truncated. */
const MAX_LENGTH = 64

function text<Field extends string>(field: Field, value: string): { [Name in Field]?: string } {
  return (value === '' ? {} : { [field]: value.slice(0, MAX_LENGTH).toWellFormed() }) as { [Name in Field]?: string }
}
