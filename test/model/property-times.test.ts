import fc from 'fast-check'
import t from 'tap'
import { applyOperations, formatProfile, identify, type Profile, parseProfile } from '../../src/model/profile.js'
import { parseOperations } from '../../src/model/profile-operations.js'
import { formatProperties, parseProperties } from '../../src/model/properties.js'

const NOW = 1_000_000

/** A change that an import makes; without a time one that is made live. */
interface Made {
  operations: string
  at?: number
}

/** The profile after changes, in the order in which they come, stored and read in between. */
function after(changes: readonly Made[], before: Profile | null = null): Profile | null {
  let profile = before
  for (const [i, { operations, at }] of changes.entries()) {
    profile = applyOperations(profile, parseOperations(operations), NOW + 1 + i, at)
    profile = parseProfile(formatProfile(profile))
  }
  return profile
}

const propertiesOf = (profile: Profile | null) => Object.fromEntries([...(profile?.properties ?? [])].sort())
const live = (properties: string) => identify(null, parseProperties(properties), NOW)

t.test('applyOperations keeps each property that is newer than the change', async (t) => {
  const rows: [what: string, changes: Made[], expected: object][] = [
    [
      '$set of a newer one',
      [{ operations: '{"$set":{"plan":"trial","city":"Ulm"}}', at: 5 }],
      { plan: 'pro', city: 'Ulm' },
    ],
    ['$set_once', [{ operations: '{"$set_once":{"plan":"trial","city":"Ulm"}}', at: 5 }], { plan: 'pro', city: 'Ulm' }],
    ['$unset of a newer one', [{ operations: '{"$unset":["plan"]}', at: 5 }], { plan: 'pro' }],
    ['$add to a newer one', [{ operations: '{"$add":{"plan":1,"n":1}}', at: 5 }], { plan: 'pro', n: 1 }],
    [
      'a property removed live stays removed',
      [
        { operations: '{"$unset":["plan"]}' },
        ...['$set', '$set_once', '$append'].map((operator) => ({ operations: `{"${operator}":{"plan":1}}`, at: 7 })),
      ],
      {},
    ],
    [
      'a value newer than a removal is set',
      [{ operations: '{"$unset":["plan","x"]}', at: NOW }, { operations: '{"$set":{"plan":1,"x":2}}' }],
      { plan: 1, x: 2 },
    ],
    [
      'a time in the future is that of now',
      [
        { operations: '{"$set":{"plan":"trial"}}', at: 9 * NOW },
        { operations: '{"$set":{"plan":"free"}}' },
        { operations: '{"$set":{"plan":"x"}}', at: NOW },
      ],
      { plan: 'free' },
    ],
  ]
  for (const [what, changes, expected] of rows) {
    const found = propertiesOf(after(changes, live('{"plan":"pro"}')))
    t.strictSame(
      Object.fromEntries(Object.entries(found).map(([name, text]) => [name, JSON.parse(text)])),
      expected,
      what,
    )
  }
})

t.test('a replacement of all properties is newer than a late change, also of removed properties', async (t) => {
  const profile = identify(live('{"plan":"pro","city":"Ulm"}'), parseProperties('{"plan":"free"}'), NOW + 1)
  const late = after([{ operations: '{"$set":{"plan":1,"city":1,"age":1}}', at: NOW }], profile)
  t.strictSame(propertiesOf(late), { plan: '"free"', age: '1' })
})

t.test('changes that add count in any order, unless a value was set later', async (t) => {
  const add = (at?: number): Made => ({ operations: '{"$add":{"n":1},"$append":{"l":1}}', ...(at && { at }) })
  const counted = { n: '3', l: '[1,1,1]' }
  t.strictSame(propertiesOf(after([add(5), add(3), add(9)])), counted)
  t.strictSame(propertiesOf(after([add(), add(3), add()])), counted)
  t.strictSame(propertiesOf(after([{ operations: '{"$set":{"n":7,"l":[]}}', at: 4 }, add(3), add(5)])), {
    n: '8',
    l: '[1]',
  })
})

t.test('properties that are all set together have no separate times', async (t) => {
  t.notOk(live('{"a":1,"b":2}').times)
  const again = after([{ operations: '{"$set":{"a":1,"b":2}}' }, { operations: '{"$set":{"b":2,"a":3}}' }])
  t.notOk(again?.times)
  t.notOk(formatProfile(live('{"a":1}')).includes('times'))
  const part = after([{ operations: '{"$set":{"a":2}}' }], live('{"a":1,"b":2}'))
  t.strictSame([...(part?.times?.own ?? [])], [['a', NOW + 1]])
})

t.test('the number of times of removed properties is limited', async (t) => {
  const names = Array.from({ length: 1000 }, (_, i) => `p${i}`)
  const changes = names.map((name, i) => ({ operations: `{"$unset":["${name}"]}`, at: i + 1 }))
  const profile = after([...changes, { operations: `{"$unset":["${'x'.repeat(256)}"]}`, at: 5000 }], live('{"a":1}'))
  t.strictSame([...(profile?.times?.own.keys() ?? [])].sort(), names.slice(900).sort())
})

t.test('changes have the same result in any order', (t) => {
  const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor')
  const change = fc.record({
    set: fc.dictionary(name, fc.nat(9), { noNullPrototype: true }),
    unset: fc.array(name, { maxLength: 2 }),
  })
  const changes = fc
    .array(change, { maxLength: 12 })
    .chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray([...all.keys()], { minLength: all.length })))
  const made = ({ set, unset }: { set: object; unset: string[] }, at: number): Made => {
    const members = Object.entries(set).map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    return { operations: `{"$set":{${members.join(',')}},"$unset":${JSON.stringify(unset)}}`, at }
  }
  fc.assert(
    fc.property(changes, ([all, order]) => {
      // Times differ: at the same time, what comes later wins.
      const inTime = after(all.map((one, i) => made(one, 10 * (i + 1))))
      const other = after(order.map((i) => made(all[i] ?? { set: {}, unset: [] }, 10 * (i + 1))))
      return JSON.stringify(propertiesOf(inTime)) === JSON.stringify(propertiesOf(other))
    }),
    { numRuns: 500 },
  )
  t.end()
})

t.test('changes without a time apply in the order in which they arrive', (t) => {
  const text = (profile: Profile | null) => formatProperties(profile?.properties ?? new Map())
  t.equal(text(after([{ operations: '{"$set":{"a":1}}' }, { operations: '{"$add":{"a":1}}' }])), '{"a":2}')
  t.equal(
    text(
      after([
        { operations: '{"$set":{"a":1}}', at: 3 },
        { operations: '{"$set":{"a":2}}', at: 3 },
      ]),
    ),
    '{"a":2}',
  )
  t.end()
})
