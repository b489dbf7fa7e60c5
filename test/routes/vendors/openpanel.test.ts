import t from 'tap'
import { addSdkProject } from './sdk-app.js'

t.test("OpenPanel's calls", async (t) => {
  const { keys, inject, events, user } = await addSdkProject()
  const send = (
    type: string,
    payload: unknown,
    headers: Record<string, string> = { 'openpanel-client-id': keys.write },
  ) => inject({ method: 'POST', url: '/openpanel/track', payload: { type, payload }, headers })

  await t.test('events', async (t) => {
    for (const slash of ['', '/']) {
      const response = await inject({
        method: 'POST',
        url: `/openpanel/track${slash}`,
        payload:
          '{"type":"track","payload":{"name":"e","profileId":"ada","properties":{"price":9.9,"unicode":"é漢😀"}}}',
        headers: { 'openpanel-client-id': 'an old id', 'openpanel-client-secret': keys.secret },
      })
      t.equal(response.statusCode, 200)
      t.match(response.json(), { deviceId: /./, sessionId: /./ })
    }
    t.equal((await send('track', { name: 'e' })).statusCode, 200)
    t.equal((await events('&distinct_id=%24anonymous')).length, 1)
    const stored = await events('&distinct_id=ada')
    t.strictSame(
      stored.map(({ properties }) => properties),
      Array(2).fill({ price: 9.9, unicode: 'é漢😀' }),
    )
  })

  await t.test('profiles and groups', async (t) => {
    const ada = { profileId: 'ada' }
    await send('identify', { ...ada, firstName: 'Ada', email: 'a@b.c', properties: { plan: 'pro' } })
    await send('increment', { ...ada, property: 'visits', value: 3 })
    await send('decrement', { ...ada, property: 'visits' })
    await send('assign_group', { ...ada, groupIds: ['acme'] })
    await send('assign_group', { ...ada, groupIds: ['acme', 'globex'] })
    t.strictSame(await user('ada'), {
      firstName: 'Ada',
      email: 'a@b.c',
      plan: 'pro',
      visits: 2,
      $groups: ['acme', 'globex'],
    })
    await send('group', { id: 'acme', type: 'company', name: 'Acme', properties: { a: 1 } })
    t.strictSame(await user('$group:company:acme'), { name: 'Acme', a: 1 })
  })

  await t.test('a message that cannot be stored gets a response that prevents a retry', async (t) => {
    for (const [type, payload] of [
      ['nothing', {}],
      ['track', {}],
      ['track', null],
      ['increment', { property: 'n' }],
      ['replay', { chunk: 1 }],
    ] as const) {
      const response = await send(type, payload)
      t.equal(response.statusCode, 200, type)
      t.equal(typeof response.json().deviceId, 'string')
    }
    for (const wrong of ['unknown', keys.read, keys.public]) {
      t.equal((await send('track', { name: 'e' }, { 'openpanel-client-id': wrong })).statusCode, 401)
    }
    t.equal((await send('track', { name: 'e' }, {})).statusCode, 401)
    t.equal((await inject({ url: '/openpanel/track/device-id' })).statusCode, 200)
  })
})
