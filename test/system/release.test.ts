import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import t from 'tap'
import { temporaryFolder } from '../helper.js'

const run = promisify(execFile)
const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- One thing.

## [0.9.0] - 2026-01-02

- Another.
`

/** Releases the unreleased changes as version 1.0.0. */
const RELEASE = `
  import { readFileSync, writeFileSync } from 'node:fs'
  import { withRelease } from ${JSON.stringify(resolve('scripts/changelog.mjs'))}
  writeFileSync('CHANGELOG.md', withRelease(readFileSync('CHANGELOG.md', 'utf8'), '1.0.0', '2026-03-04'))`

t.test('release-notes prints what withRelease has put under the new version', async (t) => {
  const cwd = await temporaryFolder(t)
  const file = join(cwd, 'CHANGELOG.md')
  await writeFile(file, CHANGELOG)
  const release = () => run(process.execPath, ['--input-type=module', '--eval', RELEASE], { cwd })
  const notes = (version: string) => run(process.execPath, [resolve('scripts/release-notes.mjs'), version], { cwd })

  await release()
  t.match(await readFile(file, 'utf8'), /## \[Unreleased\]\n\n## \[1\.0\.0\] - 2026-03-04\n\n### Added/)
  t.equal((await notes('1.0.0')).stdout, '### Added\n\n- One thing.\n')
  t.equal((await notes('0.9.0')).stdout, '- Another.\n')
  await t.rejects(notes('2.0.0'), /nothing about 2\.0\.0/)
  await t.rejects(release(), /nothing under \[Unreleased\]/)
})

t.test('release refuses anything but a version', async (t) => {
  for (const args of [[], ['v1.0.0'], ['1.0'], ['1.0.0', '2.0.0']]) {
    await t.rejects(run(process.execPath, ['scripts/release.mjs', ...args]), { code: 2 }, args.join(' '))
  }
})

t.test('making the stores of a version does not load tap, which would end it after 30 s', async (t) => {
  const { metafile } = await build({
    entryPoints: ['test/upgrade/make.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'silent',
  })
  const loaded = Object.values(metafile.inputs).flatMap(({ imports }) => imports.map(({ path }) => path))
  t.ok(loaded.includes('ioredis'))
  t.notOk(loaded.includes('tap'))
})
