import { readFile } from 'node:fs/promises'
import t from 'tap'
import { parse } from 'yaml'
import { ConfigError, journalUrls, loadConfig, SETTINGS, shardUrls, vendorHosts } from '../src/config.js'
import { parseSentinelUrl } from '../src/journal/redis/url.js'

/** Both, so that every ROLE is allowed. */
const SERVERS = { REDIS_URL: 'redis://127.0.0.1:6379', CLICKHOUSE_URL: 'http://127.0.0.1:8123/tallyhouse' }

/** The message of the ConfigError for these variables; undefined if there is none. */
function refusal(env: Record<string, string>): string | undefined {
  try {
    loadConfig(env)
    return undefined
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

t.test('the defaults', async (t) => {
  const config = loadConfig({})
  t.match(config, {
    HOST: '127.0.0.1',
    PORT: 3000,
    DATA_DIR: './data',
    ROLE: 'all',
    DELETE_USER_EVENTS: false,
    PURGE_INTERVAL: 1,
    LOG_LEVEL: 'info',
    BODY_LIMIT: 1024 * 1024,
    BATCH_BODY_LIMIT: 20 * 1024 * 1024,
    MAX_PROFILE_BYTES: 1024 * 1024,
    MAX_IDEMPOTENCY_KEYS: 10_000_000,
    MAX_INSERT_IDS: 10_000_000,
  })
  for (const name of ['CLICKHOUSE_URL', 'REDIS_URL', 'PUBLIC_API_KEY', 'SECRET_KEY'] as const) {
    t.equal(config[name], undefined, `${name} has none`)
  }
})

t.test('every variable of the contract', async (t) => {
  const env = {
    HOST: '0.0.0.0',
    PORT: '8080',
    CLICKHOUSE_URL: 'http://user:p%40ss@db.example:8123/analytics',
    REDIS_URL: 'redis://:secret@redis.example:6379/2',
    DATA_DIR: '/var/lib/tallyhouse',
    PUBLIC_API_KEY: 'pk_0123456789abcdef',
    SECRET_KEY: 'sk_0123456789abcdef',
    ROLE: 'writer',
    DELETE_USER_EVENTS: 'true',
    LOG_LEVEL: 'debug',
  }
  t.match(loadConfig(env), { ...env, PORT: 8080, DELETE_USER_EVENTS: true })
  t.equal(loadConfig({ DELETE_USER_EVENTS: 'false' }).DELETE_USER_EVENTS, false)
  t.equal(loadConfig({ PORT: '0' }).PORT, 0)
  t.equal(loadConfig({ PORT: '65535' }).PORT, 65535)
  for (const ROLE of ['all', 'api', 'writer']) t.equal(loadConfig({ ...SERVERS, ROLE }).ROLE, ROLE)
  for (const LOG_LEVEL of ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']) {
    t.equal(loadConfig({ LOG_LEVEL }).LOG_LEVEL, LOG_LEVEL)
  }
})

t.test('forms of the URLs', async (t) => {
  for (const CLICKHOUSE_URL of [
    'http://localhost:8123',
    'https://default:@host/db',
    'http://[::1]:8123/db',
    'http://host:8123/',
    'http://user:p%40ss@host:8123/data%2Fbase',
  ]) {
    t.equal(loadConfig({ CLICKHOUSE_URL }).CLICKHOUSE_URL, CLICKHOUSE_URL)
  }
  for (const REDIS_URL of [
    'redis://localhost',
    'rediss://user:pass@host:6380/1',
    'redis://[::1]:6379/',
    'redis://a?db=3',
  ]) {
    t.equal(loadConfig({ REDIS_URL }).REDIS_URL, REDIS_URL)
  }
})

t.test('the Sentinels of a Redis', async (t) => {
  const host = { host: 'host', port: 26379 }
  const rows: Record<string, object> = {
    'sentinel://host/main': { sentinels: [host], name: 'main', db: 0 },
    'sentinel://host,10.0.0.1:5,[::1]:6/main?db=2': {
      sentinels: [host, { host: '10.0.0.1', port: 5 }, { host: '::1', port: 6 }],
      name: 'main',
      db: 2,
    },
    'sentinel://us%40er:p%2Fss@host/a%20name': {
      sentinels: [host],
      name: 'a name',
      db: 0,
      username: 'us@er',
      password: 'p/ss',
    },
    'sentinel://:secret@host/main?sentinelUsername=watch&sentinelPassword=a%26b': {
      sentinels: [host],
      name: 'main',
      db: 0,
      password: 'secret',
      sentinelUsername: 'watch',
      sentinelPassword: 'a&b',
    },
  }
  for (const [REDIS_URL, address] of Object.entries(rows)) {
    t.equal(loadConfig({ REDIS_URL }).REDIS_URL, REDIS_URL)
    t.strictSame(parseSentinelUrl(REDIS_URL), address)
  }
})

t.test('a bad value is refused with a sentence that names the variable', async (t) => {
  const rows: Record<string, string[]> = {
    PORT: ['-1', '65536', '3000.5', '80a', 'abc', ' 80', '0x50', '1e3', '99999999999999999999', 'NaN'],
    CLICKHOUSE_URL: ['localhost:8123', 'tcp://host:9000', 'http://', 'https:///db', 'host', 'ftp://host'],
    REDIS_URL: [
      'localhost:6379',
      'http://host:6379',
      'redis:',
      'host',
      'sentinel:',
      'sentinel://host',
      'sentinel:///main',
    ],
    REDIS_REPLICAS: ['-1', '17', 'all'],
    ROLE: ['reader', 'ALL', 'all ', 'api,writer'],
    DELETE_USER_EVENTS: ['yes', '1', 'TRUE', ' true', 'on'],
    LOG_LEVEL: ['verbose', 'INFO', '30'],
    BODY_LIMIT: ['-1', '0', '1MB', '1.5'],
    BATCH_BODY_LIMIT: ['-1', '0', '20 MiB'],
  }
  for (const [name, values] of Object.entries(rows)) {
    for (const value of values) {
      const message = refusal({ [name]: value })
      t.match(message, new RegExp(`^${name}\\b.*\\.$`), `${name}=${value}`)
    }
  }
})

t.test('a URL that only begins like one is refused, too', async (t) => {
  const rows: Record<string, string[]> = {
    CLICKHOUSE_URL: [
      'http://host:99999/db',
      'http://user:hunter2@host:port/db',
      'http://ho st/db',
      'http://user:hunter2@',
      'http://user:hun%ter2@host/db',
      'http://user:1#hunter2@host/db',
      'http://host:8123/db/',
      'http://host:8123/a/b',
      'http://host:8123/?database=db',
      'http://host:8123/db?user=u&password=hunter2',
    ],
    REDIS_URL: [
      'redis://host:99999',
      'redis://:hunter2@host:port',
      'redis://user:1/hunter2@host',
      'redis://host/tallyhouse',
      'redis://host/1/',
      'redis://host?db=one',
      'sentinel://:hunter2@host:99999/main',
      'sentinel://:hunter2@host,/main',
      'sentinel://:hun%ter2@host/main',
      'sentinel://:hunter2@host/main?db=x',
      'sentinel://:hunter2@host/main?tls=true',
    ],
  }
  for (const [name, values] of Object.entries(rows)) {
    for (const value of values) {
      const message = refusal({ [name]: value })
      t.match(message, new RegExp(`^${name}\\b`), `${name}=${value}`)
      t.notMatch(message, 'hunter2', 'and not shown')
    }
  }
})

t.test('no message shows a key or a URL', async (t) => {
  const hidden: Record<string, string>[] = [
    { CLICKHOUSE_URL: 'clickhouse://user:hunter2@host' },
    { REDIS_URL: 'http://:hunter2@host' },
    { SECRET_KEY: 'hunter2' },
    { PUBLIC_API_KEY: 'hunter2' },
    { SECRET_KEY: 'hunter2hunter2hunter2', PUBLIC_API_KEY: 'hunter2hunter2hunter2' },
    { SECRET_KEY: 'hunter2hunter2hunter2', PORT: 'x' },
    { SECRET_KEY: 'hunter2hunter2hunter2', ROLE: 'api' },
  ]
  for (const env of hidden) {
    const message = refusal(env)
    t.notMatch(message, 'hunter2', Object.keys(env).join())
    t.ok(message === undefined || Object.keys(env).some((name) => message.includes(name)))
  }
  t.match(refusal({ PORT: 'hunter2' }), 'hunter2', 'other values are shown, to be found again')
})

t.test('a key that can be guessed is refused', async (t) => {
  for (const name of ['SECRET_KEY', 'PUBLIC_API_KEY']) {
    t.match(refusal({ [name]: 'k'.repeat(15) }), `${name} must be a key of at least 16 ASCII characters, `)
    t.equal(refusal({ [name]: 'k'.repeat(16) }), undefined)
  }
})

t.test('a key that no header can carry is refused', async (t) => {
  const good = 'k'.repeat(16)
  t.equal(refusal({ SECRET_KEY: `${good} ${good}~!` }), undefined)
  for (const bad of [`${good}\n`, `${good}\r\n`, `${good} `, ` ${good}`, `${good}\t${good}`, `${good}ü`]) {
    t.match(
      refusal({ SECRET_KEY: bad }),
      /^SECRET_KEY must be .* without leading or trailing spaces or line breaks/,
      JSON.stringify(bad),
    )
  }
})

t.test('CORS_ORIGIN accepts origins as browsers send them', async (t) => {
  for (const good of ['*', 'https://a.example', 'http://localhost:8080', 'https://a.example, https://b.example:8443']) {
    t.equal(refusal({ CORS_ORIGIN: good }), undefined, good)
  }
  for (const bad of [
    'a.example',
    'https://a.example/',
    'https://a.example/x',
    'https://A.example',
    'https://*.a.example',
    'https://a.example,*',
    'https://a,',
    '*,*',
  ]) {
    t.match(refusal({ CORS_ORIGIN: bad }), /^CORS_ORIGIN must be origins as browsers send them /, bad)
  }
  t.match(refusal({ CORS_ORIGIN: 'https://a.example:443' }), /^CORS_ORIGIN/, 'browsers leave the usual port out')
})

t.test('COUNTRY_HEADERS accepts names of headers, and GEO_DATABASE a file', async (t) => {
  t.equal(loadConfig({ COUNTRY_HEADERS: 'CF-IPCountry, x-country' }).COUNTRY_HEADERS, 'CF-IPCountry, x-country')
  for (const bad of ['a b', 'a,,b', 'a:b', 'ä'])
    t.match(refusal({ COUNTRY_HEADERS: bad }), /^COUNTRY_HEADERS must be names/)
  t.equal(loadConfig({ GEO_DATABASE: 'package.json' }).GEO_DATABASE, 'package.json')
  for (const bad of ['src', 'missing.mmdb'])
    t.match(refusal({ GEO_DATABASE: bad }), /^GEO_DATABASE must be an .mmdb file/)
  t.match(refusal({ CONTEXT: 'all' }), /^CONTEXT must be one of off, device, full, but is "all"/)
})

t.test('VENDOR_HOSTS accepts each host once, with an existing vendor', async (t) => {
  const good = 'posthog.example=posthog, a_b-1.EXAMPLE.com=rudder,127.0.0.1=segment,[::1]=jitsu,localhost=mixpanel'
  t.strictSame(
    [...vendorHosts(loadConfig({ VENDOR_HOSTS: good }))],
    [
      ['posthog.example', '/posthog'],
      ['a_b-1.example.com', '/segment'],
      ['127.0.0.1', '/segment'],
      ['[::1]', '/jitsu'],
      ['localhost', '/mixpanel'],
    ],
  )
  t.equal(vendorHosts(loadConfig({})).size, 0)
  for (const bad of [
    'posthog.example',
    'posthog.example=',
    '=posthog',
    'posthog.example=toString',
    'posthog.example=PostHog',
    'posthog.example=posthog,',
    'posthog.example=posthog,POSTHOG.example=segment',
    'posthog.example=posthog=segment',
    'posthog.example:8080=posthog',
    'https://posthog.example=posthog',
    'posthog.example/x=posthog',
    'posthog..example=posthog',
    '-x.example=posthog',
    'pösthog.example=posthog',
    '::1=posthog',
    'posthog.example posthog',
  ]) {
    t.match(refusal({ VENDOR_HOSTS: bad }), /^VENDOR_HOSTS must be host names without a port, .* but is /, bad)
  }
})

t.test('VENDOR_SCRIPTS accepts an existing folder', async (t) => {
  t.equal(refusal({ VENDOR_SCRIPTS: 'test' }), undefined)
  for (const bad of ['none', 'package.json', 'a\0b'])
    t.match(refusal({ VENDOR_SCRIPTS: bad }), /^VENDOR_SCRIPTS must be the/)
})

t.test('the two keys must differ', async (t) => {
  t.match(refusal({ SECRET_KEY: 'the-same-key-twice', PUBLIC_API_KEY: 'the-same-key-twice' }), /SECRET_KEY/)
})

t.test('an empty string is absent', async (t) => {
  const names = [
    'HOST',
    'PORT',
    'CLICKHOUSE_URL',
    'REDIS_URL',
    'DATA_DIR',
    'PUBLIC_API_KEY',
    'SECRET_KEY',
    'ROLE',
    'DELETE_USER_EVENTS',
    'LOG_LEVEL',
  ]
  t.strictSame(loadConfig(Object.fromEntries(names.map((name) => [name, '']))), loadConfig({}))
})

t.test('roles need the parts that services share', async (t) => {
  for (const ROLE of ['api', 'writer']) {
    t.match(refusal({ ROLE }), new RegExp(`ROLE=${ROLE} needs REDIS_URL`))
    t.match(refusal({ ROLE, REDIS_URL: '' }), /REDIS_URL/)
    t.match(refusal({ ROLE, CLICKHOUSE_URL: SERVERS.CLICKHOUSE_URL }), /REDIS_URL/)
    t.equal(refusal({ ROLE, ...SERVERS }), undefined)
    // An embedded engine belongs to one process: other processes would never see what this one stores.
    t.match(refusal({ ROLE, REDIS_URL: SERVERS.REDIS_URL }), /CLICKHOUSE_URL/)
  }
  t.equal(refusal({ REDIS_URL: SERVERS.REDIS_URL }), undefined, 'one service may have either')
  t.equal(refusal({ CLICKHOUSE_URL: SERVERS.CLICKHOUSE_URL }), undefined)
})

t.test('several workers need Redis, and a service that does everything', async (t) => {
  t.match(refusal({ WORKERS: '2' }), /WORKERS above 1 needs REDIS_URL/)
  t.match(refusal({ REDIS_REPLICAS: '1' }), /REDIS_REPLICAS above 0 needs REDIS_URL/)
  t.match(refusal({ WORKERS: '2', ROLE: 'api', ...SERVERS }), /WORKERS above 1 requires ROLE=all/)
  for (const WORKERS of ['0', '65', 'two']) t.match(refusal({ WORKERS, ...SERVERS }), /WORKERS must be/)
  t.equal(loadConfig({ WORKERS: '2', REDIS_URL: SERVERS.REDIS_URL }).WORKERS, 2)
  t.equal(loadConfig({}).WORKERS, 1)
})

t.test('several Redis servers are one lane each, unless LANES is greater', async (t) => {
  const sentinels = 'sentinel://a,b:26380/m0,sentinel://a,b:26380/m1'
  const lists: Record<string, string[]> = {
    'redis://a': ['redis://a'],
    'redis://a:6379,rediss://:p,w@b/1': ['redis://a:6379', 'rediss://:p,w@b/1'],
    [sentinels]: ['sentinel://a,b:26380/m0', 'sentinel://a,b:26380/m1'],
    'redis://a,sentinel://b,c/m,redis://d': ['redis://a', 'sentinel://b,c/m', 'redis://d'],
  }
  for (const [REDIS_URL, urls] of Object.entries(lists)) {
    const config = loadConfig({ REDIS_URL })
    t.strictSame(journalUrls(config), urls)
    t.equal(config.LANES, urls.length)
    t.equal(loadConfig({ REDIS_URL, LANES: '4' }).LANES, 4, 'of one Redis, or seeds of a cluster')
  }
  t.strictSame(journalUrls(loadConfig({})), [])
  t.equal(loadConfig({}).LANES, 1)
  t.equal(loadConfig({ LANES: '3' }).LANES, 3, 'an embedded journal may have lanes, too')
  for (const LANES of ['0', '65', 'two', '1.5']) t.match(refusal({ LANES }), /^LANES must be a number of lanes/)
  const many = Array.from({ length: 65 }, (_, i) => `redis://r${i}`).join()
  t.match(refusal({ REDIS_URL: many }), /^REDIS_URL names 65 servers/)
  for (const REDIS_URL of ['redis://a,b', 'redis://a,', 'redis://a,http://b', 'redis://a, redis://b'])
    t.match(refusal({ REDIS_URL }), /^REDIS_URL must be/, REDIS_URL)
})

t.test('several ClickHouse servers are shards, each with replicas', async (t) => {
  const lists: Record<string, string[][]> = {
    'http://a:8123/db': [['http://a:8123/db']],
    'http://a/db,https://u:p,|w@b/db': [['http://a/db'], ['https://u:p,|w@b/db']],
    'http://a|http://b,http://c|http://d': [
      ['http://a', 'http://b'],
      ['http://c', 'http://d'],
    ],
  }
  for (const [CLICKHOUSE_URL, shards] of Object.entries(lists)) {
    t.strictSame(shardUrls(loadConfig({ CLICKHOUSE_URL, LANES: '2' })), shards)
  }
  t.strictSame(shardUrls(loadConfig({})), [])
  const two = 'http://a,http://b'
  t.match(refusal({ CLICKHOUSE_URL: two }), /^CLICKHOUSE_URL names 2 shards, but LANES is only 1,/)
  t.match(refusal({ CLICKHOUSE_URL: two, REDIS_URL: 'redis://a' }), /Set LANES to 2 or more\.$/)
  t.equal(refusal({ CLICKHOUSE_URL: two, REDIS_URL: 'redis://a,redis://b' }), undefined)
  const LANES = '4'
  for (const CLICKHOUSE_URL of [
    'http://a,tcp://b',
    'http://a,b',
    'http://a|',
    'http://a,redis://b',
    'http://a| http://b',
  ])
    t.match(refusal({ CLICKHOUSE_URL, LANES }), /^CLICKHOUSE_URL must be/, CLICKHOUSE_URL)
  for (const CLICKHOUSE_URL of [
    'http://a/db,http://b/db,http://a/db',
    'http://u:x@a/db|http://a:80/db',
    'http://a,http://a/default',
    'http://a/db,http://a/d%62',
  ])
    t.match(refusal({ CLICKHOUSE_URL, LANES }), /^CLICKHOUSE_URL names a server twice/, CLICKHOUSE_URL)
  t.equal(refusal({ CLICKHOUSE_URL: 'http://a/db0,http://a/db1', LANES }), undefined, 'two databases of one server')
})

t.test('the home lane is one of the lanes', async (t) => {
  t.equal(loadConfig({}).HOME_LANE, undefined)
  t.equal(loadConfig({ LANES: '3', HOME_LANE: '2' }).HOME_LANE, 2)
  t.match(refusal({ LANES: '3', HOME_LANE: '3' }), 'HOME_LANE must be below the number of lanes, 3, but is 3.')
  for (const HOME_LANE of ['-1', '64', 'first']) t.match(refusal({ HOME_LANE }), /^HOME_LANE must be the number/)
})

t.test('the name of a cluster is one that ClickHouse can have', async (t) => {
  t.equal(loadConfig({ CLICKHOUSE_CLUSTER: 'main-eu_1.a' }).CLICKHOUSE_CLUSTER, 'main-eu_1.a')
  for (const CLICKHOUSE_CLUSTER of ["a'b", 'a b', '{cluster}', '1st', 'x'.repeat(129)])
    t.match(refusal({ CLICKHOUSE_CLUSTER }), /^CLICKHOUSE_CLUSTER must be/, CLICKHOUSE_CLUSTER)
})

t.test('trusted proxies are named: neither a number of them nor all addresses are allowed', async (t) => {
  for (const TRUST_PROXY of ['10.0.0.1', '10.0.0.0/8,192.168.1.1', ' ::1 , fd00::/8', '127.0.0.1/32']) {
    t.equal(loadConfig({ TRUST_PROXY }).TRUST_PROXY, TRUST_PROXY)
  }
  const wrong = ['true', '0', '1', '10.0.0', '10.0.0.0/0', '10.0.0.0/33', '::/0', 'fd00::/129', '10.0.0.1,']
  for (const TRUST_PROXY of [
    ...wrong,
    'proxy.example',
    '10.0.0.1 10.0.0.2',
    '10.0.0.0/8/8',
    '10.0.0.1,2',
    'fe80::1%eth0',
  ]) {
    t.match(refusal({ TRUST_PROXY }), /^TRUST_PROXY must be .*10\.1\.0\.0\/16.*, but is "/, TRUST_PROXY)
  }
  t.equal(loadConfig({}).TRUST_PROXY, undefined)
})

t.test('unknown variables are ignored', async (t) => {
  const config = loadConfig({ PATH: '/bin', port: '1', UNKNOWN: 'x' })
  t.strictSame(config, loadConfig({}))
})

t.test('no state is shared between two calls', async (t) => {
  loadConfig({ PORT: '1', DELETE_USER_EVENTS: 'true' })
  t.equal(loadConfig({}).PORT, 3000)
  t.equal(loadConfig({}).DELETE_USER_EVENTS, false)
})

interface ComposeService {
  command?: string
  environment?: Record<string, string>
  volumes?: string[]
  mem_limit?: string
  cap_drop?: string[]
  security_opt?: string[]
  logging?: { options: Record<string, string> }
}

t.test('the Compose file', async (t) => {
  const file = parse(await readFile('docker-compose.yml', 'utf8'), { merge: true })
  const services: Record<string, ComposeService> = file.services

  t.test('passes every setting on', async (t) => {
    const environment = services.tallyhouse?.environment ?? {}
    // Set by the image, or used only within the container.
    const fixed = ['HOST', 'PORT', 'DATA_DIR']
    t.strictSame(Object.keys(environment).sort(), SETTINGS.filter((name) => !fixed.includes(name)).sort())
    for (const [name, value] of Object.entries(environment)) {
      if (/_URL$/.test(name)) t.match(value, /^(redis|http):/)
      else t.equal(value, `\${${name}:-}`)
    }
    const table = await readFile('docs/settings.md', 'utf8')
    for (const name of SETTINGS)
      t.match(table, new RegExp(`^\\| .*\`${name}\`.*\\|$`, 'm'), `docs/settings.md: ${name}`)
  })

  t.test('bounds memory, logs and rights of every container', async (t) => {
    for (const [name, { mem_limit, cap_drop, security_opt, logging }] of Object.entries(services)) {
      t.match(mem_limit, /\d+[mg]\}?$/, name)
      t.strictSame(cap_drop, ['ALL'], name)
      t.strictSame(security_opt, ['no-new-privileges:true'], name)
      t.match(logging?.options, { 'max-size': /^\d+m$/, 'max-file': /^\d+$/ }, name)
    }
    t.match(services.redis?.command, /--maxmemory \S+ --maxmemory-policy noeviction/)
  })

  t.test('lets ClickHouse write backups where the manual says', async (t) => {
    const mounted = services.clickhouse?.volumes?.find((volume) => volume.includes('/config.d/'))
    const config = await readFile(mounted?.split(':')[0] ?? '', 'utf8')
    const path = /<allowed_path>(.*)<\/allowed_path>/.exec(config)?.[0]
    t.ok(path)
    t.ok((await readFile('docs/backup.md', 'utf8')).includes(path ?? ''))
  })
})
