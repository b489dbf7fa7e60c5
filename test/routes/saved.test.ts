import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import { memberText } from '../../src/json/texts.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { eraseSaved } from '../../src/store/saved.js'
import { randomName, SECRET_KEY, settingsFor, startApp, startRedis, until } from '../helper.js'
import { type Node, shardsUrl, startNodes } from '../nodes.js'
import { newProject } from '../shared-app.js'

const DONE = '{"status":1,"error":null}'
const SERIES = { kind: 'series', series: [{ event: 'signed up' }] }
const KINDS = ['questions', 'boards'] as const
type Kind = (typeof KINDS)[number]

/** The body of a PUT with this name. */
function bodyOf(kind: Kind, name: string, more: object = {}): object {
  if (kind === 'questions') return { name, question: SERIES, ...more }
  return { name, cards: [{ id: 'a', name: 'A', question: SERIES, width: 2 }], ...more }
}

type App = Awaited<ReturnType<typeof startApp>>

function callsOf({ call }: Pick<App, 'call'>, headers: object = {}) {
  const put = (kind: Kind, id: string, body: unknown) => call('PUT', `/public/${kind}/${id}`, body, headers)
  const save = async (kind: Kind, id: string, body: unknown): Promise<number> => {
    const response = await put(kind, id, body)
    if (response.statusCode !== 200) throw new Error(response.body)
    return response.json().revision
  }
  const one = (kind: Kind, id: string) => call('GET', `/public/${kind}/${id}`, undefined, headers)
  const list = async (kind: Kind) => (await call('GET', `/public/${kind}`, undefined, headers)).json()[kind]
  const remove = (kind: Kind, id: string) => call('DELETE', `/public/${kind}/${id}`, undefined, headers)
  return { put, save, one, list, remove }
}

function isRefused(t: Test, response: Awaited<ReturnType<App['call']>>, status: number, code: string, path?: string) {
  t.match(response.json(), { status: 0, code, error: /\w.*\.$/ }, response.body)
  t.equal(response.statusCode, status)
  if (path !== undefined) t.match(response.json().details, [{ path, message: /\w/ }], response.body)
}

// They are only in the store, so the kind of journal makes no difference.
t.test('saved questions and boards', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  let time = 1_700_000_000_000
  const client = await startApp(t, env, { now: () => time })
  const { call } = client
  const { put, save, one, list, remove } = callsOf(client)

  /** Saves `count` of a kind, named q0 or b0 and up; `content` is an expression in SQL. */
  const fill = async (t: Test, project: string, kind: 'question' | 'board', count: number, content: string) => {
    const { clickhouse, close } = await openStore(client.config)
    t.teardown(close)
    await clickhouse.command(
      `INSERT INTO saved (project_id, kind, id, name, content, display, version)
       SELECT {project:String}, {kind:String}, concat(left({kind:String}, 1), toString(number)), 'n', ${content}, 'null', 1
       FROM numbers({count:UInt32})`,
      { project, kind, count },
    )
    return clickhouse
  }
  /** The calls with a new key. */
  const withKey = async (projectId: string, kind: 'secret' | 'read' | 'write' | 'public' = 'secret') => {
    const key = makeKey(kind)
    const { clickhouse, close } = await openStore(client.config)
    await insertKeys(clickhouse, [storedKey(key, { projectId, kind })], Date.now())
    await close()
    const calls = callsOf(client, { 'x-api-key': key })
    await until('the key', async () => (await calls.one('boards', 'none')).statusCode !== 401)
    return calls
  }

  t.test('the lists of a new project are empty', async (t) => {
    for (const kind of KINDS) {
      const response = await call('GET', `/public/${kind}`)
      t.equal(response.body, `{"status":1,"error":null,"${kind}":[]}`)
      t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
      isRefused(t, await one(kind, 'none'), 404, 'not_found')
      isRefused(t, await remove(kind, 'none'), 404, 'not_found')
    }
  })

  t.test('a question is returned exactly as it was sent', async (t) => {
    const question = '{ "kind":"series", "series":[{"event":"a/\\u00e9😀","where":["gt","properties.n",1.0]}]}'
    const display = '{"b":1e400,"a":123456789012345678901234567890,"a":null , "t":"\\ud800it\'s \\\\N {id:String}"}'
    const first = await put(
      'questions',
      'exact',
      `{"name":"It's \\"a\\"/b","question":${question},"display":${display}}`,
    )
    t.equal(first.body, '{"status":1,"error":null,"revision":1}')
    const wanted = `{"id":"exact","name":"It's \\"a\\"/b","question":${question},"display":${display},"revision":1,"updated_at":1700000000000}`
    t.equal((await one('questions', 'exact')).body, `{"status":1,"error":null,"question":${wanted}}`)
    t.equal((await call('GET', '/public/questions')).body, `{"status":1,"error":null,"questions":[${wanted}]}`)

    time++
    t.equal(await save('questions', 'exact', { name: 'b', question: SERIES, display: null }), 2)
    t.strictSame((await one('questions', 'exact')).json().question, {
      id: 'exact',
      name: 'b',
      question: SERIES,
      display: null,
      revision: 2,
      updated_at: 1_700_000_000_001,
    })
    t.equal((await remove('questions', 'exact')).body, DONE)
    isRefused(t, await one('questions', 'exact'), 404, 'not_found')
    isRefused(t, await remove('questions', 'exact'), 404, 'not_found')
    t.strictSame(await list('questions'), [])
  })

  t.test('a board is returned with its cards, and listed with their number', async (t) => {
    const cards = [
      { id: 'x', name: 'X', question: SERIES, display: { chart: 'bar' }, width: 4, height: 2 },
      { id: 'y', name: 'Y', question: { saved: 'gone' }, display: null, width: 1, height: null },
    ]
    const unknown = { apiKey: 'x', color: 1, saved: null }
    const sent = [
      { ...cards[0], ...unknown, question: { ...SERIES, apiKey: SECRET_KEY } },
      { ...cards[1], ...unknown },
    ]
    const display = { range: '7d', where: null }
    t.equal(await save('boards', 'b-1', { apiKey: SECRET_KEY, name: 'Board', cards: sent, display }), 1)
    const stored = { id: 'b-1', name: 'Board', revision: 1, updated_at: time }
    const response = await one('boards', 'b-1')
    t.strictSame(response.json().board, { ...stored, cards, display })
    t.notMatch(response.body, SECRET_KEY, 'a key in a question is not kept')
    t.strictSame(await list('boards'), [{ ...stored, count: 2 }])
    t.equal(await save('boards', 'b-1', { name: 'Empty', cards: [] }), 2)
    t.match((await one('boards', 'b-1')).json().board, { name: 'Empty', cards: [], display: null, revision: 2 })
    t.equal((await remove('boards', 'b-1')).statusCode, 200)
    t.strictSame(await list('boards'), [])
  })

  t.test('every kind of question can be saved', async (t) => {
    const event = { event: 'e' }
    const questions = [
      SERIES,
      { kind: 'funnel', steps: [event, event] },
      { kind: 'retention', start: event, return: 'e' },
      { kind: 'paths', start: 'e' },
      { kind: 'users', of: SERIES, cell: { series: 0 } },
    ]
    for (const question of questions) {
      await save('questions', 'kinds', { name: 'k', question })
      t.strictSame((await one('questions', 'kinds')).json().question.question, question)
    }
    await remove('questions', 'kinds')
  })

  t.test('a change whose response was lost can be repeated', async (t) => {
    for (const kind of KINDS) {
      const id = randomName('again')
      const first = bodyOf(kind, 'n', { revision: 0 })
      t.equal(await save(kind, id, first), 1)
      t.equal(await save(kind, id, first), 1)
      const next = bodyOf(kind, 'm', { revision: 1 })
      t.equal(await save(kind, id, next), 2)
      t.equal(await save(kind, id, next), 2)
      isRefused(t, await put(kind, id, first), 409, 'revision_conflict')
      t.equal((await remove(kind, id)).statusCode, 200)
      isRefused(t, await put(kind, id, next), 409, 'revision_conflict')
    }
  })

  t.test('an outdated revision is a conflict', async (t) => {
    for (const kind of KINDS) {
      const id = 'revised'
      isRefused(t, await put(kind, id, bodyOf(kind, 'n', { revision: 1 })), 409, 'revision_conflict')
      const first = await save(kind, id, bodyOf(kind, 'n', { revision: 0 }))
      isRefused(t, await put(kind, id, bodyOf(kind, 'no', { revision: 0 })), 409, 'revision_conflict')
      const second = await save(kind, id, bodyOf(kind, 'n2', { revision: first }))
      t.ok(second > first)
      isRefused(t, await put(kind, id, bodyOf(kind, 'no', { revision: first })), 409, 'revision_conflict')
      t.equal((await list(kind))[0].name, 'n2')
      const third = await save(kind, id, bodyOf(kind, 'n3', { revision: null }))
      t.ok(third > second, 'without one, the last change wins')
      t.equal((await remove(kind, id)).statusCode, 200)
      isRefused(t, await put(kind, id, bodyOf(kind, 'no', { revision: third })), 409, 'revision_conflict')
      const again = await save(kind, id, bodyOf(kind, 'n4', { revision: 0 }))
      t.ok(again > third, 'revisions are never reused')
      await remove(kind, id)
    }
  })

  t.test('only one of many concurrent changes of a revision is made', async (t) => {
    for (const kind of KINDS) {
      let revision = 0
      for (let round = 0; round < 2; round++) {
        const names = Array.from({ length: 5 }, (_, i) => `${round} ${i}`)
        const responses = await Promise.all(names.map((name) => put(kind, 'race', bodyOf(kind, name, { revision }))))
        const won = responses.flatMap(({ statusCode }, i) => (statusCode === 200 ? [i] : []))
        t.equal(won.length, 1, responses.map(({ statusCode }) => statusCode).join())
        const stored = (await list(kind))[0]
        t.equal(stored.name, names[won[0] ?? 0])
        revision = responses[won[0] ?? 0]?.json().revision
        t.equal(stored.revision, revision)
      }
      const all = await Promise.all(Array.from({ length: 5 }, (_, i) => save(kind, 'race', bodyOf(kind, `${i}`))))
      t.equal(new Set(all).size, 5, 'those without a revision are all made, one after the other')
      const deleted = await Promise.all(Array.from({ length: 5 }, () => remove(kind, 'race')))
      t.equal(deleted.filter(({ statusCode }) => statusCode === 200).length, 1)
    }
  })

  t.test('lists are sorted by name, ignoring case', async (t) => {
    for (const name of ['beta', 'Älter', 'Alpha', 'alpha', 'Zoë']) {
      await save('questions', randomName('q'), bodyOf('questions', name))
    }
    const names = (await list('questions')).map(({ name }: { name: string }) => name)
    t.strictSame(names, ['Alpha', 'alpha', 'beta', 'Zoë', 'Älter'])
    for (const { id } of await list('questions')) await remove('questions', id)
  })

  t.test('invalid fields are named', async (t) => {
    const card = { id: 'a', name: 'A', question: SERIES, width: 1 }
    const rows: [kind: Kind, body: object, path: string][] = [
      ['questions', { question: SERIES }, '/name'],
      ['questions', { name: '', question: SERIES }, '/name'],
      ['questions', { name: 'x'.repeat(256), question: SERIES }, '/name'],
      ['questions', { name: 'n' }, '/question'],
      ['questions', { name: 'n', question: [] }, '/question'],
      ['questions', { name: 'n', question: { kind: 'x' } }, '/question/kind'],
      ['questions', { name: 'n', question: { kind: 'series' } }, '/question/series'],
      ['questions', { name: 'n', question: { ...SERIES, interval: 1 } }, '/question/interval'],
      ['questions', { name: 'n', question: { ...SERIES, where: ['no'] } }, '/question/where'],
      ['questions', { name: 'n', question: { kind: 'users', of: { kind: 'users' } } }, '/question/of/kind'],
      ['questions', { name: 'n', question: SERIES, display: 1 }, '/display'],
      ['questions', { name: 'n', question: SERIES, revision: -1 }, '/revision'],
      ['questions', { name: 'n', question: SERIES, revision: '1' }, '/revision'],
      ['boards', { name: 'n' }, '/cards'],
      ['boards', { name: 'n', cards: {} }, '/cards'],
      ['boards', { name: 'n', cards: [], display: 'x' }, '/display'],
      ['boards', { name: 'n', cards: Array.from({ length: 51 }, (_, i) => ({ ...card, id: `${i}` })) }, '/cards'],
      ['boards', { name: 'n', cards: [card, null] }, '/cards/1'],
      ['boards', { name: 'n', cards: [{ ...card, id: 'a b' }] }, '/cards/0/id'],
      ['boards', { name: 'n', cards: [card, card] }, '/cards/1/id'],
      ['boards', { name: 'n', cards: [{ ...card, name: 1 }] }, '/cards/0/name'],
      ['boards', { name: 'n', cards: [{ ...card, width: 5 }] }, '/cards/0/width'],
      ['boards', { name: 'n', cards: [{ ...card, height: 0 }] }, '/cards/0/height'],
      ['boards', { name: 'n', cards: [{ ...card, display: 'x' }] }, '/cards/0/display'],
      ['boards', { name: 'n', cards: [card, { ...card, id: 'b', question: {} }] }, '/cards/1/question/kind'],
      ['boards', { name: 'n', cards: [{ ...card, question: { saved: 1 } }] }, '/cards/0/question/saved'],
      ['boards', { name: 'n', cards: [{ ...card, question: { saved: 'a/b' } }] }, '/cards/0/question/saved'],
    ]
    for (const [kind, body, path] of rows) isRefused(t, await put(kind, 'wrong', body), 400, 'invalid_request', path)
    for (const kind of KINDS) {
      for (const id of ['a%20b', 'x'.repeat(65), '%C3%A9', 'a.b']) {
        isRefused(t, await put(kind, id, bodyOf(kind, 'n')), 400, 'invalid_request', '/id')
        isRefused(t, await one(kind, id), 404, 'not_found')
        isRefused(t, await remove(kind, id), 404, 'not_found')
      }
      isRefused(t, await put(kind, 'x', '{"name":'), 400, 'invalid_json')
      const large = bodyOf(kind, 'n', { filler: 'x'.repeat(256 * 1024) })
      isRefused(t, await put(kind, 'x', large), 413, 'payload_too_large')
      t.strictSame(await list(kind), [], 'nothing of it was saved')
    }
  })

  t.test('a read key can read, but not change anything', async (t) => {
    const project = randomName('keys')
    const owner = await withKey(project)
    const reader = await withKey(project, 'read')
    for (const kind of KINDS) {
      await owner.save(kind, 'mine', bodyOf(kind, 'n'))
      t.equal((await reader.one(kind, 'mine')).statusCode, 200)
      t.equal((await reader.list(kind)).length, 1)
      isRefused(t, await reader.put(kind, 'mine', bodyOf(kind, 'x')), 403, 'wrong_key_kind')
      isRefused(t, await reader.remove(kind, 'mine'), 403, 'wrong_key_kind')
      for (const other of ['write', 'public'] as const) {
        const calls = await withKey(project, other)
        isRefused(t, await calls.one(kind, 'mine'), 403, 'wrong_key_kind')
        isRefused(t, await calls.put(kind, 'mine', bodyOf(kind, 'x')), 403, 'wrong_key_kind')
      }
      isRefused(t, await callsOf(client, { 'x-api-key': 'sk_unknown' }).one(kind, 'mine'), 401, 'unauthorized')
    }
  })

  t.test('a project sees only its own, and a kind only its own', async (t) => {
    const [a, b] = [await withKey(randomName('a')), await withKey(randomName('b'))]
    await a.save('questions', 'same', bodyOf('questions', 'of a'))
    await b.save('questions', 'same', bodyOf('questions', 'of b'))
    isRefused(t, await a.one('boards', 'same'), 404, 'not_found')
    t.equal((await a.one('questions', 'same')).json().question.name, 'of a')
    t.equal((await a.list('questions')).length, 1)
    t.equal((await a.remove('questions', 'same')).statusCode, 200)
    t.equal((await b.one('questions', 'same')).json().question.name, 'of b')
  })

  t.test('erasing a project removes them, and their ids can be used again', async (t) => {
    const [gone, kept] = [randomName('gone'), randomName('kept')]
    const [mine, other] = [await withKey(gone), await withKey(kept)]
    const { clickhouse, close } = await openStore(client.config)
    t.teardown(close)
    for (let round = 0; round < 2; round++) {
      for (const kind of KINDS) {
        for (const calls of [mine, other])
          for (const name of ['one', 'two']) await calls.save(kind, 'x', bodyOf(kind, name))
      }
      await eraseSaved(Shards.of(clickhouse), gone)
      const [rows] = await clickhouse.rows<{ count: string }>(
        'SELECT count() AS count FROM saved WHERE project_id = {gone:String}',
        { gone },
      )
      t.equal(rows?.count, '0')
      for (const kind of KINDS) {
        t.strictSame(await mine.list(kind), [])
        t.equal((await other.list(kind)).length, 1)
      }
    }
    const races = await Promise.all(
      Array.from({ length: 6 }, (_, i) => mine.put('boards', 'x', bodyOf('boards', `${i}`, { revision: 0 }))),
    )
    t.equal(races.filter(({ statusCode }) => statusCode === 200).length, 1, 'one of many concurrent ones')
  })

  t.test('a project has at most 500 of a kind', async (t) => {
    const project = randomName('many')
    const mine = await withKey(project)
    await fill(t, project, 'question', 499, "'{}'")
    const last = await mine.save('questions', 'last', bodyOf('questions', 'z'))
    const refused = await mine.put('questions', 'more', bodyOf('questions', 'z'))
    isRefused(t, refused, 400, 'invalid_request')
    t.match(refused.json().error, /at most 500 questions/)
    t.ok((await mine.save('questions', 'last', bodyOf('questions', 'z2'))) > last, 'existing ones can change')
    t.equal((await mine.list('questions')).length, 500)
    await mine.save('boards', 'b', bodyOf('boards', 'b'))
    await mine.remove('questions', 'q7')
    await mine.save('questions', 'more', bodyOf('questions', 'z'))
  })

  t.test('a project has at most 16 MiB of a kind', async (t) => {
    const project = randomName('heavy')
    const mine = await withKey(project)
    const question = {
      kind: 'series',
      series: [{ event: 'a' }],
      where: ['is', 'event', Array(24).fill('x'.repeat(10_000))],
    }
    const heavy = (name: string) => ({ ...bodyOf('questions', name), question })
    const content = `replaceAll('${JSON.stringify({ ...question, where: ['is', 'event', Array(24).fill('x')] })}', '"x"', concat('"', repeat('x', 10000), '"'))`
    await fill(t, project, 'question', 68, content)
    await mine.save('questions', 'last', heavy('h'))
    const refused = await mine.put('questions', 'more', heavy('h'))
    isRefused(t, refused, 400, 'invalid_request')
    t.match(refused.json().error, /at most 16 MiB/)
    await mine.save('questions', 'q3', heavy('again'))
    await mine.save('boards', 'b', bodyOf('boards', 'b'))
    await mine.remove('questions', 'q7')
    await mine.save('questions', 'more', heavy('h'))
    t.equal((await mine.list('questions')).length, 69)
  })

  t.test('many that are added concurrently stay below the limit, and all that stay are listed', async (t) => {
    const project = randomName('crowd')
    const mine = await withKey(project)
    const clickhouse = await fill(t, project, 'board', 495, "'[]'")
    const ids = Array.from({ length: 10 }, (_, i) => `new-${i}`)
    const answers = await Promise.all(ids.map((id) => mine.put('boards', id, bodyOf('boards', id))))
    const taken = ids.filter((_, i) => answers[i]?.statusCode === 200)
    for (const answer of answers) if (answer.statusCode !== 200) isRefused(t, answer, 400, 'invalid_request')
    const listed = (await mine.list('boards')).map(({ id }: { id: string }) => id)
    t.ok(listed.length <= 500)
    t.strictSame(new Set(listed.filter((id: string) => id.startsWith('new'))), new Set(taken))
    const [{ count = 0 } = {}] = await clickhouse.rows<{ count: number }>(
      'SELECT toUInt32(count()) AS count FROM saved FINAL WHERE project_id = {project:String}',
      { project },
    )
    t.equal(count, listed.length)
  })

  t.test('any name and any display are returned unchanged', async (t) => {
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }).filter((text) => [...text].length <= 255)
    const display = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }))
    await fc.assert(
      fc.asyncProperty(name, display, async (name, display) => {
        const text = JSON.stringify(display)
        await save(
          'questions',
          'any',
          `{"name":${JSON.stringify(name)},"question":${JSON.stringify(SERIES)},"display":${text}}`,
        )
        const { body } = await one('questions', 'any')
        const found = memberText(body, 'question') ?? ''
        t.equal(memberText(found, 'display'), text)
        t.equal(JSON.parse(memberText(found, 'name') ?? ''), name)
      }),
      { numRuns: 5 },
    )
    await remove('questions', 'any')
  })

  t.test('they survive a restart', async (t) => {
    const id = randomUUID()
    await save('boards', id, bodyOf('boards', 'kept'))
    const before = (await one('boards', id)).body
    await client.app.close()
    const again = await startApp(t, env)
    t.equal((await callsOf(again).one('boards', id)).body, before)
  })
})

t.test('saving a question warns like asking it', async (t) => {
  const { call } = await newProject()
  await call('POST', '/public/track', { event: 'purchased', distinct_id: 'ada', properties: { plan: 'pro' } })
  const save = async (path: string, body: object) => (await call('PUT', `/public/${path}`, body)).json()
  const ask = async (question: object) => (await call('POST', '/public/query', question)).json().warnings
  const at = (prefix: string, warnings: { path: string }[]) => {
    return warnings.map((warning) => ({ ...warning, path: `${prefix}${warning.path}` }))
  }
  const wrong = { kind: 'series', series: [{ event: 'purch' }], breakdwon: ['properties.plan'] }
  const unknown = { kind: 'series', series: [{ event: 'purchased' }], breakdown: ['properties.plam'] }
  const [ofWrong, ofUnknown] = [await ask(wrong), await ask(unknown)]
  t.match(ofWrong, [{ path: '/breakdwon' }, { path: '/series/0/event', suggestion: 'purchased' }])
  t.match(ofUnknown, [{ path: '/breakdown/0' }])
  t.strictSame(await save('questions/a', { name: 'A', question: wrong }), {
    status: 1,
    error: null,
    revision: 1,
    warnings: at('/question', ofWrong),
  })
  const cards = [wrong, { saved: 'a' }, unknown].map((question, i) => ({ id: `c${i}`, name: 'C', question, width: 2 }))
  const board = await save('boards/b', { name: 'B', cards })
  // Ignored fields of all cards come first.
  const warned = [...at('/cards/0/question', ofWrong), ...at('/cards/2/question', ofUnknown)]
  const sort = (all: { path: string }[]) => all.toSorted((one, other) => (one.path < other.path ? -1 : 1))
  t.strictSame(sort(board.warnings), sort(warned))
  const right = { kind: 'series', series: [{ event: 'purchased' }], breakdown: ['properties.plan'] }
  t.strictSame(await save('questions/c', { name: 'C', question: right }), { status: 1, error: null, revision: 1 })
})

t.test('with several shards, they are on the first one, and a 503 names it if it is down', async (t) => {
  const nodes = (await startNodes(t, 2)) as [Node, Node]
  const redis = await startRedis(t)
  const env = {
    ...{ PUBLIC_API_KEY: 'pk_test_public_key', SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0', LANES: '2', FACTS: 'off' },
    ...{ REDIS_URL: redis.url, CLICKHOUSE_URL: shardsUrl(nodes) },
  }
  t.equal(loadConfig(env).LANES, 2)
  const client = await startApp(t, env)
  const { save, one, list, put, remove } = callsOf(client)
  for (let i = 0; i < 4; i++) await save('boards', `b${i}`, bodyOf('boards', `${i}`))
  t.equal((await list('boards')).length, 4)
  await nodes[1].stop()
  t.equal((await list('boards')).length, 4, 'the second shard is not asked')
  await nodes[0].stop()
  for (const response of [
    await one('boards', 'b1'),
    await client.call('GET', '/public/boards'),
    await put('boards', 'b1', bodyOf('boards', 'x')),
    await remove('boards', 'b1'),
  ]) {
    isRefused(t, response, 503, 'unavailable')
    t.match(response.json().error, /Shard 0/)
    t.equal(response.headers['retry-after'], '1')
  }
})
