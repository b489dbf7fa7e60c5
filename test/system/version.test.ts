import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { VERSION } from '../../src/version.js'
import { sharedApp } from '../shared-app.js'

const PACKAGES = ['.', 'packages/client', 'packages/browser']

async function readJson(path: string) {
  return JSON.parse(await readFile(path, 'utf8'))
}

t.test('the three packages and the lock file have one version', async (t) => {
  for (const path of PACKAGES) t.equal((await readJson(join(path, 'package.json'))).version, VERSION, path)
  const lock = await readJson('package-lock.json')
  t.strictSame([lock.version, lock.packages[''].version], [VERSION, VERSION])
})

t.test('no source file contains the version', async (t) => {
  const names = await readdir('src', { recursive: true })
  for (const name of names.filter((name) => /\.(tsx?|mjs|html)$/.test(name))) {
    if ((await readFile(join('src', name), 'utf8')).includes(VERSION)) t.fail(name)
  }
})

t.test('the service reports its version to programs, in its description and in its metrics', async (t) => {
  const { app } = await sharedApp()
  const read = async (url: string) => (await app.inject(url)).body
  t.equal(JSON.parse(await read('/')).version, VERSION)
  t.equal(JSON.parse(await read('/openapi.json')).info.version, VERSION)
  // The page's Health shows this one.
  t.match(await read('/metrics'), `tallyhouse_info{version="${VERSION}"`)
})
