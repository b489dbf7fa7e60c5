import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { LeadState } from '../../src/store/lead-state.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { emptyClickHouse } from '../shared-engine.js'

const WINDOW = 10

t.test('a process that claims an epoch late does not lead, too', async (t) => {
  const { url, clickhouse } = await emptyClickHouse()
  await clickhouse.command(`ALTER TABLE facts_state MODIFY SETTING non_replicated_deduplication_window = ${WINDOW}`)
  const proxy = await TcpProxy.open(t, url)
  const proxied = new ClickHouse({ url: proxy.url })
  t.teardown(() => proxied.close())
  const { held, release } = proxy.hold('INSERT INTO facts_state')
  const claiming = LeadState.claim(proxied, randomUUID(), false)
  await held
  const state = await LeadState.claim(clickhouse, randomUUID(), false)
  // Until ClickHouse has forgotten the token of the epoch.
  for (let i = 0; i <= WINDOW; i++) await state?.beat()
  await release()
  t.equal(await claiming, null)
  t.equal(await state?.stillLeads(), true)
})
