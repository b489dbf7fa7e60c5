import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { GroupCommit } from '../../src/ingest/group-commit.js'
import { Writer } from '../../src/ingest/writer.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { openTables } from '../../src/store/tables.js'
import { fromServer, silent, startClickHouse, temporaryFolder, until } from '../helper.js'
import { eventFrom } from '../submissions.js'
import { BLOCK } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

t.test('each event is stored once, whichever replica takes a block and whenever the other takes over', async (t) => {
  // One engine behind two proxies: like replicas that are always up to date, and share tokens as through Keeper.
  const engine = await startClickHouse(t)
  const direct = new ClickHouse({ url: engine.url })
  t.teardown(() => direct.close())
  await migrate(direct)
  const proxies = [await TcpProxy.open(t, engine.url), await TcpProxy.open(t, engine.url)] as const
  let inUse = 0
  const url = proxies.map((proxy) => proxy.url).join('|')
  const onSwitch = () => {
    inUse = 1 - inUse
  }
  const clickhouse = new ClickHouse({ url, onSwitch, beatMs: 20 })
  t.teardown(() => clickhouse.close())
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: 1e9 })
  const commits = new GroupCommit(journal, new BufferPool())
  const writer = new Writer({ journal, tables: openTables(clickhouse, journal), log: silent, pauseMs: 5 })
  t.teardown(async () => {
    await writer.close()
    await journal.close()
  })
  writer.start()
  const names: string[] = []
  for (let round = 0; round < 6; round++) {
    const former = inUse
    // Either the INSERT is carried out and its reply is lost, or the INSERT is lost; then the server is gone.
    const lost = round % 2 === 0 ? proxies[former]?.loseReply(BLOCK) : proxies[former]?.loseRequest(BLOCK)
    const batch = Array.from({ length: 5 }, (_, i) => `event ${round} ${i}`)
    await Promise.all(
      batch.map((name) =>
        commits.append(eventFrom(fromServer('project'), Buffer.from(`{"event":"${name}","distinct_id":"u"}`)), NO_IDS),
      ),
    )
    names.push(...batch)
    let isLost = false
    lost?.then(() => {
      isLost = true
    })
    // A busy machine may answer so late that the other one takes over before that.
    await until('the fault', () => isLost || inUse !== former)
    proxies[former]?.cut()
    await until('the other to take over', () => inUse !== former)
    proxies[former]?.restore()
  }
  await until('the journal to be empty', async () => (await journal.depth()).entries === 0)
  const stored = await direct.rows<{ event: string }>(
    "SELECT event FROM events WHERE project_id = 'project' ORDER BY toUInt128(event_id)",
  )
  t.strictSame(
    stored.map(({ event }) => event),
    names,
  )
})
