import t from 'tap'
import { runCommand } from '../cli/command-line.js'
import { SECRET_KEY, settingsFor } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { startSdkApp } from './vendors/sdk-app.js'

// Anybody can use a key that is in a page. Its events must not prevent those of the project's server from being stored.

t.test('keys of pages and of servers', async (t) => {
  const env = { FACTS: 'off', MAX_INSERT_IDS: '1000', MAX_IDEMPOTENCY_KEYS: '20' }
  const { client, keys, inject, events } = await startSdkApp(t, env, await settingsFor(t, 'servers'))
  const post = async (key: string, url: string, payload: object, headers: Record<string, string> = {}) => {
    return await inject({ method: 'POST', url, payload, headers: { 'x-api-key': key, ...headers } })
  }
  const names = async () => (await events()).map(({ event }: { event: string }) => event)

  t.test('ids of a page key do not make events of a secret key known, nor vice versa', async (t) => {
    const event = { distinct_id: 'u', insert_id: 'order-1' }
    for (const [key, name] of [
      [keys.write, 'forged'],
      [keys.secret, 'true'],
      [keys.write, 'forged again'],
      [keys.secret, 'true again'],
    ] as const) {
      const url = name.endsWith('again') ? '/public/track/batch' : '/public/track'
      const one = { event: name, ...event }
      t.equal((await post(key, url, url.endsWith('batch') ? { events: [one] } : one)).statusCode, 200)
    }
    t.strictSame((await names()).sort(), ['forged', 'true'])
  })

  t.test('the same is true for SDKs, and for profile changes', async (t) => {
    const batch = { batch: [{ type: 'track', event: 'sdk', userId: 'u', messageId: 'm' }] }
    for (const key of [keys.write, keys.secret, keys.secret]) {
      const authorization = `Basic ${Buffer.from(`${key}:`).toString('base64')}`
      const sent = await inject({
        method: 'POST',
        url: '/segment/v1/batch',
        payload: batch,
        headers: { authorization },
      })
      t.equal(sent.statusCode, 200)
    }
    t.equal((await names()).filter((name: string) => name === 'sdk').length, 2)
    const add = { distinct_id: 'u', operations: { $add: { n: 1 } } }
    for (const key of [keys.write, keys.secret, keys.secret]) {
      t.equal((await post(key, '/public/users/profile', add, { 'idempotency-key': 'add' })).statusCode, 200)
    }
    const headers = { 'x-api-key': keys.read }
    t.equal((await inject({ url: '/public/users/u', headers })).json().user.properties.n, 2)
  })

  t.test(
    'Idempotency-Keys of a page key do not conflict with those of a secret key, nor use up their limit',
    async (t) => {
      const send = (key: string, name: string, event: string) => {
        return post(key, '/public/track', { event, distinct_id: 'u' }, { 'idempotency-key': name })
      }
      t.equal((await send(keys.write, 'a', 'one')).statusCode, 200)
      t.equal((await send(keys.secret, 'a', 'another')).statusCode, 200)
      t.equal((await send(keys.secret, 'a', 'a third')).statusCode, 409)
      const codes = []
      for (let i = 0; i < 4; i++) codes.push((await send(keys.write, `k${i}`, 'x')).statusCode)
      t.equal(codes.at(-1), 429, 'a page may use a tenth')
      for (let i = 0; i < 4; i++) t.equal((await send(keys.secret, `k${i}`, 'x')).statusCode, 200)
    },
  )

  t.test('a command counts and forgets ids, and the metrics show senders with too many', async (t) => {
    for (let from = 0; from < 2000; from += 250) {
      const batch = Array.from({ length: 250 }, (_, i) => ({
        event: 'e',
        distinct_id: 'u',
        insert_id: `${from + i}`,
      }))
      t.equal((await post(keys.write, '/public/track/batch', { events: batch })).statusCode, 200)
    }
    const metrics = (await inject({ url: '/metrics' })).body
    const [, ids = ''] = /tallyhouse_insert_ids\{project="sdk",kind="page"[^}]*\} (\d+)/.exec(metrics) ?? []
    t.ok(Number(ids) >= 250 && Number(ids) <= 500, ids)
    t.match(metrics, /tallyhouse_insert_id_window_seconds\{project="sdk",kind="page"[^}]*\} \d/)
    t.notMatch(metrics, /tallyhouse_insert_ids\{project="sdk",kind="secret"/)
    t.match(metrics, /tallyhouse_remembered_insert_ids(\{[^}]*\})? \d/)
    const url = await addressOf(client)
    const run = (...args: string[]) => runCommand(['ids', ...args, '--url', url], '', { SECRET_KEY: keys.secret })
    t.match((await run('list')).stdout, /KIND +LANE +IDS +KNOWN\npage +0 +\d+ +since 20\S+Z\nsecret +0 +\d+ +7 days\n/)
    t.match(await run('forget', 'default'), { code: 1, stderr: /The key belongs to project sdk/ })
    t.match(await run('forget', 'sdk', '--kind', 'page'), { code: 0, stderr: `${ids} ids of sdk forgotten.` })
    const { stdout } = await run('list', '--json')
    t.match(JSON.parse(stdout), { kind: 'secret', lane: 0, since: null }, 'one line')
    const event = { event: 'e', distinct_id: 'u', insert_id: 'after' }
    t.equal((await post(keys.write, '/public/track', event)).statusCode, 200)
    t.match((await run('list')).stdout, /page +0 +1 +since 20/)
    const later = (await inject({ url: '/metrics' })).body
    t.match(later, /tallyhouse_remembered_insert_ids/)
    t.notMatch(later, /window_seconds\{project="sdk",kind="page"/, 'ids that were forgotten on request are no warning')
    for (const args of [[], ['forget'], ['forget', 'sdk', '--kind', 'x'], ['list', 'sdk']]) {
      t.equal((await run(...args)).code, 2, args.join(' '))
    }
    t.equal(
      (await inject({ method: 'DELETE', url: '/public/ids', headers: { 'x-api-key': keys.write } })).statusCode,
      403,
    )
    const wrong = await inject({ method: 'DELETE', url: '/public/ids?kind=x', headers: { 'x-api-key': keys.secret } })
    t.equal(wrong.statusCode, 400)
    t.not(keys.secret, SECRET_KEY)
  })
})
