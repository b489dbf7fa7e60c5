/**
 * The map of rooms (docs/ARCHITECTURE.md) as rules, type imports included. `npm run lint` checks them.
 *
 * Each room lists what else it may import from; what is not listed is refused. A file beside the rooms is a room of its own.
 */
const ROOMS = {
  lib: [],
  json: ['lib'],
  // The names that users may have are a part of the contract.
  contract: ['json', 'model/user-names.ts'],
  model: ['json', 'contract', 'lib'],
  keys: ['model', 'contract', 'lib'],
  vendors: ['json', 'contract', 'model'],
  journal: ['model', 'contract', 'lib'],
  clickhouse: ['contract', 'config.ts', 'lib'],
  store: ['clickhouse', 'journal', 'model', 'keys', 'contract', 'json', 'lib'],
  pipeline: ['store', 'journal', 'clickhouse', 'vendors', 'model', 'contract', 'json', 'config.ts', 'lib'],
  live: ['pipeline', 'store', 'clickhouse', 'journal', 'model', 'contract', 'lib'],
  questions: ['pipeline', 'store', 'clickhouse', 'model', 'contract', 'lib'],
  mcp: ['contract', 'json', 'lib', 'version.ts'],
  erasure: ['pipeline', 'store', 'clickhouse', 'journal', 'model', 'contract', 'lib'],
  damage: ['store', 'clickhouse', 'journal', 'lib'],
  http: ['clickhouse/errors.ts', 'contract', 'model', 'keys', 'journal', 'json', 'version.ts', 'lib'],
  routes: [
    ...[
      'http',
      'questions',
      'live',
      'mcp',
      'erasure',
      'damage',
      'metrics',
      'pipeline',
      'store',
      'clickhouse',
      'journal',
      'keys',
      'vendors',
      'model',
    ],
    ...['contract', 'json', 'version.ts', 'lib'],
  ],
  metrics: [
    'http',
    'damage',
    'live',
    'pipeline',
    'store',
    'clickhouse',
    'journal',
    'model',
    'contract',
    'version.ts',
    'lib',
  ],
  process: ['app.ts', 'config.ts', 'keys', 'metrics', 'lib'],
  client: ['contract', 'json'],
  browser: [],
  web: ['contract'],
  cli: [
    ...[
      'client',
      'mcp',
      'contract',
      'vendors',
      'json',
      'model',
      'config.ts',
      'keys',
      'store',
      'clickhouse',
      'journal',
      'pipeline',
      'damage',
    ],
    ...['main.ts', 'version.ts', 'lib'],
  ],
  'app.ts': [
    ...[
      'routes',
      'http',
      'metrics',
      'questions',
      'live',
      'erasure',
      'damage',
      'pipeline',
      'store',
      'clickhouse',
      'journal',
      'model',
      'keys',
    ],
    ...['contract', 'json', 'config.ts', 'version.ts', 'lib'],
  ],
  'main.ts': ['process', 'app.ts', 'config.ts', 'keys', 'metrics', 'version.ts', 'lib'],
  'cli.ts': ['cli', 'version.ts', 'lib'],
  'config.ts': ['contract', 'lib'],
  'version.ts': [],
}

const pathOf = (room) => (room.endsWith('.ts') ? `^src/${room.replace('.', '\\.')}$` : `^src/${room}/`)

const rooms = Object.entries(ROOMS).map(([room, others]) => ({
  name: `imports-of-${room}`,
  comment: `${room} may import from nothing of the house but: ${others.join(', ') || 'nothing'}`,
  severity: 'error',
  from: { path: pathOf(room) },
  to: { path: '^src/', pathNot: [room, ...others].map(pathOf) },
}))

/** Where a package may be imported; a type is an import, too. */
const HOMES = {
  fastify: ['src/http/', 'src/routes/', 'src/app.ts', 'src/metrics/'],
  ioredis: [
    'src/journal/redis/',
    'src/journal/redis/open.ts',
    'src/journal/redis/cluster.ts',
    'src/http/admission/rate-limits.ts',
  ],
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
      comment: 'a route never imports another one',
      severity: 'error',
      from: { path: '^src/routes/([^/]+)' },
      to: { path: '^src/routes/', pathNot: '^src/routes/$1' },
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
