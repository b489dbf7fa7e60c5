import t from 'tap'
import { RecentOwners } from '../../src/lib/recent-owners.js'

t.test('an owner has others if they have sent something within two seconds', async (t) => {
  let now = 0
  const owners = new RecentOwners(() => now)
  t.notOk(owners.hasOthersThan('a'))
  owners.note('a')
  t.notOk(owners.hasOthersThan('a'))
  t.ok(owners.hasOthersThan('b'))
  owners.note('b')
  owners.note('a')
  t.ok(owners.hasOthersThan('a'))
  now += 1_999
  owners.note('a')
  t.ok(owners.hasOthersThan('a'))
  now += 1
  t.notOk(owners.hasOthersThan('a'), 'the other one is gone')
  t.ok(owners.hasOthersThan('b'))
})
