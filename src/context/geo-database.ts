import { stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { open as openReader, type Reader, type Response } from 'maxmind'
import type { Context } from '../contract/context.js'
import type { Log } from '../lib/log.js'
import { readCountryCode } from './country.js'

export type Place = Pick<Context, 'country' | 'region' | 'city'>

/** How often the file is checked, ms. */
const WATCH_MS = 5_000
/** The longest name that is stored. */
const MAX_NAME = 255

/** The parts of a record that are read, in the form of MaxMind and DB-IP, or of IPinfo, whose fields are strings. */
interface PlaceRecord {
  country?: unknown
  country_code?: unknown
  registered_country?: unknown
  subdivisions?: unknown
  region?: unknown
  city?: unknown
}

export interface GeoDatabaseOptions {
  log: Pick<Log, 'info' | 'warn'>
  /** how often the file is checked, ms; default 5000 */
  everyMs?: number
}

/** Looks up the places of addresses in an .mmdb file, which is read again when it changes. */
export class GeoDatabase {
  readonly #path: string
  readonly #log: GeoDatabaseOptions['log']
  readonly #checks: NodeJS.Timeout
  /** of the file that was read last; determined before reading, because the file may change in the meantime */
  #version: string
  #isChecking = false
  #reader: Reader<Response>
  /** whether the log says that the file is damaged */
  #isReported = false

  /** @throws Error if the file cannot be read */
  static async open(path: string, options: GeoDatabaseOptions): Promise<GeoDatabase> {
    try {
      const version = await findVersion(path)
      return new GeoDatabase(path, version, await openReader(path), options)
    } catch (error) {
      throw new Error(`GEO_DATABASE cannot be read: ${path} is not a valid .mmdb file.`, { cause: error })
    }
  }

  private constructor(
    path: string,
    version: string,
    reader: Reader<Response>,
    { log, everyMs = WATCH_MS }: GeoDatabaseOptions,
  ) {
    this.#path = path
    this.#version = version
    this.#reader = reader
    this.#log = log
    // `fs.watchFile` would miss a change between our reading and its own first check.
    this.#checks = setInterval(() => void this.#check(), everyMs).unref()
  }

  /** When the database was built. */
  get builtAt(): Date {
    return this.#reader.metadata.buildEpoch
  }

  /** The place of an address; empty if it has none, or if the file is damaged there: that must not lose an event. */
  find(address: string): Place {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/, '')
    const version = isIP(plain)
    // For an IPv6 address, the reader of an IPv4 database would return the place of the IPv4 address with the same
    // first 32 bits.
    if (version === 0 || version > this.#reader.metadata.ipVersion) return {}
    try {
      return readPlace((this.#reader.get(plain) as PlaceRecord | null) ?? {})
    } catch (error) {
      // The error names a place in the file, and no address.
      if (!this.#isReported) this.#log.warn({ err: error }, 'GEO_DATABASE is damaged; some addresses have no place')
      this.#isReported = true
      return {}
    }
  }

  close(): void {
    clearInterval(this.#checks)
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return
    this.#isChecking = true
    // A file that is missing may be about to be replaced.
    const version = await findVersion(this.#path).catch(() => this.#version)
    if (version !== this.#version) {
      this.#version = version
      await this.#reopen()
    }
    this.#isChecking = false
  }

  async #reopen(): Promise<void> {
    try {
      this.#reader = await openReader(this.#path)
      this.#isReported = false
      this.#log.info({ builtAt: this.builtAt.toISOString() }, 'GEO_DATABASE was read again, because it has changed')
    } catch (error) {
      this.#log.warn({ err: error }, 'GEO_DATABASE has changed and cannot be read; its previous content stays in use')
    }
  }
}

/** A string that changes whenever the contents of a file do. */
async function findVersion(path: string): Promise<string> {
  const { ino, size, mtimeMs } = await stat(path)
  return `${ino} ${size} ${mtimeMs}`
}

function readPlace({ country, country_code, registered_country, subdivisions, region, city }: PlaceRecord): Place {
  const code =
    readCountryCode(member(country, 'iso_code')) ??
    readCountryCode(country_code) ??
    readCountryCode(country) ??
    readCountryCode(member(registered_country, 'iso_code'))
  const part = Array.isArray(subdivisions) ? (readName(subdivisions[0]) ?? member(subdivisions[0], 'iso_code')) : region
  const place: Place = {}
  if (code) place.country = code
  for (const [field, value] of [
    ['region', part],
    ['city', readName(city) ?? city],
  ] as const) {
    if (typeof value === 'string' && value !== '') place[field] = value.slice(0, MAX_NAME).toWellFormed()
  }
  return place
}

/** The English name of a place. */
function readName(value: unknown): unknown {
  return member(member(value, 'names'), 'en')
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
