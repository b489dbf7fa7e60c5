import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { Sessions } from '../../src/questions/sessions.js'
import { Statement } from '../../src/questions/statement.js'

const shards = Shards.of(null as never)
const context = {
  projectId: 'default',
  now: 0,
  shards,
  hasAliases: false,
  repairsTexts: false,
  pages: DEFAULT_SETTINGS,
}
const sessions = new Sessions(new Statement(context), { definition: 'id', from: 0, to: 1, timezone: 'UTC' })

t.test('only fields that cannot be arrays or objects are treated as scalars', async (t) => {
  const scalars = ['id', 'bounced', 'pages', 'seconds', 'entry.page.path', 'first.context.country']
  const others = [
    'properties.page',
    'properties.context',
    'properties.id',
    'first.properties.page',
    'state',
    'duration',
  ]
  const isScalar = (name: string) => sessions.field(name.split('.')).isScalar === true
  t.strictSame(scalars.filter(isScalar), scalars)
  t.strictSame(others.filter(isScalar), [])
  t.match(sessions.field(['properties', 'pages']), { number: undefined }, 'a property is no number of the session')
})
