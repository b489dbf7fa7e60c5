import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { loadConfig, SETTINGS } from '../../src/config.js'

/** The manifests for deployments; every name in them must exist, and the service must start with their settings. */
const KUBERNETES = 'docs/kubernetes'
const COMPOSE = ['docker-compose.yml', 'docs/compose/two-lanes.yml']

type Environment = { name: string; value?: string; valueFrom?: { secretKeyRef?: { name: string; key: string } } }[]
interface Container {
  name: string
  image: string
  env?: Environment
  envFrom?: { configMapRef: { name: string } }[]
  ports: { name: string; containerPort: number }[]
  resources: { requests?: object; limits?: object }
}
interface Pod {
  metadata: { labels: Record<string, string> }
  spec: { containers: Container[] }
}
interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string }
  data?: Record<string, string>
  stringData?: Record<string, string>
  spec: {
    replicas: number
    serviceName?: string
    selector: { matchLabels?: Record<string, string> } & Record<string, unknown>
    template: Pod
    ports?: { port: number; targetPort?: string }[]
  }
}

async function manifests(): Promise<Manifest[]> {
  const files = (await readdir(KUBERNETES)).filter((name) => name.endsWith('.yaml'))
  const texts = await Promise.all(files.map((name) => readFile(join(KUBERNETES, name), 'utf8')))
  return texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as Manifest))
}

const all = await manifests()
const named = (kind: string, name: string) => all.find((one) => one.kind === kind && one.metadata.name === name)
const workloads = all.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
const isIn = (labels: Record<string, string> = {}, of: Record<string, string>) =>
  Object.entries(labels).length > 0 && Object.entries(labels).every(([name, value]) => of[name] === value)

/** A container's environment as Kubernetes builds it: `$(NAME)` is replaced by the value of an earlier variable. */
function environmentOf({ env = [], envFrom = [] }: Container): Record<string, string> {
  const made: Record<string, string> = {}
  for (const { configMapRef } of envFrom) Object.assign(made, named('ConfigMap', configMapRef.name)?.data)
  for (const { name, value, valueFrom } of env) {
    const { secretKeyRef } = valueFrom ?? {}
    const given = value ?? named('Secret', secretKeyRef?.name ?? '')?.stringData?.[secretKeyRef?.key ?? '']
    if (given === undefined) throw new Error(`${name} has no value`)
    made[name] = given.replace(/\$\((\w+)\)/g, (_, earlier: string) => made[earlier] ?? `missing ${earlier}`)
  }
  return made
}

t.test('Kubernetes would take every manifest', async (t) => {
  t.ok(all.length > 10)
  for (const manifest of all) {
    const models = await import(`kubernetes-models/${manifest.apiVersion}`)
    const model = new models[manifest.kind](manifest)
    t.doesNotThrow(() => model.validate(), `${manifest.kind} ${manifest.metadata.name}`)
  }
  const [{ kind, ...wrong } = {} as Manifest] = workloads
  const models = await import('kubernetes-models/apps/v1')
  t.throws(() => new models.StatefulSet({ ...wrong, spec: { replicas: 'two' } } as never).validate())
})

t.test('every selector, service, port and secret that a manifest names exists', async (t) => {
  for (const { kind, metadata, spec } of workloads) {
    const { labels } = spec.template.metadata
    t.ok(isIn(spec.selector.matchLabels, labels), `${kind} ${metadata.name}: its own pods`)
    const service = named('Service', spec.serviceName ?? metadata.name)
    t.ok(service && isIn(service.spec.selector as Record<string, string>, labels), `${metadata.name}: its service`)
    const budget = named('PodDisruptionBudget', metadata.name)
    t.ok(budget && isIn(budget.spec.selector.matchLabels, labels), `${metadata.name}: its disruption budget`)
    for (const container of spec.template.spec.containers) {
      t.doesNotThrow(() => environmentOf(container), `${metadata.name}: its environment`)
      t.match(container.resources, { requests: {}, limits: {} }, `${metadata.name}: its resources`)
      const ports = container.ports.map(({ name, containerPort }) => `${name} ${containerPort}`).join()
      for (const { port, targetPort } of service?.spec.ports ?? []) {
        t.match(ports, targetPort ?? new RegExp(` ${port}\\b`), `${metadata.name}: port ${port}`)
      }
    }
  }
})

t.test('the service starts with the settings of its Deployment, one Redis and one shard for each lane', async (t) => {
  const [container] = named('Deployment', 'tallyhouse')?.spec.template.spec.containers ?? []
  if (!container) throw new Error('there is no container')
  const environment = environmentOf(container)
  // The passwords go into the URLs.
  const own = ['REDIS_PASSWORD', 'CLICKHOUSE_PASSWORD']
  for (const name of Object.keys(environment)) t.ok(SETTINGS.includes(name) || own.includes(name), name)
  const config = loadConfig(environment)
  for (const [urls, name] of [
    [config.REDIS_URL, 'redis'],
    [config.CLICKHOUSE_URL, 'clickhouse'],
  ] as const) {
    const hosts = [...(urls ?? '').matchAll(/@([\w.-]+)/g)].map(([, host]) => host)
    const pods = Array.from(
      { length: named('StatefulSet', name)?.spec.replicas ?? 0 },
      (_, i) => `${name}-${i}.${name}`,
    )
    t.strictSame(hosts, pods)
    t.equal(hosts.length, config.LANES)
  }
})

t.test('the service starts with the settings of each Compose file', async (t) => {
  for (const file of COMPOSE) {
    const text = await readFile(file, 'utf8')
    const { services, volumes } = parse(text, { merge: true })
    const environment: Record<string, string> = {}
    for (const [name, value] of Object.entries(services.tallyhouse.environment)) {
      t.ok(SETTINGS.includes(name), `${file}: ${name}`)
      environment[name] = String(value).replace(/\$\{\w+:-([^}]*)\}/g, '$1')
    }
    const config = loadConfig(environment)
    const hosts = [...`${config.REDIS_URL},${config.CLICKHOUSE_URL}`.matchAll(/(?:\/\/|@)([\w-]+):\d/g)].map(
      ([, h]) => h,
    )
    t.ok(hosts.length >= 2)
    for (const host of hosts) t.ok(services[host ?? ''], `${file}: ${host}`)
    t.strictSame(
      Object.keys(services.tallyhouse.depends_on).sort(),
      hosts.filter((host) => host !== 'tallyhouse').sort(),
    )
    for (const [name, service] of Object.entries<{ volumes?: string[] }>(services)) {
      for (const volume of service.volumes ?? []) {
        const [source = ''] = volume.split(':')
        const exists = source.startsWith('.') ? existsSync(join(dirname(file), source)) : source in volumes
        t.ok(exists, `${file}: ${name} has ${source}`)
      }
    }
  }
})

t.test('the image gets every file that it copies', async (t) => {
  const [dockerfile, ignored] = [await readFile('Dockerfile', 'utf8'), await readFile('.dockerignore', 'utf8')]
  const sent = [...ignored.matchAll(/^!(.+)$/gm)].map(([, name]) => name)
  const copied = [...dockerfile.matchAll(/^COPY (?!--)(.+) \S+$/gm)].flatMap(([, names = '']) => names.split(' '))
  t.ok(copied.length > 5)
  for (const name of copied) t.ok(existsSync(name) && sent.includes(name), name)
})

t.test('the Compose file passes every setting on except its own', async (t) => {
  const { services } = parse(await readFile('docker-compose.yml', 'utf8'), { merge: true })
  const own = ['HOST', 'PORT', 'DATA_DIR']
  const passed = Object.keys(services.tallyhouse.environment)
  t.strictSame(passed.sort(), SETTINGS.filter((name) => !own.includes(name)).sort())
})

t.test('ClickHouse may set priorities, without which questions are not held back', async (t) => {
  for (const file of COMPOSE) {
    const { services } = parse(await readFile(file, 'utf8'), { merge: true })
    for (const [name, service] of Object.entries<{ cap_add?: string[]; entrypoint?: string[] }>(services)) {
      if (!name.startsWith('clickhouse')) continue
      t.ok(service.cap_add?.includes('SYS_NICE'), `${name} of ${file}`)
      t.ok(service.entrypoint?.includes('--ambient-caps=+sys_nice'), 'its own user would not have it')
    }
  }
  for (const { metadata, spec } of workloads.filter(({ metadata }) => metadata.name === 'clickhouse')) {
    const [container] = spec.template.spec.containers as (Container & {
      args?: string[]
      securityContext: { capabilities: { add?: string[] }; runAsUser: number }
    })[]
    t.ok(container?.securityContext.capabilities.add?.includes('SYS_NICE'), metadata.name)
    t.equal(container?.securityContext.runAsUser, 0, 'added capabilities are only given to root')
    t.ok(container?.args?.includes('--ambient-caps=+sys_nice'), 'its own user would not have it')
  }
})

t.test("ClickHouse's own logs are limited in the same way in Compose and in Kubernetes", async (t) => {
  const logs = (text = '') => [...text.matchAll(/^ *(<\w*(?:_log|logger)\b.*)$/gm)].map(([, line]) => line)
  const inCompose = logs(await readFile('docs/compose/clickhouse.xml', 'utf8'))
  t.ok(inCompose.length > 5)
  t.strictSame(logs(named('ConfigMap', 'clickhouse')?.data?.['tallyhouse.xml']), inCompose)
})
