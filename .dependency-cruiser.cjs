/**
 * The map of rooms (docs/ARCHITECTURE.md) as rules, type imports included. `npm run lint` checks them.
 *
 * From the ground up, in the order of the map. Each room lists the earlier rooms that it may import from; all others are
 * refused. A file next to the rooms is a room of its own.
 */
const ROOMS = {
  lib: '',
  json: '',
  contract: '',
  'version.ts': '',
  web: 'contract',
  browser: '',
  client: 'contract json',
  model: 'contract json',
  keys: 'contract model lib',
  vendors: 'contract json model',
  journal: 'contract model lib',
  // A URL of Redis is checked as it will be read.
  'config.ts': 'contract journal/redis/url.ts lib',
  clickhouse: 'contract config.ts version.ts lib',
  store: 'clickhouse journal keys model contract json config.ts lib',
  http: 'clickhouse/errors.ts journal keys model contract json version.ts lib',
  reads: 'store clickhouse journal model contract lib',
  facts: 'reads store clickhouse journal model contract lib',
  context: 'contract model lib',
  ingest: 'reads store clickhouse journal model contract json lib',
  states: 'ingest store journal model contract lib',
  users: 'states reads store clickhouse journal vendors model contract lib',
  lanes: 'users states ingest reads store clickhouse journal model contract config.ts lib',
  live: 'reads store clickhouse journal model contract lib',
  mcp: 'contract json version.ts lib',
  questions: 'users/aliases reads store clickhouse model contract lib',
  damage: 'store clickhouse journal contract lib',
  // The default definition of sessions is read as that of a question.
  projects:
    'questions/faults.ts questions/patterns.ts questions/strict-reader.ts users states ingest reads store clickhouse journal model contract json lib',
  metrics: 'http damage live projects lanes users states store clickhouse journal model contract version.ts lib',
  routes:
    'http metrics mcp questions context live damage projects lanes users states ingest reads store clickhouse journal keys vendors model ' +
    'contract json version.ts lib',
  process: 'metrics keys config.ts lib',
  'parts.ts':
    'http metrics questions live damage facts projects lanes users reads store clickhouse keys model contract config.ts lib',
  'app.ts': 'parts.ts routes http questions context projects users reads store config.ts lib',
  'main.ts': 'process app.ts metrics config.ts lib',
  cli:
    'main.ts client mcp damage projects lanes ingest store clickhouse journal keys vendors model contract json config.ts version.ts ' +
    'lib',
  'cli.ts': 'cli lib',
}

const listOthers = (others) => others.split(' ').filter(Boolean)

const names = Object.keys(ROOMS)
for (const [room, others] of Object.entries(ROOMS)) {
  const earlier = names.slice(0, names.indexOf(room))
  const upward = listOthers(others).find((other) => !earlier.some((name) => `${other}/`.startsWith(`${name}/`)))
  if (upward) throw new Error(`${room} may not import from ${upward}, which is not below it`)
}

const pathOf = (room) => (room.endsWith('.ts') ? `^src/${room.replace('.', '\\.')}$` : `^src/${room}/`)

const rooms = Object.entries(ROOMS).map(([room, others]) => ({
  name: `imports-of-${room}`,
  comment: `of the other rooms, ${room} may import: ${others || 'none'}`,
  severity: 'error',
  from: { path: pathOf(room) },
  to: { path: '^src/', pathNot: [room, ...listOthers(others)].map(pathOf) },
}))

/** Where a package may be imported; a type is an import, too. */
const HOMES = {
  fastify: ['src/http/', 'src/routes/', 'src/app.ts', 'src/parts.ts', 'src/metrics/'],
  ioredis: ['src/journal/redis/', 'src/http/admission/rate-limits.ts'],
  lmdb: ['src/journal/lmdb'],
  '@modelcontextprotocol/server': ['src/mcp/'],
  '@clickhouse/client': ['src/clickhouse/', 'src/store/', 'src/questions/'],
}

const packages = Object.entries(HOMES).map(([name, homes]) => ({
  name: `home-of-${name}`,
  comment: `${name} is imported only in ${homes.join(', ')}`,
  severity: 'error',
  from: { path: '^src/', pathNot: homes.map((home) => `^${home}`) },
  to: { path: `node_modules/${name}/` },
}))

module.exports = {
  forbidden: [
    { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'rooms-are-listed',
      comment: 'a new room needs its line in ROOMS',
      severity: 'error',
      from: { path: '^src/', pathNot: Object.keys(ROOMS).map(pathOf) },
      to: {},
    },
    ...rooms,
    {
      name: 'routes-apart',
      comment: 'a route imports its calls, such as keys.calls.ts, and never another route',
      severity: 'error',
      from: { path: '^src/routes/([^/.]+)' },
      to: { path: '^src/routes/', pathNot: '^src/routes/$1[/.]' },
    },
    ...packages,
    {
      name: 'no-input-or-output',
      comment: 'these rooms are pure: the same in, the same out',
      severity: 'error',
      from: { path: '^src/(model|contract|json|vendors)/' },
      to: { path: '^(node:)?(fs|fs/promises|net|http|https|child_process|process)$', dependencyTypes: ['core'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.tsx', '.js', '.mjs'] },
  },
}
