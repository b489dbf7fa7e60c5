import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { PUBLIC_KEY, SECRET_KEY, startService, temporaryFolder } from '../helper.js'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** A project that has the package as it is published, and none of its dependencies. */
async function project(t: Test): Promise<string> {
  const folder = await temporaryFolder(t)
  await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], { cwd: ROOT })
  const [tarball] = await readdir(folder)
  await run('tar', ['-xzf', tarball ?? ''], { cwd: folder })
  await mkdir(join(folder, 'node_modules'))
  await rename(join(folder, 'package'), join(folder, 'node_modules/tallyhouse'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  return folder
}

/** The first piece of code under a heading of the README. */
async function example(heading: string): Promise<string> {
  const section = (await readFile(join(ROOT, 'README.md'), 'utf8')).split(`\n## ${heading}\n`)[1] ?? ''
  return /```js\n(.*?)```/s.exec(section)?.[1] ?? ''
}

t.test('the package, as it is published', async (t) => {
  const folder = await project(t)

  t.test('holds what is run and typed, and no source', async (t) => {
    const files = await readdir(join(folder, 'node_modules/tallyhouse'), { recursive: true })
    for (const name of ['dist/main.js', 'dist/cli.js', 'dist/client/index.js', 'dist/client/index.d.ts', 'README.md']) {
      t.ok(files.includes(name), name)
    }
    for (const name of ['dist/browser/index.js', 'dist/browser/index.d.ts']) t.ok(files.includes(name), name)
    const others = files.filter(
      (name) => /^(src|test|bench)\b/.test(name) || (/\.ts$/.test(name) && !/\.d\.ts$/.test(name)),
    )
    t.strictSame(others, [])
  })

  t.test("the README's examples have types under either way of resolution", async (t) => {
    await writeFile(join(folder, 'server.ts'), `${await example('From a server')}\nexport {}`)
    await writeFile(join(folder, 'browser.ts'), `${await example('From a browser')}\nexport { session }`)
    // What has no types would be `any`, and pass.
    await writeFile(
      join(folder, 'wrong.ts'),
      `import { Tallyhouse } from 'tallyhouse/client'
       import { TallyhouseSession } from 'tallyhouse/browser'
       // @ts-expect-error a number is no event
       export const server = (tallyhouse: Tallyhouse) => tallyhouse.track(1)
       // @ts-expect-error a session needs a key
       export const browser = () => new TallyhouseSession({ url: 'https://example.com', distinct_id: 'ada' })`,
    )
    const common = ['--noEmit', '--strict', '--skipDefaultLibCheck', '--target', 'ES2022', '--types', 'node']
    const types = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--lib', 'ES2022,DOM,DOM.AsyncIterable']
    const files = ['server.ts', 'browser.ts', 'wrong.ts']
    for (const [module, resolution] of [
      ['NodeNext', 'NodeNext'],
      ['ESNext', 'Bundler'],
    ] as const) {
      const options = [...common, ...types, '--module', module, '--moduleResolution', resolution]
      await run(process.execPath, [TSC, ...options, ...files], { cwd: folder }).catch(({ stdout }) => t.fail(stdout))
    }
  })

  t.test("the README's example for servers runs", async (t) => {
    const service = await startService(t, {
      DATA_DIR: await temporaryFolder(t),
      SECRET_KEY,
      PUBLIC_API_KEY: PUBLIC_KEY,
    })
    const code = await example('From a server')
    await writeFile(join(folder, 'server.mjs'), code.replace('http://127.0.0.1:3000', service.url))
    const { stdout } = await run(process.execPath, ['server.mjs'], { cwd: folder, env: { ...process.env, SECRET_KEY } })
    t.match(stdout, /^[\da-f-]{36} signed up \{ plan: 'pro' \}\n$/)
    const answer = await fetch(`${service.url}/public/users/ada`, { headers: { 'x-api-key': SECRET_KEY } })
    t.match(await answer.json(), { user: { properties: { name: 'Ada', visits: 2 } } })
  })
})
