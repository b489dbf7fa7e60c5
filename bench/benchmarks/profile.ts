import { type Benchmark, eachRound, WARM_UP_SECONDS } from '../benchmark.js'
import { Supply } from '../changes.js'
import { load } from '../load.js'
import { type HttpRequest, writeRequests } from '../requests.js'
import { PROJECT, Store } from '../store.js'

const USERS = 100_000
const CONNECTIONS = 64
/** Enough to have changed every user soon. */
const MANY_CONNECTIONS = 512
const ONE_USER_CONNECTIONS = 100
/** A prime, so that the order of the users is unrelated to the order in the store. */
const STRIDE = 7_368_787

/** Changes of user profiles: of new users, of many stored users, and of one user by many clients. */
export const profile: Benchmark = async (bench) => {
  const { servers, seconds } = bench
  const clickhouse = await servers.clickhouse()
  const [service, bare] = await Promise.all([servers.tallyhouse(clickhouse), servers.program('bare')])
  const store = new Store(clickhouse)
  await store.text(
    `INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted)
     SELECT '${PROJECT}', concat('user-', toString(number)),
       concat('{"plan":"free","visits":', toString(number % 100), '}'), 1700000000000, 1700000000000, 1, 0
     FROM numbers(${USERS})`,
  )
  const everyone = Array.from({ length: USERS }, (_, i) => change(`user-${(i * STRIDE) % USERS}`))
  const many = await writeRequests(servers.folder, everyone)
  const one = await writeRequests(servers.folder, [change('user-0')])

  const limitAndOurs = { unit: 'ops/s', over: 'bare route' } as const
  const unseen = bench.figure('users seen for the first time', {
    ...limitAndOurs,
    goal: { of: 'value', target: 8_000, stretch: 13_000 },
  })
  const returning = bench.figure('users whom only the store has', limitAndOurs)
  const distinct = bench.figure('100 000 users in turn', {
    ...limitAndOurs,
    goal: { of: 'value', target: 8_000, stretch: 15_000 },
  })
  const same = bench.figure(`one user, ${ONE_USER_CONNECTIONS} clients`, {
    ...limitAndOurs,
    goal: { of: 'value', target: 4_000, stretch: 10_000 },
  })

  const fresh = new Supply(
    await writeRequests(
      servers.folder,
      everyone.map((_, i) => change(`new-user-${i}`)),
    ),
  )
  const strangers = new Supply(many)
  const onBare = { url: bare.url, requests: many, connections: CONNECTIONS, seconds }
  const onService = { url: service.url, seconds }
  await load(servers, { ...onBare, seconds: WARM_UP_SECONDS })
  await load(servers, { ...onService, requests: one, connections: CONNECTIONS, seconds: WARM_UP_SECONDS })

  await eachRound(bench, store, async () => {
    const limit = await load(servers, { ...onBare, seconds: WARM_UP_SECONDS })
    // Short, so that no user comes twice.
    const first = await fresh.use(CONNECTIONS, (some) => load(servers, { ...onService, ...some, seconds: 1 }))
    unseen(first.perSecond, limit.perSecond)
    const ours = await strangers.use(CONNECTIONS, (some) => load(servers, { ...onService, ...some, seconds: 1 }))
    returning(ours.perSecond, limit.perSecond)
  })
  while (strangers.used < USERS) {
    await strangers.use(MANY_CONNECTIONS, (some) => load(servers, { ...onService, ...some }))
  }
  await eachRound(bench, store, async () => {
    const limit = await load(servers, onBare)
    const ours = await strangers.use(CONNECTIONS, (some) => load(servers, { ...onService, ...some }))
    distinct(ours.perSecond, limit.perSecond)
    const limitOfOne = await load(servers, { ...onBare, requests: one, connections: ONE_USER_CONNECTIONS })
    const oursOfOne = await load(servers, { ...onService, requests: one, connections: ONE_USER_CONNECTIONS })
    same(oursOfOne.perSecond, limitOfOne.perSecond)
  })
}

function change(distinctId: string): HttpRequest {
  return {
    method: 'POST',
    path: '/public/users/profile',
    body: `{"distinct_id":"${distinctId}","operations":{"$add":{"visits":1},"$set":{"plan":"pro"}}}`,
  }
}
