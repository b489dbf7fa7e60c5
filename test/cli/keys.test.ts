import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../../src/cli/keys.js'
import type { KeysFound } from '../../src/keys/key-refresh.js'
import { type KeyRecord, makeKey } from '../../src/keys/keys.js'
import { listAuditEntries } from '../../src/store/audit.js'
import type { StoredKeyUse } from '../../src/store/key-usage.js'
import { openStore } from '../../src/store/open.js'
import { type Client, SECRET_KEY, settingsFor, startApp, startClickHouse, temporaryFolder, until } from '../helper.js'
import { callCommand } from './command-line.js'

const run = (args: string[], env: NodeJS.ProcessEnv) => callCommand(command, args, env)

const NO_KEY = /[ps]k_[\w-]{43}/

/** Parses the keys that a command printed, by kind. */
function printedKeys(stdout: string): { publicKey: string; secretKey: string } {
  return {
    publicKey: /^PUBLIC_API_KEY=(pk_[\w-]{43})$/m.exec(stdout)?.[1] ?? '',
    secretKey: /^SECRET_KEY=(sk_[\w-]{43})$/m.exec(stdout)?.[1] ?? '',
  }
}

async function listed(env: NodeJS.ProcessEnv, ...args: string[]): Promise<(Omit<KeyRecord, 'hash'> & StoredKeyUse)[]> {
  const { stdout } = await run(['list', '--json', ...args], env)
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}

async function answer({ call }: Client, key: string): Promise<number> {
  return (await call('GET', '/public/project', undefined, { 'x-api-key': key })).statusCode
}

/** Waits until each instance responds to the key as expected. */
async function answers(t: Test, clients: Client[], key: string, status: number): Promise<void> {
  for (const client of clients) await until(`a ${status}`, async () => (await answer(client, key)) === status)
  t.pass(`every instance answers ${status}`)
}

t.test('keys of a running service', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const options = { keysRefreshMs: 200 }
  const clients = [await startApp(t, env, options), await startApp(t, env, options)]

  const created = await run(['create', '--project', 'shop'], env)
  t.equal(created.code, 0)
  const first = printedKeys(created.stdout)
  t.ok(first.publicKey && first.secretKey, 'a pair')
  t.notMatch(created.stderr, NO_KEY)
  await answers(t, clients, first.secretKey, 200)
  await answers(t, clients, first.publicKey, 403)
  t.equal((await listed(env)).length, 2)

  t.test('a rotation has no gap', async (t) => {
    const rotated = await run(['rotate', '--project', 'shop', '--kind', 'secret'], env)
    const second = printedKeys(rotated.stdout)
    t.notOk(second.publicKey, 'the other kind stays')
    await answers(t, clients, second.secretKey, 200)
    await answers(t, clients, first.secretKey, 200)
    const [old] = (await listed(env, '--kind', 'secret')).filter(({ id }) => first.secretKey.startsWith(id))
    t.ok(Math.abs((old?.revokedAt ?? 0) - Date.now() - 86_400_000) < 60_000, 'until tomorrow')

    const again = printedKeys((await run(['rotate', '--project', 'shop', '--grace', '0'], env)).stdout)
    for (const key of [first.secretKey, second.secretKey]) await answers(t, clients, key, 401)
    await answers(t, clients, again.secretKey, 200)
    await answers(t, clients, again.publicKey, 403)
    await answers(t, clients, SECRET_KEY, 200)

    const last = printedKeys((await run(['rotate', '--project', 'shop', '--grace', '1s'], env)).stdout)
    await answers(t, clients, again.secretKey, 401)
    await answers(t, clients, last.secretKey, 200)
  })

  t.test("a revoked key stops working on every instance, and the project's other keys still work", async (t) => {
    const [one, two] = [await run(['create', '--project', 'a'], env), await run(['create', '--project', 'a'], env)]
    const [mine, other] = [printedKeys(one.stdout), printedKeys(two.stdout)]
    await answers(t, clients, mine.secretKey, 200)
    const revoked = await run(['revoke', mine.secretKey.slice(0, 11)], env)
    t.match(revoked.stderr, `Refused within 10 s: ${mine.secretKey.slice(0, 11)}.`)
    await answers(t, clients, mine.secretKey, 401)
    await answers(t, clients, mine.publicKey, 403)
    await answers(t, clients, other.secretKey, 200)
    const both = [other.secretKey, mine.publicKey]
    await t.rejects(run(['revoke', ...both], env), {
      message: `${other.secretKey.slice(0, 11)} is the last secret key of the project a;`,
    })
    await answers(t, clients, other.secretKey, 200)
    const whole = await run(['revoke', '--last', ...both], env)
    t.notMatch(whole.stderr, NO_KEY)
    await answers(t, clients, other.secretKey, 401)
    await answers(t, clients, mine.publicKey, 401)
    const masked = `${other.secretKey.slice(0, 11)}…`
    await t.rejects(run(['revoke', other.secretKey], env), {
      message: new RegExp(`^${masked} is not a valid key, .* It was revoked on 20`),
    })
    await t.rejects(run(['revoke', other.publicKey, 'sk_unknown'], env), {
      message: /^sk_unknown is not a valid key, so none was revoked\. See: keys list\.$/,
    })
    await t.rejects(run(['revoke', 'a secret without a prefix'], env), { message: /^a s… is not a valid key/ })
    await answers(t, clients, other.publicKey, 403)
  })

  t.test('a list shows no key', async (t) => {
    const { stdout } = await run(['list'], env)
    t.match(stdout, /^ID +KIND +CREATED +REVOKED +LAST USED +REFUSED +PROJECT\n/)
    t.match(stdout, /^sk_[\w-]{8} +secret +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +\d{4}.*Z +\S+ +\d+ +a$/m)
    t.match(stdout, /^pk_[\w-]{8} +public +\S+ +- +\S+ +\d+ +a$/m)
    t.notMatch(stdout, NO_KEY)
    t.ok((await listed(env, '--project', 'a')).every(({ projectId }) => projectId === 'a'))
  })

  t.test('limits of a key are stored with it, and a rotation keeps them', async (t) => {
    const create = (...args: string[]) => run(['create', '--project', 'limits', ...args], env)
    const shop = ['--origin', 'https://shop.example', '--origin', 'https://www.shop.example']
    await create('--kind', 'write', '--events-only', ...shop)
    await create(
      '--kind',
      'write',
      ...[...shop]
        .reverse()
        .filter((text) => text !== '--origin')
        .flatMap((o) => ['--origin', o]),
      '--events-only',
    )
    await create('--kind', 'write')
    await create('--kind', 'public', '--origin', 'http://localhost:8080')
    const origins = ['https://shop.example', 'https://www.shop.example']
    const [first] = await listed(env, '--project', 'limits')
    t.match(first, { kind: 'write', origins, eventsOnly: true })
    const { stdout } = await run(['list', '--project', 'limits'], env)
    t.match(stdout, /^ID +KIND .* PROJECT +LIMITS\n/)
    t.match(stdout, /^wk_\S+ +write .* limits +https:\/\/shop\.example, https:\/\/www\.shop\.example, events only$/m)
    t.match(stdout, /^wk_\S+ +write .* limits$/m)

    const rotated = await run(['rotate', '--project', 'limits', '--grace', '1h'], env)
    t.equal(rotated.stdout.match(/^WRITE_KEY=/gm)?.length, 2, 'one for each grant of the write keys')
    t.match(rotated.stderr, /wk_\S+ \(https:\/\/shop\.example, https:\/\/www\.shop\.example, events only\)/)
    const all = await listed(env, '--project', 'limits')
    const kept = all.filter(({ revokedAt }) => revokedAt === null)
    const grants = kept.map(({ kind, origins, eventsOnly }) => JSON.stringify({ kind, origins, eventsOnly })).sort()
    t.strictSame(
      grants,
      [
        { kind: 'public', origins: ['http://localhost:8080'], eventsOnly: false },
        { kind: 'write', origins: [], eventsOnly: false },
        { kind: 'write', origins, eventsOnly: true },
      ]
        .map((grant) => JSON.stringify(grant))
        .sort(),
    )
    const old = all.filter(({ revokedAt }) => revokedAt !== null)
    t.equal(old.length, 4)
    t.ok(
      old.some((key) => key.eventsOnly && key.origins.length === 2),
      'a key that will be refused keeps its own',
    )

    const key = /^WRITE_KEY=(wk_\S+)/m.exec((await create('--kind', 'write', ...shop)).stdout)?.[1] ?? ''
    const event = { apiKey: key, event: 'e', distinct_id: 'u' }
    for (const { app } of clients) {
      const track = (headers: Record<string, string>) =>
        app.inject({ method: 'POST', url: '/public/track', payload: event, headers })
      const mine = async () => (await track({ origin: 'https://shop.example' })).statusCode
      await until('the key', async () => (await mine()) === 200)
      t.equal((await track({})).statusCode, 403, 'every instance knows its origins')
    }
  })

  t.test('limits that a kind of key does not have are refused', async (t) => {
    const create = (...args: string[]) => run(['create', '--project', 'refused', ...args], env)
    await t.rejects(create('--events-only'), { message: /--events-only is only for write keys\. .*--kind/ })
    await t.rejects(create('--events-only', '--kind', 'public'), {
      message: /--events-only is only for write keys\.$/,
    })
    await t.rejects(create('--origin', 'https://shop.example', '--kind', 'secret'), { message: /in pages/ })
    for (const origin of ['shop.example', 'https://*.example', '*', '']) {
      await t.rejects(create('--kind', 'write', '--origin', origin), { message: /--origin must be an origin/ }, origin)
    }
    const meant = /such as https:\/\/mine\.example, not "https:\/\/MINE\.example:443"\.$/
    await t.rejects(create('--kind', 'write', '--origin', 'https://MINE.example:443'), { message: meant })
    t.strictSame(await listed(env, '--project', 'refused'), [])
  })

  t.test('a label names a key, and a rotation gives each label its own key', async (t) => {
    const create = (...args: string[]) => run(['create', '--project', 'labels', ...args], env)
    const made = await create('--label', '  Checkout server ')
    t.match(made.stderr, /sk_\S+ \(Checkout server\)/)
    await create('--kind', 'secret', '--label', 'Größe 5')
    await create('--kind', 'secret', '--label', 'Größe 5')
    const { stdout } = await run(['list', '--project', 'labels'], env)
    t.match(stdout, /^ID .* PROJECT +LABEL\n/)
    t.match(stdout, /^sk_.* labels +Checkout server$/m)
    const rotated = await run(['rotate', '--project', 'labels', '--kind', 'secret'], env)
    t.equal(rotated.stdout.match(/^SECRET_KEY=/gm)?.length, 2)
    const kept = (await listed(env, '--project', 'labels', '--kind', 'secret')).filter(
      ({ revokedAt }) => revokedAt === null,
    )
    t.strictSame(kept.map(({ label }) => label).sort(), ['Checkout server', 'Größe 5'])
    for (const label of ['x'.repeat(101), 'a\u001b[31mb', 'a\nb', '\u202egnp.exe']) {
      await t.rejects(create('--label', label), { name: 'UsageError', message: /^--label must have at most 100/ })
    }
  })

  t.test('a second rotation names the end of each key, and replaces only the newest', async (t) => {
    const rotate = (...args: string[]) => run(['rotate', '--project', 'twice', ...args], env)
    await run(['create', '--project', 'twice', '--kind', 'secret'], env)
    const first = await rotate('--grace', '1h')
    t.match(first.stderr, /^Valid until \S+Z: sk_\S+\.$/m)
    const second = await rotate('--grace', '7d')
    t.equal(second.stdout.match(/^SECRET_KEY=/gm)?.length, 1)
    const [early, late, more] = [...second.stderr.matchAll(/^Valid until (\S+)Z: sk_\S+\.$/gm)].map(([, end]) => end)
    t.ok(early && late && !more, second.stderr)
    t.equal(Math.round((Date.parse(`${late}Z`) - Date.parse(`${early}Z`)) / 3_600_000), 6 * 24 + 23)
    const third = await rotate('--grace', '0')
    t.match(third.stderr, /^Refused within 10 s: sk_\S+, sk_\S+, sk_\S+\.$/m)
    t.equal((await listed(env, '--project', 'twice')).filter(({ isValid }) => isValid).length, 1)
  })

  t.test('each change is in the audit log of its project', async (t) => {
    const { clickhouse, close } = await openStore(clients[0]?.config ?? { DATA_DIR: '' })
    const entries = await listAuditEntries(clickhouse, { projectId: 'twice', limit: 100, offset: 0 })
    await close()
    t.ok(entries.every(({ actor }) => actor.type === 'command_line'))
    const actions = entries.map(({ action }) => action)
    const count = (wanted: string) => actions.filter((action) => action === wanted).length
    t.strictSame([count('key_created'), count('key_rotated')], [4, 1 + 2 + 3])
  })

  t.test('a project without keys has none to rotate', async (t) => {
    await t.rejects(run(['rotate', '--project', 'q'], env), { message: /no such key to rotate/ })
  })

  t.test('no key is stored in plain text', async (t) => {
    const { clickhouse, close } = await openStore(clients[0]?.config ?? { DATA_DIR: '' })
    const rows = JSON.stringify(await clickhouse.rows('SELECT * FROM api_keys'))
    await close()
    t.ok(rows.includes(first.secretKey.slice(0, 11)))
    t.notMatch(rows, NO_KEY)
  })

  t.test('a new key works immediately on every instance', async (t) => {
    const clients = [await startApp(t, env), await startApp(t, env)]
    for (const client of clients) t.equal(await answer(client, makeKey('secret')), 401, 'a wrong key is looked up')
    const { stdout } = await run(['create', '--project', 'p'], env)
    // Wrong keys trigger at most one read per second.
    for (const client of clients) {
      await until('a look-up', async () => (await answer(client, printedKeys(stdout).secretKey)) === 200)
    }
  })
})

t.test('without a service, keys can only be created in an existing store', async (t) => {
  const env = { DATA_DIR: await temporaryFolder(t), LOG_LEVEL: 'silent', FACTS: 'off' }
  const call = (...args: string[]) => run(args, env)
  await t.rejects(call('create', '--project', 'p'), { message: /no store in .*DATA_DIR/ })
  const DATA_DIR = join(env.DATA_DIR, 'nowhere')
  await t.rejects(run(['list'], { DATA_DIR }), { message: /no store in .*nowhere.*DATA_DIR/ })
  const left = await readdir(env.DATA_DIR)
  t.notOk(left.includes('nowhere') || left.includes('clickhouse'), 'nothing is created')

  const start = async (key: string) => {
    const found: KeysFound[] = []
    const client = await startApp(t, env, { onKeys: (keys) => found.push(keys) })
    const status = await answer(client, key)
    await client.app.close()
    return { status, valid: found[0]?.valid, isFirst: found[0]?.makeFirst !== null }
  }
  t.strictSame(await start(SECRET_KEY), { status: 401, valid: 0, isFirst: true })
  const created = await call('create', '--project', 'p')
  t.match(created.stderr, env.DATA_DIR, 'it names the store')
  const { secretKey } = printedKeys(created.stdout)
  t.strictSame(await start(secretKey), { status: 200, valid: 2, isFirst: false })
  for (const { id } of await listed(env)) await call('revoke', '--last', id)
  t.strictSame(
    await start(secretKey),
    { status: 401, valid: 0, isFirst: false },
    'where all were revoked, none are made',
  )
})

t.test('commands refuse a database without the tables', async (t) => {
  const { url } = await startClickHouse(t)
  const other = new URL(url)
  other.pathname = '/mistyped'
  const env = { CLICKHOUSE_URL: other.href }
  await t.rejects(run(['create', '--project', 'p'], env), {
    message: /database mistyped of http:\S+ does not exist\. Set CLICKHOUSE_URL/,
  })
  other.pathname = '/default'
  const tables = { message: /database default of .* has no tables of Tallyhouse/ }
  await t.rejects(run(['create', '--project', 'p'], { CLICKHOUSE_URL: other.href }), tables)
})

t.test('usage errors are reported before anything is opened', async (t) => {
  const bad: [string[], RegExp][] = [
    [[], /create, list, rotate or revoke/],
    [['toString'], /create, list, rotate or revoke/],
    [['create'], /--project NAME/],
    [['create', '--project', ''], /name of a project/],
    [['create', '--project', '../x'], /name of a project/],
    [['create', '--project', 'x'.repeat(65)], /name of a project/],
    [['create', '--project', 'p', '--kind', 'both'], /public, secret, write or read/],
    [['create', '--project', 'p', 'q'], /Unexpected argument "q"/],
    [['create', '--projects', 'p'], /projects/],
    [['rotate', '--project', 'p', '--grace', '1w'], /--grace/],
    [['rotate', '--project', 'p', '--grace=-1h'], /--grace/],
    [['rotate', '--project', 'p', '--grace', '366d'], /--grace .* at most 365d/],
    [['list', '--label', 'a'], /--label/],
    [['create', '--project', 'p', '--last'], /--last/],
    [['revoke'], /Name the keys/],
    // Options that would have no effect.
    [['create', '--project', 'p', '--json'], /--json/],
    [['create', '--project', 'p', '--grace', '1h'], /--grace/],
    [['list', '--grace', '1h'], /--grace/],
    [['rotate', '--project', 'p', '--json'], /--json/],
    [['revoke', 'sk_Ab3dE9xY', '--project', 'p'], /--project/],
  ]
  for (const [args, message] of bad) {
    await t.rejects(run(args, { DATA_DIR: '/dev/null/nowhere' }), { name: 'UsageError', message }, args.join(' '))
  }
})
