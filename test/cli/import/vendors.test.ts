import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../../helper.js'
import { basic } from '../../routes/vendors/sdk-app.js'
import { projectOfCommands } from '../project-of-commands.js'

const AT = Date.UTC(2024, 0, 1)
const iso = (minute: number) => new Date(AT + 60_000 * minute).toISOString()
const seconds = (minute: number) => AT / 1000 + 60 * minute

/** A visitor who signs up and buys something, in a vendor's format. */
interface Story {
  /** rows of an export */
  rows: object[]
  /** the same as an SDK sends it */
  live: { path: string; body: object; headers?: object }[]
}

const json = { 'content-type': 'application/json' }

/** By vendor: the story of a user whose names and events end with a tag, sent with a secret key. */
const STORIES: Record<string, (tag: string, key: string) => Story> = {
  segment: (tag, key) => {
    const [anonymousId, userId] = [`visitor-${tag}`, `user-${tag}`]
    const messages = [
      { type: 'track', event: `seen-${tag}`, anonymousId, messageId: `1-${tag}`, timestamp: iso(0) },
      { type: 'identify', anonymousId, messageId: `2-${tag}`, traits: { source: 'ad', plan: 'x' }, timestamp: iso(1) },
      { type: 'identify', userId, anonymousId, messageId: `3-${tag}`, traits: { plan: 'trial' }, timestamp: iso(2) },
      { type: 'track', event: `bought-${tag}`, userId, messageId: `4-${tag}`, timestamp: iso(3) },
    ]
    return {
      rows: messages,
      live: [{ path: '/segment/v1/batch', body: { batch: messages }, headers: { ...json, ...basic(key) } }],
    }
  },
  posthog: (tag, key) => {
    const [visitor, user] = [`visitor-${tag}`, `user-${tag}`]
    const messages = [
      {
        event: `seen-${tag}`,
        distinct_id: visitor,
        properties: { $set: { source: 'ad', plan: 'x' } },
        timestamp: iso(0),
      },
      {
        event: '$identify',
        distinct_id: user,
        properties: { $anon_distinct_id: visitor, $set: { plan: 'trial' }, $set_once: { first: 'a' } },
        timestamp: iso(2),
      },
      { event: `bought-${tag}`, distinct_id: user, properties: { $set: { seats: 2 } }, timestamp: iso(3) },
    ].map((message, i) => ({ ...message, uuid: `0190a1b2-0000-7000-8000-00000000000${i}` }))
    const rows = messages.map((message) => ({ ...message, properties: JSON.stringify(message.properties) }))
    return { rows, live: [{ path: '/posthog/batch', body: { api_key: key, batch: messages } }] }
  },
  mixpanel: (tag, key) => {
    const [visitor, user] = [`visitor-${tag}`, `user-${tag}`]
    const events = [
      [`seen-${tag}`, { distinct_id: visitor }],
      ['$identify', { distinct_id: user, $identified_id: user, $anon_id: visitor }],
      [`bought-${tag}`, { distinct_id: user, price: 9.9 }],
    ] as const
    const messages = events.map(([event, properties], i) => ({
      event,
      properties: { ...properties, time: seconds(i), $insert_id: `${i}-${tag}` },
    }))
    const person = { plan: 'trial', source: 'ad' }
    return {
      rows: [...messages, { $distinct_id: user, $properties: person }],
      live: [
        {
          path: '/mixpanel/track',
          body: messages.map(({ event, properties }) => ({ event, properties: { ...properties, token: key } })),
        },
        { path: '/mixpanel/engage', body: [{ $token: key, $distinct_id: user, $set: person }] },
      ],
    }
  },
  amplitude: (tag, key) => {
    const [device_id, user_id] = [`visitor-${tag}`, `user-${tag}`]
    const events = [
      { event_type: `seen-${tag}`, device_id, user_properties: { source: 'ad', plan: 'x' } },
      { event_type: '$identify', user_id, device_id, user_properties: { plan: 'trial' } },
      { event_type: `bought-${tag}`, user_id, device_id, event_properties: { price: 9.9 } },
    ]
    const rows = events.map((event, i) => {
      return { ...event, $insert_id: `${i}-${tag}`, event_time: iso(i).replace('T', ' ').replace('Z', '000') }
    })
    const sent = events.map((event, i) => ({ ...event, insert_id: `${i}-${tag}`, time: AT + 60_000 * i }))
    return { rows, live: [{ path: '/amplitude/2/httpapi', body: { api_key: key, events: sent } }] }
  },
}

t.test("a vendor's export imports the same data as its live messages", async (t) => {
  const { url, keys, run } = await projectOfCommands()
  const folder = await temporaryFolder(t)
  const call = async (path: string, body?: unknown, headers: object = { ...json, 'x-api-key': keys.secret }) => {
    const init = {
      headers: headers as Record<string, string>,
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    }
    const response = await fetch(`${url}${path}`, init)
    const text = await response.text()
    return { status: response.status, text, value: text.startsWith('{') ? JSON.parse(text) : null }
  }
  const user = async (name: string) => (await call(`/public/users/${encodeURIComponent(name)}`)).value.user
  const countOf = async (tag: string) => {
    const { value } = await call('/public/events?limit=1000')
    return value.events.filter(({ event, distinct_id }: Record<string, string>) =>
      `${event} ${distinct_id}`.includes(tag),
    ).length
  }
  const funnel = async (tag: string) => {
    const steps = [{ event: `seen-${tag}` }, { event: `bought-${tag}` }]
    const { value } = await call('/public/query', { kind: 'funnel', steps, from: AT - 1000, to: AT + 86_400_000 })
    return value.results[0].steps.map(({ users }: { users: number }) => users)
  }
  const write = async (tag: string, rows: object[]) => {
    const path = join(folder, `${tag}.ndjson`)
    await writeFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
    return path
  }
  const importFile = async (vendor: string, path: string) => {
    await rm(`${path}.import.json`, { force: true })
    return await run(['import', '--from', vendor, path])
  }
  /** Removes the tag, and the times of the profile. */
  const essence = ({ distinct_id, properties }: { distinct_id: string; properties: object }, tag: string) => {
    return { distinct_id: distinct_id.replace(tag, ''), properties }
  }

  for (const [vendor, storyOf] of Object.entries(STORIES)) {
    t.test(vendor, async (t) => {
      const [live, file] = [`${vendor}-live`, `${vendor}-file`]
      for (const { path, body, headers = json } of storyOf(live, keys.secret).live) {
        const { status, text } = await call(path, body, headers)
        t.equal(status, 200, text)
      }
      const { rows } = storyOf(file, keys.secret)
      const path = await write(file, rows)
      const imported = await importFile(vendor, path)
      t.equal(imported.code, 0, imported.stderr)
      const events = await countOf(file)
      t.equal(events, await countOf(live))
      for (const tag of [live, file]) {
        t.same(await funnel(tag), [1, 1], `the funnel of ${tag}`)
        t.equal((await user(`visitor-${tag}`)).distinct_id, `user-${tag}`, 'one user, by both names')
      }
      const profile = essence(await user(`user-${file}`), file)
      t.same(profile, essence(await user(`user-${live}`), live), 'the same profile')
      t.match(profile.properties, { plan: 'trial', source: 'ad' })

      const again = await importFile(vendor, path)
      t.equal(again.code, 0, again.stderr)
      t.match(again.stderr, new RegExp(`0 events stored, ${events} already stored`))
      t.equal(await countOf(file), events, 'twice the same file counts once')
      const twice = await write(`${vendor}-twice`, [...rows, ...rows])
      t.equal((await importFile(vendor, twice)).code, 0)
      t.equal(await countOf(file), events, 'the same row twice counts once')
      t.same(essence(await user(`user-${file}`), file), profile)

      await call('/public/users/identify', { distinct_id: `user-${file}`, properties: { plan: 'enterprise' } })
      t.equal((await importFile(vendor, path)).code, 0)
      t.match((await user(`visitor-${file}`)).properties, { plan: 'enterprise' }, 'newer values stay')
      t.equal((await user(`user-${live}`)).distinct_id, `user-${live}`)
    })
  }

  t.test('persons who were deleted stay deleted', async (t) => {
    const rows = [
      { distinct_id: 'gone', properties: '{"plan":"x"}', is_deleted: true, created_at: iso(0) },
      { distinct_id: 'here', properties: '{"plan":"y"}', is_deleted: false, created_at: iso(0) },
    ]
    const imported = await importFile('posthog', await write('persons', rows))
    t.equal(imported.code, 0, imported.stderr)
    t.match(imported.stderr, /1 profile change made, 0 rejected, 1 skipped/)
    t.equal((await call('/public/users/gone')).status, 404)
    t.same((await user('here')).properties, { plan: 'y' })
  })

  t.test('refused changes are listed by line and do not affect others', async (t) => {
    const rows = [
      { distinct_id: 'r-1', properties: '{"n":1}' },
      { distinct_id: '$anonymous', properties: '{"n":1}' },
      {
        event: 'seen-refused',
        distinct_id: 'undefined',
        properties: '{"$set":{"n":1}}',
        timestamp: iso(0),
        uuid: 'r-1',
      },
      { event: '$identify', distinct_id: 'r-1', properties: '{}', timestamp: iso(0), uuid: 'r-2' },
      {
        event: '$identify',
        distinct_id: 'r-2',
        properties: '{"$anon_distinct_id":"r-1"}',
        timestamp: iso(1),
        uuid: 'r-3',
      },
      { event: 'seen-refused', distinct_id: 'r-3', properties: '{}', timestamp: 'yesterday', uuid: 'r-4' },
    ]
    const imported = await importFile('posthog', await write('refused', rows))
    t.equal(imported.code, 1)
    t.match(imported.stderr, /3 events stored, 3 profile changes made, 2 rejected, 1 user change refused/)
    t.equal((await user('r-2')).distinct_id, 'r-2', 'two who were identified are not made one')
    t.same((await user('r-1')).properties, { n: 1 })
  })
})
