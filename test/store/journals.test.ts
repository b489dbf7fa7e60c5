import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId } from '../../src/model/event-id.js'
import { START } from '../../src/model/position.js'
import { findLastPosition } from '../../src/store/journals.js'
import { emptyClickHouse } from '../shared-engine.js'

t.test('findLastPosition works before the tables of a store exist', async (t) => {
  const { url } = await emptyClickHouse()
  const clickhouse = new ClickHouse({ url: url.replace(/analytics$/, 'unmade') })
  t.teardown(async () => {
    await clickhouse.commandWithoutDatabase('DROP DATABASE unmade')
    await clickhouse.close()
  })
  await clickhouse.commandWithoutDatabase('CREATE DATABASE unmade')
  t.equal(await findLastPosition(Shards.of(clickhouse)), START, 'of a store without tables')

  await migrate(clickhouse)
  t.equal(await findLastPosition(Shards.of(clickhouse)), START, 'of an empty one')

  const position = (1_700_000_000_000n << 16n) + 7n
  await clickhouse.command('INSERT INTO events (project_id, event_id) SELECT {project:String}, {id:UUID}', {
    project: 'p',
    id: formatEventId({ position, index: 0, journalId: 1 }),
  })
  t.equal(await findLastPosition(Shards.of(clickhouse)), position, 'of one that has an event')
})
