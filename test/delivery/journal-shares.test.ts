import t, { type Test } from 'tap'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { type Client, PUBLIC_KEY, STORAGES, settingsFor, startApp, until } from '../helper.js'

const MIB = 1024 * 1024
const ATTACKS = 64

/** Adds keys to the service: a write key of the default project, and a secret key of another one. */
async function addKeys(client: Client): Promise<{ writeKey: string; otherKey: string }> {
  const [writeKey, otherKey] = [makeKey('write'), makeKey('secret')]
  const { clickhouse, close } = await openStore(client.config)
  const keys = [
    storedKey(writeKey, { projectId: 'default', kind: 'write' }),
    storedKey(otherKey, { projectId: 'other', kind: 'secret' }),
  ]
  await insertKeys(clickhouse, keys, Date.now())
  await close()
  const isKnown = async (key: string) => (await track(client, key)).statusCode === 200
  await until('the keys', async () => (await isKnown(otherKey)) && (await isKnown(writeKey)))
  return { writeKey, otherKey }
}

function track({ app }: Client, key: string) {
  const payload = { event: 'e', distinct_id: 'u' }
  return app.inject({ method: 'POST', url: '/public/track', headers: { 'x-api-key': key }, payload })
}

async function gauges({ app }: Client): Promise<Map<string, number>> {
  const { body } = await app.inject({ method: 'GET', url: '/metrics' })
  const lines = body.split('\n').filter((line) => line.startsWith('tallyhouse_journal'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

/** The n-th request of an attacker. */
type Attack = (client: Client, n: number) => Promise<{ statusCode: number; body: string }>

/** Attacks while another project, and the attacker's own server, send events, which are never refused. */
async function whileOthersSend(t: Test, client: Client, otherKey: string, attack: Attack) {
  const statuses = new Map<number, number>()
  const messages = new Set<string>()
  const others: number[] = []
  for (let n = 0; n < ATTACKS; n += 8) {
    const attacks = Array.from({ length: 8 }, (_, i) => attack(client, n + i))
    for (let i = 0; i < 4; i++) {
      others.push((await track(client, otherKey)).statusCode)
      others.push((await client.call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode)
    }
    for (const { statusCode, body } of await Promise.all(attacks)) {
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
      if (statusCode !== 200) messages.add(JSON.parse(body).error)
    }
  }
  t.strictSame(new Set(others), new Set([200]), 'nobody else is refused')
  return { statuses, messages: [...messages] }
}

const settings = { WORK_ADDRESS_LIMIT: '0', WORK_KEY_LIMIT: '0', JOURNAL_MAX_BYTES: String(4 * MIB) }
const large = 'x'.repeat(200_000)
const attacks = (writeKey: string): Record<string, Attack> => ({
  'large profiles with a write key': ({ app }, n) => {
    const payload = { distinct_id: `user ${n}`, properties: { large } }
    return app.inject({ method: 'POST', url: '/public/users/identify', headers: { 'x-api-key': writeKey }, payload })
  },
  'large sessions with a public key': ({ app }, n) => {
    const properties = { large: large.slice(0, 60_000) }
    const payload = { apiKey: PUBLIC_KEY, session_id: `session ${n}`, distinct_id: 'u', properties }
    return app.inject({ method: 'POST', url: '/public/sessions/start', payload })
  },
})

for (const storage of STORAGES) {
  t.test(`${storage}: stored profiles and sessions do not fill the journal`, async (t) => {
    const client = await startApp(t, { ...(await settingsFor(t, storage)), ...settings }, { keysRefreshMs: 200 })
    const { writeKey, otherKey } = await addKeys(client)
    for (const [name, attack] of Object.entries(attacks(writeKey))) {
      const { statuses } = await whileOthersSend(t, client, otherKey, attack)
      t.ok(statuses.get(200), `${name}: ${[...statuses].join('; ')}`)
      // The entries of this attack must not make the journal refuse the next one.
      await until('the store to have everything', async () => {
        const found = await gauges(client)
        return !found.get('tallyhouse_journal_bytes') && !found.get('tallyhouse_journal_state_bytes')
      })
    }
    const cached = (await gauges(client)).get('tallyhouse_journal_cached_state_bytes') ?? 0
    t.ok(cached > 0 && cached <= (4 * MIB) / 8, `the cache has ${cached} bytes`)
    const read = await client.call('GET', '/public/users/user%200')
    t.equal(read.json().user.properties.large, large, 'a profile that was cut is read from the store')
  })
}

t.test('servers: while nothing is stored, the project that fills the journal is refused, and no other', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), ...settings }
  const client = await startApp(t, { ...env, ROLE: 'api' }, { keysRefreshMs: 200 })
  const { writeKey, otherKey } = await addKeys(client)
  for (const [name, attack] of Object.entries(attacks(writeKey))) {
    const { statuses, messages } = await whileOthersSend(t, client, otherKey, attack)
    t.ok(statuses.get(503), `${name}: ${[...statuses].join('; ')}`)
    t.match(messages, [/project’s public and write keys have filled their share/])
  }
  const found = await gauges(client)
  t.ok((found.get('tallyhouse_journal_project_bytes{project="default",kind="page"}') ?? 0) > MIB, [...found].join('\n'))
  await startApp(t, { ...env, ROLE: 'writer' })
  await until('the store to have everything', async () => {
    const found = await gauges(client)
    const isNamed = [...found.keys()].some((name) => name.startsWith('tallyhouse_journal_project_bytes'))
    return found.get('tallyhouse_journal_bytes') === 0 && found.get('tallyhouse_journal_state_bytes') === 0 && !isNamed
  })
})
