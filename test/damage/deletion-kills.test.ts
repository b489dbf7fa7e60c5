import t from 'tap'
import { command } from '../../src/cli/verify/command.js'
import { run } from '../cli/lanes-store.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { SECRET_KEY, settingsFor, startApp, startService, until } from '../helper.js'

const DELETE = 'DELETE FROM events'
/** Number of events of each user. */
const EVENTS = 5

/** Where a deletion is interrupted. The first way ends the service too, as a kill does; in the second it lives on. */
const STEPS = [
  { title: 'killed before ClickHouse deletes', isKilled: true, isCarriedOut: false },
  { title: 'killed after ClickHouse has deleted', isKilled: true, isCarriedOut: true },
  { title: 'cut off before ClickHouse deletes', isKilled: false, isCarriedOut: false },
  { title: 'cut off after ClickHouse has deleted', isKilled: false, isCarriedOut: true },
]

t.test('the ledger is exact after a deletion by user or event was interrupted, and after it is repeated', async (t) => {
  const env: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), DELETE_USER_EVENTS: 'true' }
  const client = await startApp(t, env)
  const proxy = await TcpProxy.open(t, env.CLICKHOUSE_URL ?? '')
  const headers = { 'x-api-key': SECRET_KEY }
  const start = () => startService(t, { ...env, CLICKHOUSE_URL: proxy.url })
  const check = async (title: string, stored: number, deleted: number) => {
    const { code, printed } = await run(command, ['--quick'], env)
    t.equal(code, 0, `${title}: ${printed}`)
    const counts = `${stored} stored + 0 repeated + 0 refused + ${deleted} deleted + 0 waiting.`
    t.match(printed, `Ledger: default: ${stored + deleted} received = ${counts}`, title)
  }
  let service = await start()
  const remove = async (path: string) => {
    return await fetch(`${service.url}/public${path}`, { method: 'DELETE', headers }).then(
      ({ status }) => status,
      () => 0,
    )
  }
  let stored = 0
  let deleted = 0
  for (const [i, { title, isKilled, isCarriedOut }] of STEPS.entries()) {
    const events = Array.from({ length: EVENTS }, () => ({ event: 'e', distinct_id: `u${i}` }))
    t.equal((await client.call('POST', '/public/track/batch', { events })).statusCode, 200)
    const added = await client.call('POST', '/public/track', { event: 'single', distinct_id: 'kept' })
    stored += EVENTS + 1
    await until('the events', async () => (await client.events()).length === stored)
    const ways = [
      { path: `/users/u${i}`, count: EVENTS },
      { path: `/events/${added.headers['x-event-id']}`, count: 1 },
    ]
    for (const { path, count } of ways) {
      const ending = isKilled ? 'silence' : 'cut'
      const interrupted = isCarriedOut
        ? proxy.loseReply(DELETE, ending)
        : isKilled
          ? proxy.hold(DELETE).held
          : proxy.loseRequest(DELETE)
      const answer = remove(path)
      await interrupted
      if (isKilled) {
        service.process.kill('SIGKILL')
        await service.ended
      }
      t.not(await answer, 200, `${path} is ${title}`)
      if (isCarriedOut) {
        stored -= count
        deleted += count
        await until('the deletion', async () => (await client.events()).length === stored)
      }
      await check(`${path} ${title}`, stored, deleted)
      if (isKilled) service = await start()
      await until('the repeated deletion', async () => [200, 404].includes(await remove(path)))
      if (!isCarriedOut) {
        stored -= count
        deleted += count
      }
      await check(`${path} ${title}, and repeated`, stored, deleted)
    }
  }
})
