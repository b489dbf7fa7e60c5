import t from 'tap'
import { command } from '../../src/cli/doctor.js'
import { TEST_NAME } from '../../src/cli/doctor-sdks.js'
import { addressOf } from '../live-stream.js'
import { addSdkProject } from '../routes/vendors/sdk-app.js'
import { callCommand } from './command-line.js'

const NAMES = ['segment', 'rudder', 'jitsu', 'posthog', 'mixpanel', 'amplitude', 'openpanel']

const doctor = (args: string[], env: NodeJS.ProcessEnv = {}) => callCommand(command, args, env)

t.test('doctor prints the change for each SDK', async (t) => {
  for (const sdk of NAMES) {
    const { code, stdout, stderr } = await doctor(['--sdk', sdk, '--url', 'https://t.example/', '--key', 'wk_x'])
    t.equal(code, 0)
    t.match(stdout, /^\/\/ .+\n.*'(x:)?wk_x'/, sdk)
    t.match(stdout, /t\.example/)
    t.notMatch(stdout, /example\/'|example\/\//, 'no slash of its own')
    t.equal(stderr, '')
  }
  const node = await doctor(['--sdk', 'mixpanel'], { WRITE_KEY: 'wk_env', PORT: '4000' })
  t.match(node.stdout, "Mixpanel.init('wk_env', { host: '127.0.0.1:4000', path: '/mixpanel', protocol: 'http' })")
  const none = await doctor(['--sdk', 'posthog'])
  t.match(none.stdout, "new PostHog('YOUR_WRITE_KEY'")
  t.match(none.stderr, /keys create --project NAME --kind write/)
  t.match((await doctor(['--sdk', 'posthog', '--key', 'sk_x'])).stderr, /Never put it into a page/)
})

t.test('doctor refuses wrong arguments', async (t) => {
  for (const args of [
    [],
    ['--sdk', 'none'],
    ['--sdk', 'toString'],
    ['--sdk', 'segment', '--url', 'x'],
    ['--sdk', 'segment', '--key', 'pk_x'],
    ['--sdk', 'segment', '--key', "'"],
    ['--sdk', 'segment', '--check'],
    ['--none'],
  ]) {
    await t.rejects(doctor(args), { name: 'UsageError' }, args.join(' '))
  }
})

t.test('--check', async (t) => {
  const { client, keys, otherKey, events } = await addSdkProject()
  const url = await addressOf(client)
  for (const sdk of NAMES) {
    const args = ['--sdk', sdk, '--url', url, '--key', keys.write, '--check']
    t.match(await doctor(args), { code: 0, stderr: /accepted\. Set READ_KEY/ }, sdk)
    t.match(await doctor(args, { READ_KEY: keys.read }), { code: 0, stderr: /accepted and read back/ }, sdk)
    const wrong = await doctor(['--sdk', sdk, '--url', url, '--key', 'wk_wrong', '--check'])
    t.match(wrong, { code: 1, stderr: /not accepted: 40[01] / }, sdk)
  }
  t.equal((await events()).length, 2 * NAMES.length)
  const forbidden = await doctor(['--sdk', 'segment', '--url', url, '--key', keys.write, '--check'], {
    READ_KEY: otherKey,
  })
  t.match(forbidden, { code: 1, stderr: /reading it back failed: 403/ })
  const nobody = ['--sdk', 'segment', '--url', 'http://127.0.0.1:9', '--key', 'wk_x', '--check']
  await t.rejects(doctor(nobody), { message: /cannot be reached at http:\/\/127\.0\.0\.1:9/ })

  const earlier = Array.from({ length: 100 }, () => ({ event: TEST_NAME, distinct_id: TEST_NAME }))
  const sent = await client.call('POST', '/public/track/batch', { events: earlier }, { 'x-api-key': keys.write })
  t.equal(sent.statusCode, 200, sent.body)
  const args = ['--sdk', 'segment', '--url', url, '--key', keys.write, '--check']
  t.match(await doctor(args, { READ_KEY: keys.read }), { code: 0, stderr: /accepted and read back/ })
})
