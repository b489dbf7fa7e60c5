import t from 'tap'
import { Shards } from '../../../src/clickhouse/shards.js'
import { replayDeadLetter } from '../../../src/ingest/replay.js'
import { parseRejected } from '../../../src/model/rejected.js'
import { readDeadLetterBody, readDeadLetters } from '../../../src/store/dead-letters.js'
import { openStore } from '../../../src/store/open.js'
import { until } from '../../helper.js'
import { addSdkProject } from './sdk-app.js'

// Repeated messages of an SDK are stored once, including changes of profiles; faulty ones become a dead letter, once.

t.test('repeated messages', async (t) => {
  const { client, projectId, keys, post, events, user } = await addSdkProject()

  await t.test('events and changes that are repeated in other batches and concurrently', async (t) => {
    const message = (type: string, messageId: string, more: object) => ({ type, messageId, userId: 'ada', ...more })
    const tracks = Array.from({ length: 30 }, (_, i) => message('track', `t${i}`, { event: `e${i}` }))
    const identifies = ['one', 'two', 'three'].map((name) => message('identify', name, { traits: { name } }))
    const all = [...tracks, ...identifies]
    const send = async (batch: object[]) => {
      t.equal((await post('/segment/v1/batch', { batch })).statusCode, 200)
    }
    await send(all)
    await Promise.all([send(tracks.slice(5)), send(all.toReversed()), ...tracks.map((one) => send([one]))])
    const found = await events('&distinct_id=ada')
    const tracked = found.filter(({ event }) => event !== '$identify').map(({ event }) => event)
    t.same(tracked.toSorted(), tracks.map((_, i) => `e${i}`).toSorted())
    // An earlier change that comes again does not undo a later one.
    await send([identifies[0] ?? {}])
    t.match(await user('ada'), { name: 'three' })
  })

  await t.test('invalid messages', async (t) => {
    const bad = { type: 'track', messageId: 'bad', userId: 'named-in-a-fault', event: 'x'.repeat(300) }
    const good = { type: 'track', messageId: 'good', userId: 'bob', event: 'good' }
    for (let i = 0; i < 3; i++) {
      t.equal((await post('/segment/v1/batch', { batch: [bad, good] })).body, '{"success":true}')
    }
    t.equal((await events('&distinct_id=bob')).length, 1)
    const { clickhouse, close } = await openStore(client.config)
    t.teardown(close)
    const shards = Shards.of(clickhouse)
    const letters = await until('the dead letter', async () => {
      const found = await readDeadLetters(shards, { limit: 10, projectId })
      return found.length > 0 && found
    })
    t.match(letters, [{ projectId, kind: 'rejected', reason: /event must be a string of 1 to 255/ }])
    const [letter] = letters
    if (!letter) return
    const chunks: Buffer[] = []
    for await (const chunk of await readDeadLetterBody(letter)) chunks.push(chunk)
    const { messages } = parseRejected(Buffer.concat(chunks))
    t.equal(messages.length, 1)
    t.match(messages[0]?.message, /named-in-a-fault/)
    t.match(await replayDeadLetter(shards, letter, Date.now()), { isStored: false })

    const erased = await client.app.inject({
      method: 'POST',
      url: '/public/users/erase',
      headers: { 'x-api-key': keys.secret },
      payload: { distinct_ids: ['named-in-a-fault'] },
    })
    t.match(erased.json(), { erased: [{ distinct_id: 'named-in-a-fault', dead_letters: 1 }] })
    t.equal((await readDeadLetters(shards, { limit: 10, projectId })).length, 0)
  })
})
