import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { temporaryFolder } from '../../helper.js'
import { addSdkProject, startSdkApp } from './sdk-app.js'

const SCRIPTS = [
  [
    'posthog-js',
    'dist/array.js',
    ['/posthog/static/array.js', '/posthog/static/1.2.3/array.js?v=1', '/posthog/array/KEY/array.js'],
  ],
  ['@jitsu/js', 'dist/web/p.js.txt', ['/jitsu/p.js']],
  ['@segment/analytics-next', 'dist/umd/standalone.js', ['/segment/analytics.js/v1/KEY/analytics.min.js']],
] as const
const OTHERS = [
  ['posthog-js', 'dist/surveys.js', '/posthog/static/surveys.js?v=1'],
  ['@segment/analytics-next', 'dist/umd/1.bundle.a1.js', '/segment/analytics-next/bundles/1.bundle.a1.js'],
] as const

t.test('scripts of packages in a folder', async (t) => {
  const folder = await temporaryFolder(t)
  const below = join(folder, 'service')
  await mkdir(below)
  const { inject } = await startSdkApp(t, { VENDOR_SCRIPTS: below })

  await t.test('the page says what to do if the packages are not installed', async (t) => {
    for (const [name, , urls] of SCRIPTS) {
      for (const url of urls) {
        const response = await inject({ url, headers: { origin: 'https://shop.example' } })
        t.equal(response.statusCode, 200, url)
        t.match(response.headers, {
          'content-type': 'text/javascript; charset=utf-8',
          'cache-control': 'no-store',
          'access-control-allow-origin': 'https://shop.example',
        })
        const said: string[] = []
        runInNewContext(response.body, { console: { error: (text: string) => said.push(text) } })
        t.match(said, [`npm install ${name}`])
        t.match(said, [/VENDOR_SCRIPTS/])
      }
    }
    for (const [, , url] of OTHERS) t.equal((await inject({ url: url })).statusCode, 404, url)
  })

  await t.test('the scripts of installed packages are served', async (t) => {
    const write = async (name: string, content: string) => {
      await mkdir(dirname(join(folder, name)), { recursive: true })
      await writeFile(join(folder, name), content)
    }
    for (const [name, file] of [...SCRIPTS, ...OTHERS]) await write(`node_modules/${name}/${file}`, `/* é ${file} */`)
    await write('node_modules/posthog-js/package.json', '{}')
    await write('secret.js', 'secret')
    const urls = [
      ...SCRIPTS.flatMap(([, file, all]) => all.map((url) => [file, url])),
      ...OTHERS.map(([, file, url]) => [file, url]),
    ]
    for (const [file, url = ''] of urls) {
      const response = await inject({ url: url })
      t.strictSame([response.statusCode, response.body], [200, `/* é ${file} */`], url)
      t.match(response.headers, {
        'content-type': 'text/javascript; charset=utf-8',
        'cache-control': 'public, max-age=300',
      })
      const again = await inject({ url, headers: { 'if-none-match': String(response.headers.etag) } })
      t.strictSame([again.statusCode, again.body], [304, ''], url)
    }
    for (const url of [
      '/posthog/static/package.json',
      '/posthog/static/..%2fpackage.json',
      '/posthog/static/..%2f..%2f..%2fsecret.js',
      '/posthog/static/%2e%2e%2f%2e%2e%2fsecret.js',
      '/posthog/static/none.js',
      '/segment/analytics-next/bundles/..%2f..%2f..%2f..%2f..%2fsecret.js',
      '/segment/analytics-next/bundles/.js',
    ]) {
      t.equal((await inject({ url: url })).statusCode, 404, url)
    }
  })
})

t.test("PostHog's settings are served as a script", async (t) => {
  const { inject } = await addSdkProject()
  const response = await inject({ url: '/posthog/array/wk_%22%5D%3Balert(1)%2F%2F/config.js' })
  t.equal(response.headers['content-type'], 'text/javascript; charset=utf-8')
  const window: { _POSTHOG_REMOTE_CONFIG?: Record<string, { config: object }> } = {}
  runInNewContext(response.body, { window })
  t.match(window._POSTHOG_REMOTE_CONFIG?.['wk_"];alert(1)//'], { config: { hasFeatureFlags: false }, siteApps: [] })
})
