import t from 'tap'
import { until } from '../helper.js'
import { call } from './calls.js'
import { CAN_OFFSET_CLOCKS } from './clock-offset.js'
import { Installation, type Kind } from './installation.js'
import { Ledger } from './ledger.js'
import { assertFaultless, Load } from './load.js'
import { assertFlawless, Producer } from './producer.js'

const KINDS: Kind[] = ['service', 'redis', 'clickhouse']
/** Delay of every chunk, in both directions. */
const SLOW_MS = 30

if (!CAN_OFFSET_CLOCKS) t.comment('faketime is not installed: the clocks of the lanes are the same')

for (const lanes of [1, 3]) {
  t.test(`${lanes === 1 ? 'one lane' : `${lanes} lanes`}, under load`, async (t) => {
    const installation = await Installation.start(t, { lanes, services: 2 })
    const load = new Load(installation)
    load.start(t)
    await load.more(2)

    // Once each; the soak does it for as long as you like.
    for (const kind of [...KINDS].sort(() => Math.random() - 0.5)) {
      const all = installation.victims.filter((victim) => victim.kind === kind)
      const victim = all[Math.floor(Math.random() * all.length)]
      t.comment(`kill -9 of ${victim?.name}`)
      await victim?.kill()
      await load.more(1)
    }

    for (const kind of ['redis', 'clickhouse'] as const) {
      const { link } = installation[kind][lanes - 1] ?? {}
      if (!link) return t.fail('there is a link')
      t.comment(`the link to ${kind} ${lanes - 1} is cut, and then slow`)
      link.cut()
      await until(`${kind} to be missed`, async () => {
        const reply = await call(installation.url(), { path: '/health/ready' })
        return reply?.status === 503
      })
      link.restore()
      link.delayMs = SLOW_MS
      await load.more(1)
      link.delayMs = 0
    }
    await assertFaultless(t, load)
  })
}

t.test(
  'a client keeps the order of its calls when its service is killed and then prefers a lane whose clock is behind',
  async (t) => {
    let home = 0
    const env = () => ({ HOME_LANE: String(home) })
    const installation = await Installation.start(t, { lanes: 3, shards: 1, env })
    const [service] = installation.victims
    const ledger = new Ledger()
    const producer = new Producer(ledger, () => installation.url())
    // Without reads, which would bring the lanes to the same position.
    for (home of [1, 2, 0, 2]) {
      await service?.kill()
      for (let i = 0; i < 5; i++) t.equal(await producer.send(), 'answered')
    }
    await assertFlawless(t, ledger, installation.url())
  },
)
