import t from 'tap'
import { STORAGES, settingsFor, startApp } from '../helper.js'

for (const storage of STORAGES) {
  t.test(storage, async (t) => {
    const { call } = await startApp(t, await settingsFor(t, storage))

    t.test('live while the process serves', async (t) => {
      const response = await call('GET', '/health/live')
      t.equal(response.statusCode, 200)
      t.strictSame(response.json(), { status: 1, error: null })
    })

    t.test('ready when journal and store answer', async (t) => {
      const response = await call('GET', '/health/ready')
      t.equal(response.statusCode, 200)
      t.strictSame(response.json(), { status: 1, error: null, journal: 'ready', store: 'ready' })
    })
  })
}
