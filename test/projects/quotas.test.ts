import t from 'tap'
import { command } from '../../src/cli/projects.js'
import { changeSettings, DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import type { Appends } from '../../src/ingest/group-commit.js'
import type { Lane } from '../../src/lanes/lane.js'
import { LaneIds } from '../../src/lanes/lane-ids.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { INSERT_ID_BYTES, type SentIds } from '../../src/model/insert-id.js'
import { makeRequestIds, NO_IDS } from '../../src/model/request-ids.js'
import { Quotas, type QuotasOptions } from '../../src/projects/quotas.js'
import { run } from '../cli/lanes-store.js'
import { ANY_STORAGE, LANES, settingsFor, startApp, until } from '../helper.js'
import { newProject } from '../shared-app.js'
import { batchFrom, eventFrom } from '../submissions.js'

const event = { event: 'e', distinct_id: 'u' }

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
    const options = { keysRefreshMs: 300 }
    const client = await startApp(t, env, options)
    const { call } = client
    // They share a quota.
    const processes = [client, await startApp(t, env, options), await startApp(t, env, options)] as const
    const send = (n: number, i = 0) =>
      processes[i % processes.length]?.call('POST', '/public/track/batch', { events: Array(n).fill(event) })
    const set = async (change: object) => {
      const { revision } = (await call('PATCH', '/public/project', change)).json().project
      const isKnown = async (one: typeof client) =>
        (await one.call('GET', '/public/project')).json().project.revision === revision
      await until('the processes to know', async () => (await Promise.all(processes.map(isKnown))).every(Boolean))
    }
    const usage = async () => {
      const response = await until('the usage', async () => {
        const response = await call('GET', '/public/usage')
        // A busy store may not respond in time.
        return response.statusCode === 200 && response
      })
      return response.json()
    }

    t.test('usage counts everything accepted, once', async (t) => {
      await send(10)
      await call('POST', '/public/track', event)
      for (let i = 0; i < 3; i++) await call('POST', '/public/track', { ...event, insert_id: 'same' })
      await call('POST', '/public/track', { event: '', distinct_id: 'u' })
      const { days, stored_bytes, quotas } = await usage()
      t.match(days, [{ day: new Date().toISOString().slice(0, 10), events: 12 }])
      t.ok(days[0].bytes > 12 * 30 && days[0].read_cpu_seconds >= 0)
      await client.events()
      t.ok((await usage()).stored_bytes > 0, `${stored_bytes}`)
      t.strictSame(quotas, [])
      const csv = await call('GET', '/public/usage?format=csv')
      t.match(csv.body, /^day,events,bytes,stored_bytes,read_cpu_seconds\r\n20\d\d-\d\d-\d\d,12,\d+,\d+,[\d.]+\r\n$/)
      const wrong: [string, string, RegExp][] = [
        ['from=yesterday', '/from', /must be a date such as 2026-11-26/],
        ['from=2026-02-30', '/from', /must be a date/],
        ['to=2026-13-01', '/to', /must be a date/],
        ['to=0000-01-01', '/to', /must be a date/],
        ['from=9999-12-31&to=9999-12-31', '/from', /must be a date/],
        ['from=2026-03-02&to=2026-03-01', '/from', /must not be after to/],
        ['from=2149-01-01', '/from', /must not be after to/],
      ]
      for (const [query, path, message] of wrong) {
        const response = await call('GET', `/public/usage?${query}`)
        t.equal(response.statusCode, 400, `${query}: ${response.body}`)
        t.match(response.json().details?.[0], { path, message })
      }
      t.strictSame((await call('GET', '/public/usage?from=1970-01-01&to=1970-01-01')).json().days, [])
      t.equal((await call('GET', '/public/usage?from=1970-01-01&to=2149-06-06')).json().days.length, 1)
    })

    t.test('the metrics show a quota on events that was set while the service runs', async (t) => {
      await set({ quotas: { events_per_day: { limit: 11, mode: 'soft' } } })
      const shown = /tallyhouse_quota_used\{[^}]*quota="events_per_day"[^}]*\} 12\n/
      const isShown = async () => shown.test((await client.app.inject('/metrics')).body)
      t.ok(await until('the metrics', isShown))
      await set({ quotas: { events_per_day: null } })
    })

    t.test('a hard quota is exact to 1 % over all processes, and says what and until when', async (t) => {
      const limit = 1_612
      await set({ quotas: { events_per_day: { limit, mode: 'hard' } } })
      const answers = await Promise.all(Array.from({ length: 240 }, (_, i) => send(10, i)))
      const accepted = answers.filter((one) => one?.statusCode === 200).length * 10 + 12
      t.ok(accepted <= limit * 1.01 && accepted >= limit * 0.99, `${accepted} of ${limit}`)
      t.equal((await client.events()).length, accepted, 'refused events are not stored')
      const refused = answers.find((one) => one?.statusCode === 429)
      t.match(refused?.json(), {
        status: 0,
        code: 'quota_exceeded',
        error: /events_per_day is 1612\. Its events are refused until 20.*T00:00:00\.000Z/,
      })
      t.ok(Number(refused?.headers['retry-after']) > 0)
      t.match((await usage()).quotas, [{ name: 'events_per_day', limit, mode: 'hard' }])
      t.equal((await call('POST', '/public/users/identify', { distinct_id: 'u', properties: {} })).statusCode, 200)
      await set({ quotas: { events_per_day: { limit: 2 * limit, mode: 'hard' } } })
      t.equal((await send(10))?.statusCode, 200, 'until it is raised')
      await set({ quotas: { events_per_day: { limit: 1, mode: 'soft' } } })
      t.equal((await send(10))?.statusCode, 200, 'a soft one refuses nothing')
    })

    t.test('it is exact to 1 %, however unevenly the processes use it', async (t) => {
      const limit = 2_000
      const [first, second, third] = processes
      /** A project with the quota, and how many events of requests of `n` a process accepts. */
      const startProject = async () => {
        const headers = { 'x-api-key': (await newProject(client)).keys.secret }
        await call('PATCH', '/public/project', { quotas: { events_per_day: { limit, mode: 'hard' } } }, headers)
        for (const one of processes) {
          await until('the quota', async () => {
            const { project } = (await one.call('GET', '/public/project', undefined, headers)).json()
            return project?.quotas.events_per_day
          })
        }
        return async (one: typeof client, n: number, requests: number) => {
          let accepted = 0
          for (let i = 0; i < requests; i++) {
            const events = Array(n).fill(event)
            const { statusCode } = await one.call('POST', '/public/track/batch', { events }, headers)
            if (statusCode === 200) accepted += n
          }
          return accepted
        }
      }
      const fill = await startProject()
      // Two have shares that they have not used up, or counts that are not stored yet, while the first one takes the rest.
      let sum = (await fill(second, 1, 1)) + (await fill(third, 100, 3))
      sum += await fill(first, 100, 25)
      sum += await fill(second, 10, 15)
      sum += await fill(third, 10, 15)
      sum += await fill(first, 1, 50)
      t.ok(sum <= limit * 1.01 && sum >= limit * 0.99, `${sum} of ${limit}`)
      const fillAtOnce = await startProject()
      const loops = processes.flatMap((one) => Array(4).fill(one) as (typeof client)[])
      const atOnce = await Promise.all(loops.map((one) => fillAtOnce(one, 10, 25)))
      const all = atOnce.reduce((a, b) => a + b, 0)
      t.ok(all <= limit * 1.01 && all >= limit * 0.99, `${all} of ${limit}, at once`)
    })

    t.test('a repetition is answered like the first request, also when a hard quota is reached', async (t) => {
      await set({ quotas: null })
      const named = (...ids: string[]) => ids.map((id) => ({ ...event, insert_id: id }))
      const requests: [string, object, object?][] = [
        ['/public/track', { ...event, insert_id: 'repeated' }],
        ['/public/track', event, { 'idempotency-key': 'repeated event' }],
        ['/public/track', { ...event, insert_id: 'keyed' }, { 'idempotency-key': 'repeated with an id' }],
        ['/public/track/batch', { events: named('first', 'second', 'first') }],
        ['/public/track/batch', { events: [event] }, { 'idempotency-key': 'repeated batch' }],
        ['/public/track/batch', { events: [event, ...named('third', 'fourth')] }, { 'idempotency-key': 'mixed' }],
        ['/segment/v1/track', { event: 'e', userId: 'u', messageId: 'repeated message' }],
      ]
      const firsts = []
      for (const request of requests) firsts.push(await call('POST', ...request))
      const stored = (await client.events()).length
      await set({ quotas: { events_per_day: { limit: 1, mode: 'hard' } } })
      for (const [i, request] of requests.entries()) {
        const again = await call('POST', ...request)
        const name = `${request[0]} ${JSON.stringify(request.slice(1))}`
        t.equal(again.statusCode, 200, `${name}: ${again.body}`)
        t.equal(again.body, firsts[i]?.body, name)
        const hasKey = request[2] !== undefined
        if (hasKey) t.equal(again.headers['x-event-id'], firsts[i]?.headers['x-event-id'], name)
      }
      const other = await call('POST', '/public/track', { ...event, event: 'another' }, requests[1]?.[2])
      t.equal(other.json().code, 'idempotency_conflict')
      const partly = await call('POST', '/public/track/batch', { events: named('first', 'new') })
      t.equal(partly.json().code, 'quota_exceeded', 'a batch with a new event is not a repetition')
      t.equal((await client.events()).length, stored, 'nothing was stored')
    })

    t.test('every call that stores events counts', async (t) => {
      await set({ quotas: { events_per_day: null, events_per_month: { limit: 1, mode: 'hard' } } })
      const ways: [string, object | string, object?][] = [
        ['/public/track', event],
        ['/public/track', event, { 'idempotency-key': 'a' }],
        ['/public/track/batch', { events: [event] }],
        ['/public/import', JSON.stringify(event), { 'content-type': 'application/x-ndjson' }],
        ['/segment/v1/track', { event: 'e', userId: 'u' }],
      ]
      for (const [path, body, headers] of ways) {
        const { statusCode, body: text } = await call('POST', path, body, headers)
        t.equal(statusCode, 429, `${path}: ${text}`)
      }
    })

    t.test('what an SDK says about people is accepted, although its events are refused', async (t) => {
      const shop = await newProject(client)
      await shop.call('PATCH', '/public/project', { quotas: { events_per_month: { limit: 1, mode: 'hard' } } })
      await until('the quota', async () => (await shop.call('POST', '/public/track', event)).statusCode === 429)
      const properties = { $anon_distinct_id: 'visitor', $set: { plan: 'pro' } }
      const identify = {
        event: '$identify',
        distinct_id: 'ada',
        uuid: 'a8ce62ab-9c0f-4c45-b1a5-2b7e7d5d1f10',
        properties,
      }
      const sent = await shop.call('POST', '/posthog/e', [identify])
      t.match(sent, { statusCode: 429, body: /quota_exceeded/ }, 'the event is refused')
      for (const name of ['ada', 'visitor']) {
        const { user } = (await shop.call('GET', `/public/users/${name}`)).json()
        t.match(user, { distinct_id: 'ada', properties: { plan: 'pro' } }, name)
      }
      const { uuid, ...withoutId } = { ...identify, distinct_id: 'bob', properties: { $set: { plan: 'pro' } } }
      t.equal((await shop.call('POST', '/posthog/e', [withoutId])).statusCode, 429)
      t.equal((await shop.call('GET', '/public/users/bob')).statusCode, 404, 'a retry would repeat a change without id')
    })

    t.test('a quota that the operator has set binds the project, also after an erasure', async (t) => {
      const { projectId, call } = await newProject(client)
      const read = async () => (await call('GET', '/public/project')).json().project
      const operate = async (quota: string) => {
        const { printed } = await run(command, ['set', projectId, '--quota', quota], { ...process.env, ...env })
        const limit = /=(\d+)/.exec(quota)?.[1]
        await until('the quota', async () => String((await read()).quotas.events_per_month?.limit) === String(limit))
        return printed
      }
      const track = async () => await call('POST', '/public/track', event)
      const locked = { limit: 5, mode: 'hard', locked: true }
      t.match(await operate('events_per_month=5:hard'), /^quotas\.events_per_month: 5 \(hard, locked\)$/m)
      const others: [object | null, string][] = [
        [{ events_per_month: { ...locked, limit: 50 } }, 'events_per_month'],
        [{ events_per_month: { limit: 5, mode: 'hard' } }, 'events_per_month'],
        [{ events_per_month: null }, 'events_per_month'],
        [null, 'events_per_month'],
        [{ events_per_day: { ...locked, limit: 1 } }, 'events_per_day'],
      ]
      for (const [quotas, name] of others) {
        for (const dry_run of [false, true]) {
          const refused = await call('PATCH', '/public/project', { name: 'No', quotas, dry_run })
          t.equal(refused.statusCode, 403, refused.body)
          const details = [{ path: `/quotas/${name}` }]
          t.match(refused.json(), { code: 'quota_locked', error: /operator of the service/, details })
        }
      }
      t.match(await read(), { name: null, quotas: { ...DEFAULT_SETTINGS.quotas, events_per_month: locked } })
      const own = {
        events_per_month: { mode: 'hard', limit: 5, locked: true },
        events_per_day: { limit: 9, mode: 'hard' },
      }
      const changed = await call('PATCH', '/public/project', { name: 'Shop', quotas: own })
      t.equal(changed.statusCode, 200, 'the same value is not a change')
      for (let i = 0; i < 5; i++) t.equal((await track()).statusCode, 200)
      t.match((await track()).json(), { code: 'quota_exceeded', error: /until the operator of the service raises/ })
      t.match((await call('DELETE', `/public/projects/${projectId}`)).json(), { complete: true })
      const quotas = { ...DEFAULT_SETTINGS.quotas, events_per_month: locked }
      t.match(await read(), { ...DEFAULT_SETTINGS, quotas })
      t.equal((await track()).json().code, 'quota_exceeded', 'events accepted this month still count')
      await operate('events_per_month=6:hard')
      t.equal((await track()).statusCode, 200)
      await operate('events_per_month=default')
      const free = await call('PATCH', '/public/project', { quotas: { events_per_month: { limit: 50, mode: 'hard' } } })
      t.equal(free.statusCode, 200, 'the project controls a quota again that the operator has removed')
    })
  })
}

interface QuotaParts {
  limit: number
  /** how many events the project has sent, when the store is asked; default: the store never answers */
  sent?: number
  ids?: QuotasOptions['ids']
}

/** The quotas of one project, with the parts of a service that they need. */
function startQuotas({ limit, sent, ids = { isRepetition: async () => false } }: QuotaParts) {
  const settings = changeSettings(DEFAULT_SETTINGS, { quotas: { events_per_day: { limit, mode: 'hard' } } })
  let asked = 0
  const never = new Promise<never>(() => undefined)
  const commits: Appends = { append: async () => null }
  const quotas = new Quotas({
    projects: { get: () => ({ settings, revision: 1, updatedAt: 0 }) },
    usage: {
      own: () => ({ events: sent ?? 0, bytes: 0, readCpuMs: 0 }),
      others: () => (sent === undefined ? never : Promise.resolve(new Map())),
      include: () => undefined,
      write: () => {
        asked++
        return sent === undefined ? never : Promise.resolve()
      },
    },
    storedBytes: () => undefined,
    commits,
    ids,
    buffers: new BufferPool(),
    log: { warn: () => undefined },
  })
  const sender = (projectId: string) => ({ projectId, keyClass: 'secret' }) as const
  const send = (project: string) => quotas.append(batchFrom(sender(project), Buffer.alloc(1), 1), NO_IDS)
  const sendNamed = (project: string) =>
    quotas.append(eventFrom(sender(project), Buffer.alloc(1)), makeRequestIds(null, Buffer.alloc(INSERT_ID_BYTES, 1)))
  return { send, sendNamed, asked: () => asked }
}

t.test('while the store does not respond, events are accepted, and do not wait for each other', async (t) => {
  const { send, asked } = startQuotas({ limit: 1 })
  // One project after the other would take longer than the test may.
  await Promise.all(Array.from({ length: 100 }, (_, i) => send(`project ${i}`)))
  t.equal(asked(), 100)
  for (let i = 0; i < 50; i++) await send('project 1')
  t.ok(asked() < 110, 'nor is it asked for each event')
})

t.test(
  'a process asks the others once for each share, which is a four-hundredth of the quota or one event',
  async (t) => {
    for (const [limit, events, asks] of [
      [4_000, 1_000, 100],
      [400, 100, 100],
      [100, 50, 50],
    ] as const) {
      const { send, asked } = startQuotas({ limit, sent: 0 })
      for (let i = 0; i < events; i++) await send('shop')
      t.equal(asked(), asks, `${events} events of ${limit}`)
    }
  },
)

t.test('over a quota, the journals are asked about one request of a project at a time', async (t) => {
  const answers: ((isKnown: boolean) => void)[] = []
  const isRepetition = () => new Promise<boolean>((resolve) => answers.push(resolve))
  const { sendNamed } = startQuotas({ limit: 1, sent: 1, ids: { isRepetition } })
  const first = sendNamed('shop')
  await until('the journals to be asked', () => answers.length === 1)
  for (let i = 0; i < 10; i++) await t.rejects(sendNamed('shop'), { code: 'quota_exceeded' })
  const other = sendNamed('another shop')
  await until('the journals to be asked for another project', () => answers.length === 2)
  t.equal(answers.length, 2)
  for (const answer of answers) answer(true)
  t.strictSame(await Promise.all([first, other]), [null, null], 'a repetition gets its answer')
  const hung = sendNamed('shop')
  await t.rejects(hung, { code: 'quota_exceeded' }, 'a lane that hangs does not keep the request')
  await t.rejects(sendNamed('shop'), { code: 'quota_exceeded' })
  t.equal(answers.length, 3, 'and is not asked again before it has responded')
})

t.test('a batch with a new first event costs one look-up', async (t) => {
  const known = new Set([1, 3, 5])
  let looked = 0
  const find = async ({ digests }: SentIds) => {
    const found: number[] = []
    for (let i = 0; i < digests.length / INSERT_ID_BYTES; i++) {
      looked++
      if (known.has(digests.readUInt32BE(i * INSERT_ID_BYTES))) found.push(i)
    }
    return found
  }
  const lane = (number: number) =>
    ({ number, journal: { ids: { find } } }) as unknown as Pick<Lane, 'number' | 'journal'>
  const ids = new LaneIds([lane(0), lane(1)])
  const ask = async (...digests: number[]) => {
    looked = 0
    const insertIds = Buffer.alloc(digests.length * INSERT_ID_BYTES)
    for (const [i, digest] of digests.entries()) insertIds.writeUInt32BE(digest, i * INSERT_ID_BYTES)
    return [await ids.isRepetition({ projectId: 'shop', keyClass: 'secret' }, makeRequestIds(null, insertIds)), looked]
  }
  t.strictSame(await ask(2, 1, 3, 5), [false, 1])
  t.match(await ask(1, 3, 2), [false])
  t.match(await ask(1, 3, 5, 1), [true])
  t.strictSame(await ask(1), [true, 1])
})

for (const storage of ANY_STORAGE) {
  t.test(`${storage}: a quota counts over a restart, and begins again with the day and the month`, async (t) => {
    let at = Date.parse('2026-12-30T12:00:00Z')
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
    const start = () => startApp(t, env, { now: () => at })
    let client = await start()
    const send = async (n: number) => {
      const { statusCode, headers } = await client.call('POST', '/public/track/batch', { events: Array(n).fill(event) })
      return statusCode === 429 ? Number(headers['retry-after']) : statusCode
    }
    const quotas = { events_per_day: { limit: 10, mode: 'hard' }, events_per_month: { limit: 15, mode: 'hard' } }
    await client.call('PATCH', '/public/project', { quotas })
    t.equal(await send(11), 12 * 3600, 'a batch that is larger than the rest of the quota is refused completely')
    t.equal(await send(10), 200)
    t.equal(await send(1), 12 * 3600)
    await client.app.close()
    client = await start()
    t.equal(await send(1), 12 * 3600, 'after a restart')
    at = Date.parse('2026-12-31T00:00:00Z')
    t.equal(await send(6), 24 * 3600, 'over the month')
    t.equal(await send(5), 200, 'on the next day')
    t.equal(await send(1), 24 * 3600)
    // Otherwise, the counts of the last seconds before midnight would belong to the next day.
    await client.call('GET', '/public/usage')
    at = Date.parse('2027-01-01T00:00:00Z')
    t.equal(await send(10), 200, 'in the next month')
  })
}
