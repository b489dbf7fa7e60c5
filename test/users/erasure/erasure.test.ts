import { readdir, readFile } from 'node:fs/promises'
import t from 'tap'
import { replayDeadLetter } from '../../../src/ingest/replay.js'
import type { EntryKind } from '../../../src/journal/journal.js'
import { formatEventId } from '../../../src/model/event-id.js'
import { formatRejected } from '../../../src/model/rejected.js'
import { eraseFromDeadLetters } from '../../../src/store/dead-letter-erasure.js'
import { insertDeadLetter, insertRejected, readDeadLetters } from '../../../src/store/dead-letters.js'
import { openStore } from '../../../src/store/open.js'
import { Purge } from '../../../src/users/erasure/purge.js'
import { PUBLIC_KEY, STORAGES, settingsFor, startApp, until } from '../../helper.js'

const DONE = '{"status":1,"error":null}'
const JOURNAL = 7

for (const storage of STORAGES) {
  t.test(storage, async (t) => {
    const client = await startApp(t, { ...(await settingsFor(t, storage)), DELETE_USER_EVENTS: 'true', FACTS: 'off' })
    const { call, browser } = client
    const { shards, clickhouse, close } = await openStore(client.config)
    t.teardown(close)

    const ok = async (...args: Parameters<typeof call>) => {
      const response = await call(...args)
      if (response.statusCode !== 200) throw new Error(`${args[1]}: ${response.body}`)
      return response
    }
    const track = async (distinct_id: string, event: string, more: object = {}, headers = {}) => {
      const { headers: answered } = await ok('POST', '/public/track', { event, distinct_id, ...more }, headers)
      return String(answered['x-event-id'])
    }
    const identify = (distinct_id: string, properties: object) =>
      ok('POST', '/public/users/identify', { distinct_id, properties })
    const session = async (distinct_id: string, session_id: string) => {
      await browser('/public/sessions/start', { distinct_id, session_id, properties: { of: distinct_id } })
      await browser('/public/sessions/update', { distinct_id, session_id, properties: { more: 1 } })
    }
    const eraseOnce = async (...distinct_ids: string[]) =>
      (await ok('POST', '/public/users/erase', { distinct_ids })).json()
    /** Erases users, and resolves once their data has left the disk: on a busy machine, that can take longer than the call. */
    const erase = async (...distinct_ids: string[]) => {
      const answer = await eraseOnce(...distinct_ids)
      answer.gone_at ??= await until('the purge', async () => (await eraseOnce('nobody')).gone_at)
      return answer
    }
    const eventsOf = async (distinct_id: string) =>
      (await client.events(1000, `&distinct_id=${encodeURIComponent(distinct_id)}`)).map(({ event }) => event)
    /** All texts that ClickHouse has on disk, hidden or not. */
    const onDisk = async () => {
      const settings = { apply_deleted_mask: 0, apply_patch_parts: 0 } as const
      const rows = await Promise.all([
        clickhouse.rows(`SELECT project_id, distinct_id, event, properties FROM events`, {}, settings),
        clickhouse.rows(`SELECT project_id, distinct_id, properties FROM profiles WHERE NOT is_deleted`),
        clickhouse.rows(`SELECT project_id, session_id, distinct_id, properties FROM sessions`),
        clickhouse.rows(`SELECT body FROM dead_letters`),
      ])
      return rows.flat().map((row) => JSON.stringify(row))
    }

    let letters = 0
    /** Stores a dead letter like the writer. */
    const letter = async (body: string, kind: EntryKind = 'events', projectId = 'default') => {
      const receivedAt = 1_760_000_000_000 + ++letters
      const position = BigInt(receivedAt) << 16n
      const entry = { position, kind, projectId, count: 1, receivedAt, body: Buffer.from(body) }
      await insertDeadLetter(clickhouse, JOURNAL, entry, 'ClickHouse error 27', `letter ${letters}`)
      return position
    }
    /** The texts of the mutations of dead letters that are on disk. */
    const mutations = async () => {
      const [table] = await clickhouse.rows<{ path: string }>(
        "SELECT data_paths[1] AS path FROM system.tables WHERE database = currentDatabase() AND name = 'dead_letters'",
      )
      const names = (await readdir(table?.path ?? '')).filter((name) => name.startsWith('mutation_'))
      t.ok(names.length > 0)
      return await Promise.all(names.map((name) => readFile(`${table?.path}/${name}`, 'utf8')))
    }
    const bodyAt = async (at: bigint) => {
      const rows = await clickhouse.rows<{ body: string }>(
        'SELECT body FROM dead_letters WHERE position = {at:UInt64}',
        { at },
      )
      return rows[0]?.body
    }

    t.test('removes everything of a user, and nothing of others', async (t) => {
      for (const user of ['ada', 'bob']) {
        for (let n = 0; n < 3; n++) await identify(user, { secret: `${user}-profile-${n}` })
        await track(user, 'early', { properties: { secret: `${user}-early` } })
        await session(user, `session-${user[0]}`)
      }
      const both = ['ada', 'bob', 'ada'].map((distinct_id, n) => ({ event: `both${n}`, distinct_id }))
      await ok('POST', '/public/track/batch', { events: both })
      const ids = (await client.events()).map(({ eventId, distinct_id }) => ({ eventId, distinct_id }))
      const edited = await Promise.all(
        ids.map(({ eventId, distinct_id }) =>
          ok('PUT', `/public/events/${eventId}`, { properties: { secret: `${distinct_id}-edited` } }),
        ),
      )
      t.equal(edited.length, 5)
      const hidden = await track('ada', 'deleted before', { properties: { secret: 'ada-deleted' } })
      await ok('DELETE', `/public/events/${hidden}`)
      // A user with the same name in another project.
      await clickhouse.command(
        `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties) SELECT 'other', event_id, event, distinct_id, timestamp, received_at, '{"kept":1}' FROM events WHERE event = 'both0'`,
      )
      await clickhouse.command(`INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted)
         VALUES ('other', 'ada', '{"kept":2}', 1, 1, 1, 0)`)

      const key = { 'idempotency-key': 'once' }
      const [, eventId] = await Promise.all([
        session('ada', 'just before'),
        track('ada', 'just before', { properties: { secret: 'ada-late' } }, key),
        track('bob', 'just before'),
      ])
      const began = Date.now()
      const answer = await erase('ada', 'nobody')
      t.match(answer, {
        status: 1,
        error: null,
        erased: [
          { distinct_id: 'ada', profile: true, events: 4, sessions: 2, dead_letters: 0 },
          { distinct_id: 'nobody', profile: false, events: 0, sessions: 0, dead_letters: 0 },
        ],
        unreadable_dead_letters: 0,
      })
      t.equal(answer.erased.length, 2)
      t.ok(
        answer.gone_at > began && answer.gone_at < Date.now() + 3_600_000,
        `it says when they will be gone: ${answer.gone_at}`,
      )

      t.strictSame(await eventsOf('ada'), [])
      t.equal((await call('GET', '/public/users/ada')).statusCode, 404)
      for (const id of ['session-a', 'just before']) {
        t.equal((await call('GET', `/public/sessions/${id}`)).statusCode, 404)
      }
      const left = await onDisk()
      t.strictSame(
        left.filter((row) => row.includes('ada') && !row.includes('"project_id":"other"')),
        [],
        'nor on the disk',
      )
      t.equal(left.filter((row) => row.includes('"project_id":"other"') && row.includes('ada')).length, 2)

      t.strictSame(await eventsOf('bob'), ['early', 'both1', 'just before'])
      t.strictSame(
        (await client.events()).map(({ properties }) => properties),
        [{ secret: 'bob-edited' }, { secret: 'bob-edited' }, {}],
      )
      t.strictSame((await call('GET', '/public/users/bob')).json().user.properties, { secret: 'bob-profile-2' })
      t.equal((await call('GET', '/public/sessions/session-b')).json().session.state, 'active')

      t.equal(await track('ada', 'just before', { properties: { secret: 'ada-late' } }, key), eventId)
      t.strictSame(await eventsOf('ada'), [], 'a repeated request brings nothing back')
      const again = await erase('ada')
      t.strictSame(again.erased, [{ distinct_id: 'ada', profile: false, events: 0, sessions: 0, dead_letters: 0 }])
    })

    // The rest is about ClickHouse, which is the same.
    if (storage !== 'embedded') return

    t.test('a user who returns starts from scratch, and keeps the new data', async (t) => {
      await identify('carl', { old: 1 })
      await session('carl', 'session-c')
      await track('carl', 'old')
      await erase('carl')
      await Promise.all([identify('carl', { new: 1 }), session('carl', 'session-c'), track('carl', 'new')])
      await erase('somebody else')
      t.strictSame((await call('GET', '/public/users/carl')).json().user.properties, { new: 1 })
      t.strictSame(await eventsOf('carl'), ['new'])
      t.equal((await call('GET', '/public/sessions/session-c')).json().session.distinct_id, 'carl')
      t.strictSame(
        (await onDisk()).filter((row) => row.includes('"old')),
        [],
      )
    })

    t.test('erases from dead letters', async (t) => {
      const of = (event: string, distinct_id: string) => `{"event": "${event}","distinct_id":"${distinct_id}","x":1.0}`
      const row = (project_id: string, distinct_id: string) =>
        JSON.stringify({ project_id, distinct_id, properties: '{}' })
      const mixed = await letter(
        `{"events":[ ${of('b0', 'bea')} ,${of('d1', 'dora')},\n${of('b2', 'bea')}],"other":"dora"}`,
      )
      const own = await letter(`{"events":[${of('d', 'd\\u006fra')}]}`)
      const rows = await letter(
        [row('default', 'dora'), row('other', 'dora'), row('default', 'bea')].join(','),
        'profiles',
        '',
      )
      const single = await letter(row('default', 'dora'), 'sessions', '')
      const foreign = await letter(`{"events":[${of('d', 'dora')}]}`, 'events', 'other')
      const mention = await letter(`{"events":[{"event":"e","distinct_id":"bea","properties":{"friend":"dora"}}]}`)
      const broken = await letter(`{"events":[${of('d', 'dora')}`)

      const answer = await erase('dora')
      t.match(answer, { erased: [{ distinct_id: 'dora', events: 0, dead_letters: 4 }], unreadable_dead_letters: 1 })
      t.equal(await bodyAt(mixed), `{"events":[${of('b0', 'bea')},{"event":"","distinct_id":""},${of('b2', 'bea')}]}`)
      t.equal(await bodyAt(own), undefined)
      t.equal(await bodyAt(rows), [row('other', 'dora'), row('default', 'bea')].join(','))
      t.equal(await bodyAt(single), undefined)
      for (const other of [foreign, mention, broken]) t.match(await bodyAt(other), 'dora', "others' stay")
      for (const text of await mutations())
        t.notMatch(text, /base64|bea|dora/, 'no mutation contains any part of a body')
      t.match(await erase('dora'), { erased: [{ dead_letters: 0 }] }, 'a second time')

      const [waiting] = await readDeadLetters(shards, { limit: 1, at: [mixed] })
      if (!waiting) throw new Error('the letter is gone')
      t.strictSame(await replayDeadLetter(shards, waiting, Date.now()), {
        isStored: true,
      })
      const replayed = (await client.events(1000, '&distinct_id=bea')).map(({ event, eventId }) => [event, eventId])
      t.strictSame(
        replayed,
        [0, 2].map((index) => [`b${index}`, formatEventId({ position: mixed, index, journalId: JOURNAL })]),
        'the rest is replayed under the ids of its places',
      )
      t.ok((await client.events()).every(({ event }) => event !== ''))

      t.match(await erase('bea'), { erased: [{ events: 2, dead_letters: 3 }] }, 'replayed letters, too')
      t.equal(await bodyAt(mixed), undefined)
    })

    t.test('a name is erased with its user although the link is in a dead letter', async (t) => {
      const userOf = async (name: string) => {
        await identify(name, {})
        return (await call('GET', `/public/users/${name}`)).json().user.distinct_id
      }
      /** Links two names as if ClickHouse had refused the alias. */
      const link = async (distinct_id: string, alias: string) => {
        for (const user of [distinct_id, alias]) await track(user, `of ${user}`)
        await ok('POST', '/public/users/alias', { distinct_id, alias })
        await call('GET', '/public/users') // waits for the store
        const [row] = await clickhouse.rows('SELECT * FROM aliases WHERE alias = {alias:String}', { alias })
        t.match(row, { alias, distinct_id })
        await clickhouse.command(
          'ALTER TABLE aliases DELETE WHERE alias = {alias:String}',
          { alias },
          { mutations_sync: '1' },
        )
        await letter(JSON.stringify(row), 'aliases', '')
      }
      await link('hal', 'hal-phone')
      t.match(await eraseOnce('hal-phone'), { erased: [{ events: 2, dead_letters: 1 }] })
      t.strictSame([...(await eventsOf('hal')), ...(await eventsOf('hal-phone'))], [])
      t.equal(await userOf('hal-phone'), 'hal-phone')

      await link('ida', 'ida-phone')
      t.match(await eraseOnce('ida'), { erased: [{ events: 2, dead_letters: 1 }] })
      t.strictSame([...(await eventsOf('ida')), ...(await eventsOf('ida-phone'))], [])
      t.equal(await userOf('ida-phone'), 'ida-phone', 'the name does not lead to the erased user')
    })

    t.test('a name that is linked while it is erased', async (t) => {
      const users = Array.from({ length: 10 }, (_, i) => `kim${i}`)
      await Promise.all(users.map((user) => track(`${user}-phone`, 'e')))
      await Promise.all(
        users.flatMap((distinct_id) => [
          ok('POST', '/public/users/alias', { distinct_id, alias: `${distinct_id}-phone` }),
          eraseOnce(`${distinct_id}-phone`),
        ]),
      )
      for (const user of users) t.strictSame(await eventsOf(`${user}-phone`), [])
    })

    t.test('what is left of a rejected request keeps its own reasons only', async (t) => {
      const messages = ['rae', 'sam', 'tom'].map((user) => ({
        reason: `${user} is no number`,
        message: `{"userId":"${user}"}`,
      }))
      const position = BigInt(1_760_000_000_000 + ++letters) << 16n
      const entry = { position, kind: 'rejected' as const, projectId: 'default', count: 1, receivedAt: 1 }
      await insertRejected(clickhouse, JOURNAL, [{ ...entry, body: formatRejected(messages) }], `${position}`)
      t.match(await erase('rae'), { erased: [{ dead_letters: 1 }] })
      const rows = await clickhouse.rows('SELECT reason, body FROM dead_letters WHERE position = {position:UInt64}', {
        position,
      })
      const reason = 'sam is no number; tom is no number'
      t.strictSame(rows, [{ reason, body: formatRejected(messages.slice(1)).toString() }])
    })

    t.test('concurrent erasures of users in one dead letter', async (t) => {
      const of = (user: string) => `{"event":"e","distinct_id":"${user}"}`
      const users = ['u1', 'u2', 'u3', 'u4']
      const at = await letter(`{"events":[${[...users, 'stays'].map(of).join(',')}]}`)
      await clickhouse.command(
        "ALTER TABLE dead_letters UPDATE reason = 'ClickHouse error 27: near u1' WHERE position = {at:UInt64}",
        { at },
        { mutations_sync: '1' },
      )
      // Like several processes that do not know of each other.
      const found = await Promise.all(users.map((user) => eraseFromDeadLetters(shards, 'default', new Set([user]))))
      t.ok(found.every(({ erased }) => erased.size === 1))
      const gone = '{"event":"","distinct_id":""}'
      const rows = await clickhouse.rows('SELECT reason, body FROM dead_letters WHERE position = {at:UInt64}', { at })
      t.strictSame(rows, [
        {
          reason: 'ClickHouse error 27: details were removed with erased data',
          body: `{"events":[${gone},${gone},${gone},${gone},${of('stays')}]}`,
        },
      ])
    })

    t.test('keeps edits and deletes that arrive during a purge', async (t) => {
      const users = Array.from({ length: 3 }, (_, n) => `purged${n}`)
      const events = users.flatMap((distinct_id) => [0, 1].map((n) => ({ event: `e${n}`, distinct_id })))
      await ok('POST', '/public/track/batch', {
        events: [...events, ...events.map((e) => ({ ...e, distinct_id: 'edith' }))],
      })
      const edith = (await client.events(1000, '&distinct_id=edith')).map(({ eventId }) => eventId)
      await Promise.all([
        ...users.map((user) => erase(user)),
        ...edith.map((id, n) =>
          n % 3 === 0 ? ok('DELETE', `/public/events/${id}`) : ok('PUT', `/public/events/${id}`, { properties: { n } }),
        ),
      ])
      for (const user of users) t.strictSame(await eventsOf(user), [])
      t.strictSame(
        (await client.events(1000, '&distinct_id=edith')).map(({ properties }) => properties),
        edith.flatMap((_, n) => (n % 3 === 0 ? [] : [{ n }])),
      )
      await erase('nobody')
      const left = await onDisk()
      t.notOk(left.some((row) => row.includes('purged')))
      t.equal(left.filter((row) => row.includes('edith')).length, 4, 'single deletes leave the disk with it')
    })

    t.test('DELETE of a user responds as usual, and its data is purged when it is due', async (t) => {
      await identify('fay', { secret: 1 })
      await identify('fay', { secret: 2 })
      await track('fay', 'e')
      await session('fay', 'session-f')
      t.equal((await call('GET', '/public/sessions/session-f')).statusCode, 200)
      const response = await call('DELETE', '/public/users/fay')
      t.equal(response.body, DONE)
      t.strictSame(await eventsOf('fay'), [])
      t.equal((await call('GET', '/public/sessions/session-f')).statusCode, 404)
      t.equal((await call('DELETE', '/public/users/fay')).statusCode, 404)
      await call('GET', '/public/users') // waits for the store
      t.ok((await onDisk()).some((row) => row.includes('fay')))
      const purge = new Purge({
        shards,
        barrier: { waitForAll: async () => 0n },
        log: client.app.log,
        intervalMs: 0,
        pollMs: 10,
      })
      t.teardown(() => purge.close())
      purge.start()
      purge.start()
      await until('the purge', async () => !(await onDisk()).some((row) => row.includes('fay')))
    })

    t.test('accepts any names', async (t) => {
      const awkward = [`it's "gone" \\ 100% 😀\t\n`, '\\', '\u0000', 'x'.repeat(255), '😀'.repeat(255), ' ']
      for (const user of awkward) {
        await identify(user, {})
        await track(user, 'e')
      }
      const { erased } = await erase(...awkward, ...awkward)
      t.strictSame(
        erased,
        awkward.map((distinct_id) => ({ distinct_id, profile: true, events: 1, sessions: 0, dead_letters: 0 })),
      )
      for (const wrong of [undefined, [], ['ada', ''], [1], 'ada', ['x'.repeat(256)], Array(101).fill('a')]) {
        const response = await call('POST', '/public/users/erase', { distinct_ids: wrong })
        t.equal(response.statusCode, 400)
        t.match(response.json(), { code: 'invalid_request', details: [{ path: /^\/distinct_ids/, message: /\w/ }] })
      }
      const withDryRun = await call('POST', '/public/users/erase', { distinct_ids: ['a'], dry_run: true })
      t.match(withDryRun.json(), { code: 'invalid_request', details: [{ path: '/dry_run' }] }, 'it has no dry run')
      const browser = await call('POST', '/public/users/erase', { distinct_ids: ['a'] }, { 'x-api-key': PUBLIC_KEY })
      t.equal(browser.json().code, 'wrong_key_kind')
    })
  })
}

t.test('erases nothing while the store does not have everything yet', async (t) => {
  const client = await startApp(t, { ...(await settingsFor(t, 'servers')), ROLE: 'api' })
  await client.call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { a: 1 } })
  const response = await client.call('POST', '/public/users/erase', { distinct_ids: ['ada'] })
  t.match(response.json(), { status: 0, code: 'unavailable' })
  t.strictSame((await client.call('GET', '/public/users/ada')).json().user.properties, { a: 1 })
})
