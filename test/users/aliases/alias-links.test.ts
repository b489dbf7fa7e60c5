import fc from 'fast-check'
import t from 'tap'
import { Shards } from '../../../src/clickhouse/shards.js'
import { type Alias, HAS_NAMES, isLink } from '../../../src/model/alias.js'
import { START } from '../../../src/model/position.js'
import { applyOperations, identify, type Profile } from '../../../src/model/profile.js'
import { parseOperations } from '../../../src/model/profile-operations.js'
import { formatProperties, parseProperties } from '../../../src/model/properties.js'
import { type StateKind, toStateKey } from '../../../src/model/state-key.js'
import {
  type Change,
  FencedError,
  type FencingStates,
  type Repetition,
  type StateFence,
} from '../../../src/states/state-store.js'
import type { NamedAlias, Step } from '../../../src/store/aliases.js'
import { AliasLinks } from '../../../src/users/aliases/alias-links.js'
import { AliasSettling } from '../../../src/users/aliases/alias-settling.js'
import { Aliases } from '../../../src/users/aliases/aliases.js'
import { AliasModel, type LinkStep, linkSteps } from '../../alias-model.js'

/** States in memory; each call takes one turn of the event loop, so that concurrent calls interleave. */
class MemoryStates<Value> implements FencingStates<Value> {
  readonly all = new Map<string, Value>()
  readonly #kind: StateKind
  readonly #versions: Map<string, bigint>

  /** @param versions of the states of all kinds, by state key */
  constructor(kind: StateKind, versions: Map<string, bigint>) {
    this.#kind = kind
    this.#versions = versions
  }

  async get(project: string, name: string): Promise<Value | null> {
    return (await this.read(project, name)).value
  }

  async read(project: string, name: string): Promise<{ value: Value | null; fence: StateFence }> {
    await turn()
    const stateKey = toStateKey(this.#kind, project, name)
    const fence = { stateKey, version: this.#versions.get(stateKey) ?? START, readAt: 0 }
    return { value: this.all.get(name) ?? null, fence }
  }

  async change(project: string, name: string, change: Change<Value>, { fence }: Repetition = {}): Promise<void> {
    await turn()
    const before = this.all.get(name) ?? null
    const next = change(before)
    if (next === before) return
    if (fence && fence.version !== (this.#versions.get(fence.stateKey) ?? START))
      throw new FencedError('it has changed')
    const stateKey = toStateKey(this.#kind, project, name)
    this.#versions.set(stateKey, (this.#versions.get(stateKey) ?? START) + 1n)
    if (next === null) this.all.delete(name)
    else this.all.set(name, next)
    await turn()
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Aliases whose store is in memory. */
class MemoryAliases extends Aliases {
  readonly #states: MemoryStates<Alias>

  constructor(states: MemoryStates<Alias>) {
    super({ states, projects: { look: async () => 'some' }, shards: new Shards([]) })
    this.#states = states
  }

  override async listSteps(): Promise<Step[]> {
    await turn()
    return this.#links(({ stepAt }) => stepAt > 0)
  }

  override async findAliases(_project: string, names: readonly string[]): Promise<NamedAlias[]> {
    await turn()
    return this.#links(({ distinctId }) => names.includes(distinctId))
  }

  override async findTargets(project: string, names: readonly string[]): Promise<string[]> {
    return (await this.findAliases(project, names)).map(({ distinctId }) => distinctId)
  }

  #links(isWanted: (alias: Alias) => boolean): Step[] {
    return [...this.#states.all].flatMap(([alias, link]) => {
      if (!isLink(link) || !isWanted(link)) return []
      return { alias, distinctId: link.distinctId, stepAt: link.stepAt }
    })
  }
}

function open() {
  const versions = new Map<string, bigint>()
  const states = new MemoryStates<Alias>('aliases', versions)
  const profiles = new MemoryStates<Profile>('profiles', versions)
  const aliases = new MemoryAliases(states)
  const common = { aliases, states, barrier: { requireProject: async () => 0n }, log: { warn: () => undefined } }
  const settling = new AliasSettling({ ...common, shards: new Shards([]) })
  const links = new AliasLinks({
    ...common,
    profiles,
    projects: { announce: async () => undefined },
    settling: { note: () => undefined },
  })
  const shown = (name: string) => {
    const profile = profiles.all.get(name)
    return profile && (JSON.parse(formatProperties(profile.properties)) as object)
  }
  /** Names whose target is an alias that is not a step, so that questions would not find their users. */
  const hidden = () => {
    const stored = [...states.all].filter(([, link]) => isLink(link))
    const of = new Map(stored)
    return stored.flatMap(([name, { distinctId }]) => (of.get(distinctId)?.stepAt === 0 ? name : []))
  }
  /** Users to whom a name leads without a mark that says so, and users that have a mark without a name. */
  const wronglyMarked = () => {
    const targets = new Set([...states.all.values()].filter(isLink).map(({ distinctId }) => distinctId))
    const users = [...states.all].flatMap(([name, { distinctId }]) => (distinctId === '' ? name : []))
    return {
      unmarked: [...targets].filter((name) => !states.all.has(name)),
      needless: users.filter((name) => !targets.has(name)),
    }
  }
  return { states, profiles, aliases, links, settling, shown, hidden, wronglyMarked }
}

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f']
const OWN = fc.array(fc.option(fc.dictionary(fc.constantFrom('x', 'y', 'z'), fc.nat({ max: 2 })), { freq: 4 }), {
  minLength: NAMES.length,
  maxLength: NAMES.length,
})

async function likeModel(steps: LinkStep[], own: (Record<string, number> | null)[], settles: boolean[]): Promise<void> {
  const { states, profiles, aliases, links, settling, shown, hidden } = open()
  const given = new Map(NAMES.flatMap((name, i) => (own[i] ? [[name, own[i] as object] as const] : [])))
  for (const [name, properties] of given) {
    profiles.all.set(name, identify(null, parseProperties(JSON.stringify(properties)), 1))
  }
  const model = new AliasModel(given as Map<string, Record<string, unknown>>)
  for (const [i, { call, a, b }] of steps.entries()) {
    const [x = '', y = ''] = [NAMES[a], NAMES[b]]
    if (call === 'takeBack') {
      t.equal(await links.takeBack('p', x, y), model.takeBack(x, y))
    } else if (x !== y) {
      const refusal = await links.link('p', { distinctId: x, alias: y, link: 'merge' })
      t.equal(refusal === null, model.link(x, y))
    }
    if (hidden().length > 0) throw new Error(`${hidden()} are hidden`)
    if (settles[i]) {
      await settling.settle('p')
      const far = [...states.all].flatMap(([name, link]) =>
        isLink(link) && link.distinctId !== model.userOf(name) ? name : [],
      )
      const pending = [...states.all.values()].filter((link) => link.isPending)
      t.same([far, await aliases.listSteps()], [[], []], `${pending.length} are pending`)
    }
    const shows = model.profiles()
    for (const name of NAMES) {
      const user = model.userOf(name)
      if ((await aliases.resolve('p', name)) !== user) throw new Error(`${name} is not one of ${user}`)
      if (name !== user) continue
      const [found, wanted] = [shown(name), shows.get(name)]
      const isSame =
        found && wanted
          ? t.strictSame(new Map(Object.entries(found)), new Map(Object.entries(wanted)))
          : found === wanted
      if (!isSame) throw new Error(`${name} has ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`)
    }
  }
}

t.test('removing links leaves what the other links alone would have made', async () => {
  await fc.assert(
    fc.asyncProperty(
      linkSteps(NAMES.length, 16),
      OWN,
      fc.array(fc.boolean(), { minLength: 16, maxLength: 16 }),
      likeModel,
    ),
    { numRuns: 100 },
  )
})

t.test('concurrent links of any strength hide no name', async (t) => {
  const strength = fc.constantFrom('inferred' as const, 'said' as const, 'merge' as const)
  await fc.assert(
    fc.asyncProperty(
      linkSteps(4, 12),
      fc.array(strength, { minLength: 12, maxLength: 12 }),
      async (steps, strengths) => {
        const { states, profiles, aliases, links, settling, hidden } = open()
        const some = NAMES.slice(0, 4)
        for (const name of some) profiles.all.set(name, identify(null, new Map([[name, '1']]), 1))
        for (const name of ['b', 'd'])
          profiles.all.set(name, { properties: new Map([[name, '1']]), createdAt: 1, updatedAt: 1 })
        await Promise.all(
          steps.map(async ({ call, a, b }, i) => {
            const [x = '', y = ''] = [some[a], some[b]]
            if (i % 3 === 0) await settling.settle('p')
            if (call === 'takeBack') await links.takeBack('p', x, y)
            else await links.link('p', { distinctId: x, alias: y, link: strengths[i] ?? 'said' })
          }),
        )
        t.same(hidden(), [], 'questions follow each name to its user')
        const before = await Promise.all(some.map((name) => aliases.resolve('p', name)))
        await settling.settle('p')
        t.same(await Promise.all(some.map((name) => aliases.resolve('p', name))), before, 'settling changes nothing')
        for (const name of some) {
          const user = await aliases.resolve('p', name)
          t.notOk(isLink(states.all.get(user) ?? null), 'a user is no alias')
          t.ok(profiles.all.has(user), `${name} is known`)
        }
      },
    ),
    { numRuns: 100 },
  )
})

t.test('users are marked while they have names, whatever calls overlap', async () => {
  const barrier = { requireProject: async () => 0n }
  const name = fc.constantFrom(...NAMES)
  const call = fc.record({
    call: fc.constantFrom('link' as const, 'link' as const, 'takeBack' as const, 'delete' as const),
    names: fc.tuple(name, name),
    turns: fc.nat({ max: 40 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 2, maxLength: 8 }), fc.boolean(), async (calls, isInOrder) => {
      const { states, aliases, links, settling, hidden, wronglyMarked } = open()
      await Promise.all(
        calls.map(async ({ call, names, turns }) => {
          const [x = '', y = ''] = isInOrder ? names.toSorted() : names
          for (let i = 0; i < turns; i++) await turn()
          if (call === 'takeBack') await links.takeBack('p', x, y)
          else if (call === 'link') await links.link('p', { distinctId: x, alias: y, link: 'merge' })
          else {
            const user = await aliases.resolve('p', x)
            await aliases.remove('p', (await aliases.findNames('p', [user])).get(user) ?? [], barrier)
          }
        }),
      )
      if (hidden().length > 0) throw new Error(`${hidden()} are hidden`)
      const limit = async () => {
        for (let i = 0; i < 5000; i++) await turn()
        await settling.close()
        return 'never'
      }
      if ((await Promise.race([settling.settle('p'), limit()])) === 'never')
        throw new Error(`never settles: ${JSON.stringify([...states.all])}`)
      const { unmarked, needless } = wronglyMarked()
      // A call that breaks a cycle may leave a needless mark if names are deleted at the same time.
      const wrong = isInOrder ? [...unmarked, ...needless] : unmarked
      if (wrong.length > 0) throw new Error(`${wrong} are wrong: ${JSON.stringify([...states.all])}`)
    }),
    { numRuns: 400 },
  )
})

t.test('names that say each other are led to their user', async (t) => {
  const { states, settling } = open()
  const link = { ...HAS_NAMES, createdAt: 1 }
  states.all.set('c', { ...link, distinctId: 'f', said: 'f' })
  states.all.set('f', { ...link, distinctId: 'd', said: 'c', stepAt: 1 })
  states.all.set('d', HAS_NAMES)
  await settling.settle('p')
  t.match([states.all.get('c'), states.all.get('f')], [{ distinctId: 'd' }, { distinctId: 'd', stepAt: 0 }])
})

t.test('what a user passed on of its own stays until its own link is taken back', async (t) => {
  const { links, profiles, shown } = open()
  const set = (name: string, json: string) =>
    links.changeProfile('p', { name }, (profile) => identify(profile, parseProperties(json), 2))
  profiles.all.set('x', identify(null, parseProperties('{"p":1}'), 1))
  profiles.all.set('u', identify(null, parseProperties('{"own":1}'), 1))
  await links.link('p', { distinctId: 'a', alias: 'x', link: 'merge' })
  await set('a', '{"p":2}')
  await links.link('p', { distinctId: 'u', alias: 'a', link: 'merge' })
  t.strictSame(shown('u'), { own: 1, p: 2 })
  await links.takeBack('p', 'u', 'x')
  t.strictSame(shown('u'), { own: 1, p: 2 })
  await links.takeBack('p', 'u', 'a')
  t.strictSame([shown('u'), shown('a'), shown('x')], [{ own: 1 }, { p: 2 }, { p: 1 }])
})

t.test('a user keeps its mark while its names are searched, and if the search fails', async (t) => {
  const { links, aliases, profiles, states } = open()
  profiles.all.set('u', { properties: new Map([['n', '1']]), createdAt: 1, updatedAt: 1 })
  for (const alias of ['y', 'z']) await links.link('p', { distinctId: 'u', alias, link: 'merge' })
  const barrier = {
    requireProject: async () => {
      t.equal(await links.link('p', { distinctId: 'm', alias: 'u', link: 'inferred' }), 'has_aliases')
      throw new Error('the store is down')
    },
  }
  await t.rejects(aliases.unmark('p', ['u'], barrier), { message: 'the store is down' })
  t.equal(await links.link('p', { distinctId: 'm', alias: 'u', link: 'inferred' }), 'has_aliases')
  t.notOk(states.all.get('u')?.isPending)
})

t.test('an interrupted removal leaves nothing that a repetition does not find', async (t) => {
  const { links, aliases, states } = open()
  await links.link('p', { distinctId: 'a', alias: 'b', link: 'merge' })
  await links.link('p', { distinctId: 'u', alias: 'a', link: 'merge' })
  const down = { requireProject: () => Promise.reject(new Error('the store is down')) }
  const remove = async (barrier: Parameters<typeof aliases.remove>[2]) =>
    await aliases.remove('p', (await aliases.findNames('p', ['u'])).get('u') ?? [], barrier)
  for (let i = 0; i < 3; i++) await t.rejects(remove(down))
  await remove({ requireProject: async () => 0n })
  t.same([...states.all], [])
})

t.test('two names with the same property that are taken back at once leave nothing with the user', async (t) => {
  for (let turns = 0; turns < 60; turns++) {
    const { links, profiles, shown } = open()
    for (const name of ['x', 'y']) profiles.all.set(name, identify(null, parseProperties(`{"p":"${name}"}`), 1))
    profiles.all.set('u', identify(null, parseProperties('{"own":1}'), 1))
    for (const alias of ['x', 'y']) await links.link('p', { distinctId: 'u', alias, link: 'merge' })
    const later = async () => {
      for (let i = 0; i < turns; i++) await turn()
      await links.takeBack('p', 'u', 'y')
    }
    await Promise.all([links.takeBack('p', 'u', 'x'), later()])
    t.strictSame(shown('u'), { own: 1 }, `after ${turns} turns`)
  }
})

t.test('two names that are taken back at once leave no property with a name that it does not belong to', async (t) => {
  for (let turns = 0; turns < 60; turns++) {
    const { links, profiles, shown, aliases } = open()
    profiles.all.set('a', identify(null, parseProperties('{"own_a":1}'), 1))
    profiles.all.set('b', identify(null, parseProperties('{"own_b":1}'), 1))
    const pairs = [
      ['b', 'e'],
      ['c', 'a'],
      ['e', 'c'],
    ] as const
    for (const [distinctId, alias] of pairs) await links.link('p', { distinctId, alias, link: 'merge' })
    const later = async () => {
      for (let i = 0; i < turns; i++) await turn()
      return await links.takeBack('p', 'b', 'a')
    }
    await Promise.all([links.takeBack('p', 'b', 'e'), later()])
    const owner = await aliases.resolve('p', 'a')
    for (const name of ['b', 'c', 'e']) {
      if ((await aliases.resolve('p', name)) !== name) continue
      const found = { ...shown(name) }
      t.equal('own_a' in found, name === owner, `${name} after ${turns} turns`)
    }
    t.strictSame(shown('b'), { own_b: 1 })
  }
})

t.test(
  'the properties given by concurrent opposite links are gone once the remaining link is taken back',
  async (t) => {
    const call = fc.record({ isReverse: fc.boolean(), turns: fc.nat({ max: 12 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 2, maxLength: 8 }), async (calls) => {
        const { profiles, aliases, links, shown } = open()
        for (const name of ['a', 'b']) {
          profiles.all.set(name, { properties: new Map([[name, '1']]), createdAt: 1, updatedAt: 1 })
        }
        await Promise.all(
          calls.map(async ({ isReverse, turns }) => {
            for (let i = 0; i < turns; i++) await turn()
            const [distinctId, alias] = isReverse ? ['b', 'a'] : ['a', 'b']
            await links.link('p', { distinctId, alias, link: 'merge' })
          }),
        )
        const user = await aliases.resolve('p', 'a')
        t.same(shown(user), { a: 1, b: 1 })
        t.ok(await links.takeBack('p', user, user === 'a' ? 'b' : 'a'))
        if (!t.same([shown('a'), shown('b')], [{ a: 1 }, { b: 1 }]))
          throw new Error('a profile keeps the properties it was given')
      }),
      { numRuns: 100 },
    )
  },
)

t.test('an alias that is taken back while it is made leaves nothing with its user', async (t) => {
  for (let turns = 0; turns < 40; turns++) {
    const { aliases, links, shown, profiles } = open()
    profiles.all.set('device', identify(null, parseProperties('{"a":1}'), 1))
    profiles.all.set('user', identify(null, parseProperties('{"b":2}'), 1))
    const later = async () => {
      for (let i = 0; i < turns; i++) await turn()
      await links.takeBack('p', 'user', 'device')
    }
    await Promise.all([links.link('p', { distinctId: 'user', alias: 'device', link: 'merge' }), later()])
    const isLinked = (await aliases.resolve('p', 'device')) === 'user'
    t.strictSame(shown('user'), isLinked ? { b: 2, a: 1 } : { b: 2 }, `after ${turns} turns`)
    await links.takeBack('p', 'user', 'device')
    t.strictSame([shown('user'), shown('device')], [{ b: 2 }, { a: 1 }])
  }
})

t.test('the next call completes an interrupted link, and leaves a completed one unchanged', async (t) => {
  const { states, profiles, links, shown } = open()
  profiles.all.set('device', identify(null, parseProperties('{"first":1}'), 1))
  const change = profiles.change.bind(profiles)
  profiles.change = async () => {
    throw new Error('the process ends here')
  }
  const link = { distinctId: 'user', alias: 'device', link: 'inferred' } as const
  profiles.all.set('device', { ...identify(null, parseProperties('{"first":1}'), 1), isIdentified: false })
  await t.rejects(links.link('p', link))
  t.ok(states.all.get('device')?.isPending)
  profiles.change = change
  t.equal(await links.link('p', link), null)
  t.same(shown('user'), { first: 1 })
  profiles.all.set('user', identify(null, new Map(), 2))
  t.equal(await links.link('p', link), null)
  t.same(shown('user'), {})
})

t.test('a name that means nobody leads to no user, wherever it was stored', async (t) => {
  const { states, profiles, aliases, links } = open()
  profiles.all.set('ada', identify(null, new Map(), 1))
  const link = { ...HAS_NAMES, createdAt: 1 }
  states.all.set('ada', { ...link, distinctId: '$anonymous', said: '$anonymous' })
  states.all.set('$anonymous', { ...link, distinctId: 'bob', said: 'bob' })
  t.equal(await aliases.resolve('p', 'ada'), 'ada')
  t.equal(await aliases.resolve('p', '$anonymous'), '$anonymous')
  for (const name of ['$anonymous', '$group:a', '$visitor:b', 'null', ' ']) {
    t.equal(await links.link('p', { distinctId: 'ada', alias: name, link: 'merge' }), 'nobody')
    t.equal(await links.link('p', { distinctId: name, alias: 'ada', link: 'merge' }), 'nobody')
    await t.rejects(links.add('p', { distinctId: 'ada', alias: name, link: 'merge' }), { code: 'invalid_request' })
  }
})

t.test('a change that arrives while its name becomes an alias applies to the user', async (t) => {
  for (let i = 0; i < 20; i++) {
    const { links, shown } = open()
    await Promise.all([
      links.changeProfile('p', { name: 'device' }, (profile) => identify(profile, parseProperties('{"a":1}'), 1)),
      turn().then(() => links.link('p', { distinctId: 'user', alias: 'device', link: 'merge' })),
    ])
    t.same(shown('user'), { a: 1 })
  }
})

t.test('no change of a profile is lost while its name becomes an alias, or its user does', async (t) => {
  const add = parseOperations('{"$add":{"n":1}}')
  const delay = fc.nat({ max: 30 })
  const cases = fc.record({
    first: fc.option(fc.constantFrom(1, 10)),
    changes: fc.array(delay, { minLength: 1, maxLength: 6 }),
    link: delay,
    further: fc.option(delay),
  })
  await fc.assert(
    fc.asyncProperty(cases, async ({ first, changes, link, further }) => {
      const { links, profiles, shown, aliases } = open()
      profiles.all.set('user', identify(null, parseProperties('{"own":1}'), 1))
      if (first !== null) profiles.all.set('device', identify(null, parseProperties(`{"n":${first}}`), 1))
      const after = async (turns: number, work: () => Promise<unknown>) => {
        for (let i = 0; i < turns; i++) await turn()
        await work()
      }
      const change = () => links.changeProfile('p', { name: 'device' }, (profile) => applyOperations(profile, add, 2))
      const make = (distinctId: string, alias: string) => links.link('p', { distinctId, alias, link: 'merge' })
      await Promise.all([
        ...changes.map((turns) => after(turns, change)),
        after(link, () => make('user', 'device')),
        ...(further === null ? [] : [after(further, () => make('boss', 'user'))]),
      ])
      const user = further === null ? 'user' : 'boss'
      t.equal(await aliases.resolve('p', 'device'), user)
      const found = shown(user)
      const wanted = { own: 1, n: (first ?? 0) + changes.length }
      if (!t.same(found, wanted)) throw new Error(`${user} has ${JSON.stringify(found)} of ${JSON.stringify(wanted)}`)
    }),
    { numRuns: 500 },
  )
})

t.test('of concurrent calls that take an alias back, one does', async (t) => {
  const { links, profiles } = open()
  profiles.all.set('device', identify(null, parseProperties('{"a":1}'), 1))
  await links.link('p', { distinctId: 'user', alias: 'device', link: 'merge' })
  const taken = await Promise.all([1, 2, 3].map(() => links.takeBack('p', 'user', 'device')))
  t.same(taken.filter(Boolean), [true])
})
