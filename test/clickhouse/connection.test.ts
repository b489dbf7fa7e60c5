import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { startClickHouse } from '../helper.js'

t.test('many queries at a time are no leak that Node warns of', async (t) => {
  const engine = await startClickHouse(t)
  const clickhouse = new ClickHouse({ url: engine.url.replace(/analytics$/, 'default') })
  t.teardown(() => clickhouse.close())
  const warnings: string[] = []
  const note = ({ name }: Error) => warnings.push(name)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  await Promise.all(Array.from({ length: 20 }, () => clickhouse.rows('SELECT 1')))
  await new Promise((resolve) => setImmediate(resolve))
  t.notOk(warnings.includes('MaxListenersExceededWarning'))
})
