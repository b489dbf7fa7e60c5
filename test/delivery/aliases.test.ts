import fc from 'fast-check'
import t from 'tap'
import { callsOf, STEP } from '../alias-calls.js'
import { randomName, settingsFor, startApp, until } from '../helper.js'

for (const storage of ['servers', 'lanes'] as const) {
  t.test(`two processes on ${storage}`, async (t) => {
    const env = await settingsFor(t, storage)
    const clients = [
      await startApp(t, env),
      await startApp(t, { ...env, ROLE: 'api', ...(env.LANES && { HOME_LANE: '2' }) }),
    ]
    const [one, two] = clients.map(callsOf)
    if (!one || !two) throw new Error('two clients')

    t.test('the first alias of a project is known to the other process as soon as it is acknowledged', async (t) => {
      await two.identify('first', { n: 1 })
      let isMade = false
      const made = one.alias('first', 'alias of first').finally(() => {
        isMade = true
      })
      // So that it has just seen that there is no alias.
      while (!isMade) await two.user('alias of first')
      t.equal((await made).statusCode, 200)
      t.equal(await two.userOf('alias of first'), 'first')
      await two.identify('alias of first', { n: 2 })
      t.same((await one.user('first')).properties, { n: 2 })
    })

    t.test('concurrent calls in both make the same users of names everywhere', async (t) => {
      await fc.assert(
        fc.asyncProperty(fc.array(STEP, { minLength: 2, maxLength: 20 }), async (steps) => {
          const prefix = randomName('both')
          const names = Array.from({ length: 6 }, (_, i) => `${prefix}-${i}`)
          await Promise.all(names.map((name) => one.identify(name, {})))
          const pairs = steps.filter(({ call, a, b }) => call === 'alias' && a !== b)
          const group = new Map(names.map((name) => [name, new Set([name])]))
          const codes = await Promise.all(
            pairs.map(({ a, b }, i) => (i % 2 ? one : two).alias(names[a] ?? '', names[b] ?? '')),
          )
          for (const [i, { a, b }] of pairs.entries()) {
            if (codes[i]?.statusCode !== 200) {
              t.equal(codes[i]?.statusCode, 409)
              continue
            }
            const joined = new Set([...(group.get(names[a] ?? '') ?? []), ...(group.get(names[b] ?? '') ?? [])])
            for (const name of joined) group.set(name, joined)
          }
          const users = new Map(await Promise.all(names.map(async (name) => [name, await one.userOf(name)] as const)))
          for (const name of names) {
            t.equal(await two.userOf(name), users.get(name), 'both processes agree')
            const others = names.filter((other) => users.get(other) === users.get(name))
            t.same(new Set(others), group.get(name), `${JSON.stringify(pairs)} ${codes.map((code) => code.statusCode)}`)
          }
        }),
        { numRuns: 15 },
      )
    })

    t.test('removing in one and creating in the other leaves no name half linked', async (t) => {
      for (let round = 0; round < 5; round++) {
        const prefix = randomName('race')
        const names = Array.from({ length: 5 }, (_, i) => `${prefix}-${i}`)
        const [root = '', ...others] = names
        await one.identify(root, {})
        for (const name of others) await one.alias(root, name)
        await Promise.all([
          one.remove(root),
          two.remove(others[1] ?? ''),
          ...others.map((name) => two.alias(root, name)),
        ])
        // Whichever call came last: each name is the user's or free, in both processes.
        await one.identify(root, {})
        for (const name of others) {
          const [a, b] = [await one.userOf(name), await two.userOf(name)]
          t.equal(a, b)
          t.ok(a === root || a === undefined)
        }
        await until('the user to be removed', async () => [200, 404].includes(await one.remove(root)))
        for (const name of names) t.equal(await two.userOf(name), undefined)
      }
    })
  })
}
