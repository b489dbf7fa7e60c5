import { renameSync } from 'node:fs'
import { appendFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { Contexts, type ContextsOptions, type RequestSource } from '../../src/context/contexts.js'
import { findCountryOfZone } from '../../src/context/country.js'
import { GeoDatabase } from '../../src/context/geo-database.js'
import type { MessageSource } from '../../src/model/request-context.js'
import { silent, temporaryFolder, until } from '../helper.js'
import { makeMmdb } from './mmdb.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
const DEVICE = { browser: 'Chrome', browser_version: '131', os: 'Windows', os_version: '10', device: 'desktop' }

const options: ContextsOptions = {
  mode: () => 'full',
  countryHeaders: ['cf-ipcountry', 'x-country'],
  proxies: ['10.0.0.0/8', '2001:db8::1'],
  geo: { find: (address) => (address === '192.0.2.1' ? { country: 'CH', region: 'Bern', city: 'Thun' } : {}) },
}

function source(more: Partial<RequestSource> & { headers?: Record<string, string> } = {}): RequestSource {
  const headers = { 'user-agent': CHROME, ...more.headers }
  return { address: '198.51.100.7', peer: '10.1.2.3', timezone: undefined, ...more, headers }
}

t.test('the country is from the best source that is known', async (t) => {
  const contexts = new Contexts(options)
  const country = (more: Parameters<typeof source>[0], made = contexts) => made.find('p', source(more))?.value.country
  const headers = { 'cf-ipcountry': 'FR' }
  const timezone = 'Europe/Vienna'
  t.equal(country({}), undefined)
  t.equal(country({ timezone }), 'AT')
  t.equal(country({ timezone, headers }), 'FR', 'a proxy takes precedence over the time zone')
  t.equal(country({ timezone, headers, address: '192.0.2.1' }), 'CH', 'the database takes precedence over the proxy')
  t.strictSame(contexts.find('p', source({ address: '192.0.2.1' }))?.value, {
    ...DEVICE,
    country: 'CH',
    region: 'Bern',
    city: 'Thun',
  })
  t.equal(country({ headers: { 'x-country': 'it' } }), 'IT', 'in small letters, in the second header')
  for (const unknown of ['XX', 'T1', '', 'Austria', 'A1']) {
    t.equal(country({ timezone, headers: { 'cf-ipcountry': unknown } }), 'AT', `${unknown} is no country`)
  }
  for (const peer of ['203.0.113.5', '11.0.0.1', '2001:db8::2', '']) {
    t.equal(country({ timezone, headers, peer }), 'AT', `${peer} is no trusted proxy`)
  }
  for (const peer of ['10.255.0.1', '::ffff:10.0.0.1', '2001:db8::1']) t.equal(country({ headers, peer }), 'FR', peer)
  t.equal(country({ headers }, new Contexts({ ...options, proxies: [] })), undefined, 'no proxy is trusted')
  t.equal(country({ headers }, new Contexts({ ...options, countryHeaders: [] })), undefined)
  for (const zone of ['Mars/Olympus', 'Etc/UTC', 'UTC', 'CET', ['Europe/Vienna'], 5, null]) {
    t.equal(country({ timezone: zone }), undefined, JSON.stringify(zone))
  }
})

t.test('every zone that a browser may report has the country of its people', async (t) => {
  const rows = {
    'Europe/Amsterdam': 'NL',
    'Asia/Calcutta': 'IN',
    'America/New_York': 'US',
    'Europe/Kiev': 'UA',
    'Asia/Saigon': 'VN',
  }
  for (const [zone, country] of Object.entries(rows)) t.equal(findCountryOfZone(zone), country, zone)
  const missing = Intl.supportedValuesOf('timeZone').filter((zone) => !findCountryOfZone(zone))
  t.strictSame(
    missing.filter((zone) => zone.includes('/') && !zone.startsWith('Etc/')),
    [],
  )
})

t.test('a project keeps as much as its settings say', async (t) => {
  const contexts = new Contexts({ ...options, mode: (id) => (id === 'off' || id === 'device' ? id : 'full') })
  const sent = source({ timezone: 'Europe/Vienna', headers: { 'accept-language': 'de-AT,de;q=0.9' } })
  t.equal(contexts.find('off', sent), null)
  t.equal(contexts.findOfMessage('off', sent, { address: '192.0.2.1' }), null)
  t.strictSame(contexts.find('device', sent)?.value, { ...DEVICE, language: 'de-AT' })
  t.strictSame(contexts.find('full', sent)?.value, { ...DEVICE, country: 'AT', language: 'de-AT' })
})

t.test('the language is the first one that the browser asks for', async (t) => {
  const contexts = new Contexts(options)
  const rows = {
    'de-AT,de;q=0.9,en;q=0.8': 'de-AT',
    en: 'en',
    'EN-gb;q=1': 'en-GB',
    'zh-hant-TW': 'zh-Hant-TW',
    'zh_hant_tw, en': 'zh-Hant-TW',
    '*': undefined,
    '': undefined,
    English: undefined,
    'de"><script>': undefined,
  }
  for (const [header, language] of Object.entries(rows)) {
    t.equal(contexts.find('p', source({ headers: { 'accept-language': header } }))?.value.language, language, header)
  }
})

t.test('a message takes precedence over its request', async (t) => {
  const contexts = new Contexts(options)
  const sent = source({ address: '192.0.2.1', headers: { 'cf-ipcountry': 'FR', 'accept-language': 'fr' } })
  const server = source({ address: '192.0.2.1', headers: { 'user-agent': 'posthog-node/5.7.0', 'cf-ipcountry': 'FR' } })
  const value = (said: MessageSource, from = sent) => contexts.findOfMessage('p', from, said)?.value
  const place = { country: 'CH', region: 'Bern', city: 'Thun' }
  t.strictSame(value({}), { ...DEVICE, ...place, language: 'fr' })
  t.strictSame(value({ address: null }), { ...DEVICE, language: 'fr' }, 'no address at all')
  t.strictSame(value({ address: null, timezone: 'Europe/Vienna' }), { ...DEVICE, country: 'AT', language: 'fr' })
  t.strictSame(value({ address: '203.0.113.1' }), { ...DEVICE, language: 'fr' }, 'not the country of the request')
  t.match(value({ userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0' }), {
    ...place,
    browser: 'Firefox',
    os: 'Linux',
  })
  t.match(value({ language: 'de_AT' }), { language: 'de-AT' })
  t.match(value({ language: 'zh_Hans_CN' }), { language: 'zh-Hans-CN' })
  t.equal(value({}, server), undefined, 'a server says nothing about the person for whom it sends')
  t.strictSame(value({ address: '192.0.2.1' }, server), place)
  t.strictSame(value({ userAgent: CHROME, address: '192.0.2.1' }, server), { ...DEVICE, ...place })
  t.match(value({ userAgent: `${CHROME}\n\n\n\n\n\nFR\n\n` }), DEVICE, 'line breaks change nothing')
})

t.test('a context is found once, and written in a fixed order', async (t) => {
  const contexts = new Contexts(options)
  const sent = { timezone: 'Europe/Vienna', headers: { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1)' } }
  const first = contexts.find('p', source(sent))
  t.equal(first?.json, '{"browser":"Googlebot","browser_version":"2.1","device":"other","country":"AT","bot":true}')
  t.equal(String(first?.head), `{"context":${first?.json},`)
  t.equal(contexts.find('other', source(sent)), first, 'from the cache')
  t.equal(contexts.find('p', source({ headers: { 'user-agent': '' } })), null)
  for (let i = 0; i < 20_000; i++) contexts.find('p', source({ headers: { 'accept-language': `de-${i}` } }))
  t.not(contexts.find('p', source(sent)), first, 'the cache is bounded')
})

t.test('long headers do not fill the memory', async (t) => {
  const contexts = new Contexts(options)
  const send = (count: number) => {
    for (let i = 0; i < count; i++) {
      // As it comes from a socket: a slice of such a string keeps all of it.
      const agent = Buffer.alloc(16_000, `${i} `).toString('latin1')
      contexts.find('p', source({ headers: { 'user-agent': agent } }))
    }
  }
  const measure = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  send(10)
  const before = measure()
  send(4_000)
  const grown = measure() - before
  t.ok(contexts.find('p', source()) && grown < 16e6, `${grown} bytes`)
})

t.test('a database is read again when it changes, and the last valid version is kept', async (t) => {
  const file = join(await temporaryFolder(t), 'places.mmdb')
  const austria = {
    country: { iso_code: 'AT' },
    subdivisions: [{ names: { en: 'Vienna' } }],
    city: { names: { en: 'Vienna' } },
  }
  await writeFile(
    file,
    makeMmdb({ '192.0.2.1': austria, '192.0.2.2': { country_code: 'de', region: 'Bavaria', city: 'Hof' } }),
  )
  await writeFile(`${file}.new`, makeMmdb({ '192.0.2.1': { registered_country: { iso_code: 'CH' } } }))
  const warned: string[] = []
  const log = { ...silent, warn: (_: object, message: string) => void warned.push(message) }
  const geo = await GeoDatabase.open(file, { log: log as never, everyMs: 20 })
  t.teardown(() => geo.close())
  // As soon as it has been read.
  renameSync(`${file}.new`, file)
  t.strictSame(geo.find('192.0.2.1'), { country: 'AT', region: 'Vienna', city: 'Vienna' })
  t.strictSame(
    geo.find('::ffff:192.0.2.2'),
    { country: 'DE', region: 'Bavaria', city: 'Hof' },
    'texts, as IPinfo has them',
  )
  for (const address of ['192.0.2.3', '', 'nowhere', '::1', 'fe80::1%eth0', 'c000:201::1', 'c000:0201:ffff::'])
    t.strictSame(geo.find(address), {}, address)

  await until('the new database to be used', () => geo.find('192.0.2.1').country === 'CH')
  t.strictSame(geo.find('192.0.2.2'), {})

  await writeFile(file, 'no database')
  await appendFile(file, '!')
  await until('a warning', () => warned.length > 0)
  t.strictSame(geo.find('192.0.2.1'), { country: 'CH' })
  await t.rejects(GeoDatabase.open(file, { log: silent }))
  await t.rejects(GeoDatabase.open(`${file}.missing`, { log: silent }))
})

t.test('a damaged database costs no event', async (t) => {
  const file = join(await temporaryFolder(t), 'damaged.mmdb')
  const whole = makeMmdb({
    '192.0.2.1': { country: { iso_code: 'AT' }, subdivisions: [{ names: { en: 'Vienna' } }], location: { radius: 5 } },
    '192.0.2.2': { country: { iso_code: 'DE' } },
  })
  const begin = whole.indexOf('country') - 2
  const end = whole.lastIndexOf('country') - 2
  const warned: string[] = []
  const log = { ...silent, warn: (_: object, message: string) => void warned.push(message) }
  const timezone = 'Europe/Vienna'
  let lost = 0
  for (let at = begin; at < end; at++) {
    // Among others: a type that does not exist, a value beyond the end, and one that points to itself.
    for (const value of [0x00, 0x20, 0x3f, 0x5f, 0xff]) {
      const damaged = Buffer.from(whole)
      damaged[at] = value
      await writeFile(file, damaged)
      warned.length = 0
      const geo = await GeoDatabase.open(file, { log: log as never })
      const contexts = new Contexts({ ...options, geo })
      const find = (address: string) => contexts.find('p', source({ address, timezone }))?.value.country
      const countries = [find('192.0.2.1'), find('192.0.2.1'), find('192.0.2.2')]
      geo.close()
      if (warned.length > 0) lost++
      if (warned.length > 1 || countries[2] !== 'DE') t.fail(`byte ${at - begin} as ${value}: ${countries}, ${warned}`)
    }
  }
  t.ok(lost > 20, `${lost} files were damaged in a way that the reader reports`)
})
