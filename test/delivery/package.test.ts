import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { PUBLIC_KEY, SECRET_KEY, startService, temporaryFolder } from '../helper.js'

const run = promisify(execFile)
/** tap runs everything in the root of the repository. */
const ROOT = process.cwd()
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** Documents and headings with the examples. */
const SERVER = ['docs/clients.md', 'From a server'] as const
const BROWSER = ['docs/web.md', 'From npm'] as const

/** The packages are in no registry. */
const NO_REGISTRY = { npm_config_registry: 'http://127.0.0.1:1/', npm_config_audit: 'false', npm_config_fund: 'false' }

/** Creates an empty project, and installs both packages from the service with the commands in the manual. */
async function createProject(t: Test, url: string): Promise<string> {
  const folder = await temporaryFolder(t)
  await writeFile(join(folder, 'package.json'), '{"type":"module","private":true}')
  for (const section of [SERVER, BROWSER]) {
    const commands = (await example(section, 'sh')).replace('http://127.0.0.1:3000', url)
    t.match(commands, `${url}/packages/`)
    await run('sh', ['-e', '-c', commands], { cwd: folder, env: { ...process.env, ...NO_REGISTRY } })
  }
  return folder
}

/** The first code block in this language under a heading of a document. */
async function example([document, heading]: readonly [string, string], language = 'js'): Promise<string> {
  const section = (await readFile(join(ROOT, document), 'utf8')).split(`\n## ${heading}\n`)[1] ?? ''
  return new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(section)?.[1] ?? ''
}

/** All programs of a document, as one: later examples use what earlier ones have declared. */
async function program(document: string): Promise<string> {
  const text = await readFile(join(ROOT, document), 'utf8')
  const blocks = Array.from(text.matchAll(/^```[jt]s\n(.*?)^```/gms), ([, block]) => block)
  return [...blocks, 'export {}'].join('\n')
}

t.test('the published service contains what runs, and no source', async (t) => {
  const folder = await temporaryFolder(t)
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder]
  const { stdout: packed } = await run('npm', args, { cwd: ROOT })
  const { stdout } = await run('tar', ['-tzf', join(folder, JSON.parse(packed)[0].filename)])
  const files = stdout.split('\n')
  const clients = ['dist/packages/tallyhouse-client.tgz', 'dist/packages/tallyhouse-browser.tgz', 'dist/packages/t.js']
  for (const name of ['dist/main.js', 'dist/cli.js', 'dist/web/index.html', 'README.md', ...clients])
    t.ok(files.includes(`package/${name}`), name)
  t.ok(files.some((name) => name.startsWith('package/schema/')))
  for (const type of ['js', 'js.br', 'js.gz', 'css']) {
    t.ok(
      files.some((name) => name.startsWith('package/dist/web/assets/main-') && name.endsWith(`.${type}`)),
      type,
    )
  }
  t.strictSame(
    files.filter((name) => /^package\/(src|test|bench|packages)\/|(?<!\.d)\.ts$/.test(name)),
    [],
  )
})

t.test('the client packages that the service serves', async (t) => {
  const service = await startService(t, {
    DATA_DIR: await temporaryFolder(t),
    SECRET_KEY,
    PUBLIC_API_KEY: PUBLIC_KEY,
  })
  const folder = await createProject(t, service.url)
  const modules = join(folder, 'node_modules')

  t.test('have no dependencies, and the version of the service', async (t) => {
    const installed = (await readdir(modules)).filter((name) => !name.startsWith('.'))
    t.strictSame(installed.sort(), ['tallyhouse-browser', 'tallyhouse-client'])
    const { version, engines } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    for (const name of installed) {
      const manifest = JSON.parse(await readFile(join(modules, name, 'package.json'), 'utf8'))
      t.equal(manifest.version, version)
      t.notOk(manifest.dependencies)
      const files = await readdir(join(modules, name), { recursive: true })
      for (const file of ['LICENSE', 'README.md']) t.ok(files.includes(file), `${name} has ${file}`)
      t.strictSame(
        files.filter((file) => /\.(ts|js|cjs|mjs)$/.test(file) && !/^dist\/(esm|cjs)\//.test(file)),
        [],
      )
    }
    const client = JSON.parse(await readFile(join(modules, 'tallyhouse-client/package.json'), 'utf8'))
    t.strictSame(client.engines, engines)
  })

  t.test('have types under every module resolution, for both kinds of module', async (t) => {
    // An interface has no index signature. Without types everything would be `any`, and pass.
    const sample = `
      interface Plan { plan: string, seats?: number }
      const plan: Plan = { plan: 'pro' }
      export const send = async (tallyhouse: Tallyhouse) => {
        await tallyhouse.track({ event: 'e', distinct_id: 'ada', properties: plan })
        await tallyhouse.identify('ada', plan)
        await tallyhouse.updateProfile('ada', { $set: plan, $set_once: plan, $add: { visits: 1 } })
        const name: string | undefined = (await tallyhouse.getUser('ada')).properties.plan as string | undefined
        const { results } = await tallyhouse.query({ kind: 'series', series: [{ event: 'e', metric: 'users' }] })
        const total: number | null | undefined = results[0]?.total
        await tallyhouse.query({ kind: 'retention', start: 'e', return: { event: '*', where: ['set', 'user.plan'] } })
        // @ts-expect-error there is no such metric
        await tallyhouse.query({ kind: 'series', series: [{ event: 'e', metric: 'most' }] })
        // @ts-expect-error a number is no event
        await tallyhouse.track(1)
        // @ts-expect-error a number is no object
        await tallyhouse.identify('ada', 1)
        return [name, total]
      }
      export const start = () => new Website({ url: '', key: '', consent: 'required', outbound: true }).track('e', plan)
      // @ts-expect-error a page needs a key
      export const browser = () => new Website({ url: 'https://example.com' })`
    const imports = `import { Tallyhouse } from 'tallyhouse-client'\nimport { Tallyhouse as Website } from 'tallyhouse-browser'\n`
    const documents = ['docs/clients.md', 'packages/client/README.md', 'packages/browser/README.md']
    const programs = documents.map((_, i) => `document-${i}.mts`)
    for (const [i, document] of documents.entries())
      await writeFile(join(folder, `document-${i}.mts`), await program(document))
    await writeFile(join(folder, 'browser.mts'), `${await example(BROWSER)}\nexport { tallyhouse }`)
    for (const kind of ['mts', 'cts']) await writeFile(join(folder, `sample.${kind}`), imports + sample)
    const common = ['--noEmit', '--strict', '--skipDefaultLibCheck', '--target', 'ES2022', '--types', 'node']
    const types = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--lib', 'ES2022,DOM,DOM.AsyncIterable']
    for (const [module, resolution, files] of [
      ['Node16', 'Node16', [...programs, 'browser.mts', 'sample.mts', 'sample.cts']],
      ['ESNext', 'Bundler', ['sample.mts']],
      ['CommonJS', 'Node10', ['sample.cts']],
    ] as const) {
      const options = [...common, ...types, '--module', module, '--moduleResolution', resolution]
      await run(process.execPath, [TSC, ...options, ...files], { cwd: folder }).catch(({ stdout }) =>
        t.fail(`${resolution}: ${stdout}`),
      )
    }
  })

  t.test('can be required and imported', async (t) => {
    await mkdir(join(folder, 'old'))
    await writeFile(join(folder, 'old/package.json'), '{"type":"commonjs"}')
    const code = (load: string) => `
      ${load}
      const refused = (make) => { try { make() } catch (error) { return error.message } }
      console.log(refused(() => new Tallyhouse({ url: 'x', secretKey: 'y' })))
      console.log(refused(() => new Website({ url: 'x', key: 'y' })))`
    await writeFile(
      join(folder, 'old/required.js'),
      code(
        `const { Tallyhouse } = require('tallyhouse-client'); const { Tallyhouse: Website } = require('tallyhouse-browser')`,
      ),
    )
    await writeFile(
      join(folder, 'imported.js'),
      code(
        `import { Tallyhouse } from 'tallyhouse-client'; import { Tallyhouse as Website } from 'tallyhouse-browser'`,
      ),
    )
    for (const file of ['old/required.js', 'imported.js']) {
      // Node 20.19 would also require an ES module, and warn.
      const { stdout, stderr } = await run(process.execPath, ['--no-experimental-require-module', file], {
        cwd: folder,
      })
      t.match(stdout, /^url must be .*\nA page needs a write key: .*\n$/, file)
      t.equal(stderr, '', file)
    }
  })

  t.test('the example for servers runs', async (t) => {
    const code = await example(SERVER)
    await writeFile(join(folder, 'server.mjs'), code.replace('http://127.0.0.1:3000', service.url))
    const { stdout } = await run(process.execPath, ['server.mjs'], { cwd: folder, env: { ...process.env, SECRET_KEY } })
    t.match(stdout, /^[\da-f-]{36} signed up \{ plan: 'pro' \}\n$/)
    const answer = await fetch(`${service.url}/public/users/ada`, { headers: { 'x-api-key': SECRET_KEY } })
    t.match(await answer.json(), { user: { properties: { name: 'Ada', visits: 2, plan: 'pro' } } })
  })
})
