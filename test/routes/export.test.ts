import { once } from 'node:events'
import { get as httpGet, type IncomingMessage } from 'node:http'
import t from 'tap'
import { type Client, realEvents, until } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { newProject, sharedApp } from '../shared-app.js'

const FORMATS = ['ndjson', 'csv', 'parquet'] as const

/** Sends real events with all kinds of text. */
async function send({ call }: Client, events: string[]): Promise<void> {
  const response = await call('POST', '/public/track/batch', `{"events":[${events.join()}]}`)
  if (response.statusCode !== 200) throw new Error(response.body)
}

t.test('all events as one stream', async (t) => {
  const client = await newProject(await sharedApp('lanes'))
  const { call, app, keys } = client
  const texts = await realEvents()
  const exported = async (query = '') => {
    const response = await call('GET', `/public/export?${query}`)
    if (response.statusCode !== 200) throw new Error(response.body)
    const next = String(response.headers['x-next-cursor'])
    return { body: response.body, next, hasMore: response.headers['x-has-more'], headers: response.headers }
  }
  const paged = async (query: string) => (await call('GET', `/public/events?limit=10000&${query}`)).body

  t.test('a new project is empty, and a later export has what was sent since', async (t) => {
    const first = await exported()
    t.equal(first.body, '')
    t.equal(first.hasMore, 'false')
    await send(client, texts.slice(0, 300))
    const second = await exported(`cursor=${first.next}`)
    t.equal(second.body.split('\n').length - 1, 300)
    t.equal((await exported(`cursor=${second.next}`)).body, '')
  })

  t.test('the bytes are those of the pages', async (t) => {
    for (const format of FORMATS) {
      const { body, headers } = await exported(`format=${format}`)
      const page = await call('GET', `/public/events?limit=10000&format=${format}`)
      t.equal(headers['content-type'], page.headers['content-type'])
      if (format !== 'parquet') t.equal(body, page.body, format)
      else t.match(body, /^PAR1.*PAR1$/s)
    }
    const byHeader = await call('GET', '/public/export', undefined, { accept: 'text/csv' })
    t.equal(byHeader.body, await paged('format=csv'))
  })

  t.test('filters and parts', async (t) => {
    const first = JSON.parse((await paged('format=ndjson')).split('\n')[0] ?? '')
    for (const filter of [`event=${first.event}`, `distinct_id=${first.distinct_id}`, `from=${first.timestamp}`]) {
      t.equal((await exported(filter)).body, await paged(`format=ndjson&${filter}`), filter)
    }
    let all = ''
    let cursor = ''
    for (let parts = 1; ; parts++) {
      const part = await exported(`limit=70${cursor}`)
      all += part.body
      cursor = `&cursor=${part.next}`
      if (part.hasMore === 'false') {
        t.equal(parts, 5)
        break
      }
    }
    t.equal(all, await paged('format=ndjson'))
  })

  t.test('an export resumes where the previous one ended, while events arrive', async (t) => {
    let body = (await exported()).body
    let next = (await exported()).next
    for (let round = 0; round < 3; round++) {
      const sending = Promise.all([send(client, texts.slice(300, 340)), send(client, texts.slice(340, 350))])
      const part = await exported(`cursor=${next}`)
      await sending
      body += part.body
      next = part.next
    }
    body += (await exported(`cursor=${next}`)).body
    t.equal(body, await paged('format=ndjson'))
  })

  t.test('invalid parameters are refused', async (t) => {
    const descending = (await call('GET', '/public/events?limit=1&order=desc')).json().next
    for (const query of ['cursor=x', `cursor=${descending}`, 'format=json', 'limit=0', 'page=1', 'from=x']) {
      const response = await call('GET', `/public/export?${query}`)
      t.equal(response.statusCode, 400, query)
      t.equal(response.json().details[0].path, `/${query.split('=')[0]}`)
    }
  })

  t.test('HEAD returns the end, and reads nothing', async (t) => {
    const head = await call('HEAD', '/public/export?format=csv')
    t.equal(head.statusCode, 200)
    t.equal(head.headers['x-next-cursor'], (await exported()).next)
    t.equal(head.body, '')
  })

  t.test('the end of a limited export is exact, also after a deletion', async (t) => {
    const end = async (query: string) => {
      const { headers } = await call('HEAD', `/public/export?${query}`)
      return [headers['x-has-more'], headers['x-next-cursor']]
    }
    const all = (await exported()).body.trimEnd().split('\n')
    const { eventId, event } = JSON.parse(all.at(-1) ?? '')
    const whole = (await exported()).next
    for (const filter of ['', `event=${encodeURIComponent(event)}&`]) {
      const { body, next } = await exported(filter)
      const rows = body.trimEnd().split('\n').length
      t.same(await end(`${filter}limit=${rows}`), ['false', next])
      t.equal((await end(`${filter}limit=${rows - 1}`))[0], 'true')
      t.equal(
        (await exported(`${filter}cursor=${(await end(`${filter}limit=${rows - 1}`))[1]}`)).body,
        `${all.at(-1)}\n`,
      )
    }
    t.equal((await call('DELETE', `/public/events/${eventId}`)).statusCode, 200)
    t.same(await end(`limit=${all.length - 1}`), ['false', whole])
    t.equal((await end(`limit=${all.length - 2}`))[0], 'true')
  })

  t.test('a disconnect ends the query', async (t) => {
    const url = `${await addressOf(client)}/public/export`
    const request = httpGet(url, { headers: { 'x-api-key': keys.secret } })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.destroy()
    await until('the connection to be gone', async () => {
      const open = await new Promise<number>((resolve) => app.server.getConnections((_, count) => resolve(count)))
      return open === 0
    })
    t.equal((await exported('limit=1')).hasMore, 'true')
  })
})
