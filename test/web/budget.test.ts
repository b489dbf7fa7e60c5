import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'

/** Output of `npm run build`, named by content hash. */
const ASSETS = 'dist/web/assets'
/** Documented in docs/page.md. */
const LIMIT_BYTES = 150_000
const AT_ONCE = /(?:from|import)\s*"\.\/([^"]+\.js)"/g
const LATER = /import\("\.\/([^"]+\.js)"\)/g

/** Unique names in scripts that match a pattern. */
async function findNames(scripts: string[], pattern: RegExp): Promise<string[]> {
  const texts = await Promise.all(scripts.map((name) => readFile(join(ASSETS, name), 'utf8')))
  const names = texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name))
  return [...new Set(names)]
}

/** Scripts with their imports of these kinds, recursively, except for those already loaded. */
async function collectScripts(scripts: string[], patterns: RegExp[], present: string[] = []): Promise<string[]> {
  const all = new Set(scripts)
  // The set grows during the iteration.
  for (const script of all) {
    const more = await Promise.all(patterns.map((pattern) => findNames([script], pattern)))
    for (const name of more.flat()) if (!present.includes(name)) all.add(name)
  }
  return [...all]
}

/** Gzip sizes, which are larger than those of Brotli. */
async function sumBytes(names: string[]): Promise<number> {
  const sizes = await Promise.all(names.map((name) => stat(`${join(ASSETS, name)}.gz`)))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}

t.test('the first load of every view is within the budget', async (t) => {
  const html = await readFile('dist/web/index.html', 'utf8')
  const assets = [...html.matchAll(/(?:src|href)="\/?assets\/([^"]+)"/g)].map(([, name = '']) => name)
  const styles = assets.filter((name) => name.endsWith('.css'))
  t.equal(styles.length, 1)
  const shell = await collectScripts(
    assets.filter((name) => name.endsWith('.js')),
    [AT_ONCE],
  )
  const views = await findNames(shell, LATER)
  const folders = (await readdir('src/web/views', { withFileTypes: true })).filter((entry) => entry.isDirectory())
  // Events have no view, only a dialog in other views.
  for (const { name } of folders.filter(({ name }) => name !== 'event')) {
    t.ok(
      views.some((view) => view.startsWith(`${name}-`)),
      `${name} is loaded when it is shown`,
    )
  }
  const { size } = await stat('dist/web/index.html.gz')
  for (const view of views) {
    const own = await collectScripts([view], [AT_ONCE, LATER], shell)
    const bytes = size + (await sumBytes([...styles, ...shell, ...own]))
    t.ok(bytes < LIMIT_BYTES, `${basename(view)}: ${bytes} bytes`)
  }
})

t.test('the first view is preloaded together with the page', async (t) => {
  const html = await readFile('dist/web/index.html', 'utf8')
  const preloaded = [...html.matchAll(/rel="modulepreload" href="assets\/([^"]+)"/g)].map(([, name = '']) => name)
  const [entry = ''] = [...html.matchAll(/script type="module" src="assets\/([^"]+)"/g)].map(([, name = '']) => name)
  const boards = (await findNames([entry], LATER)).filter((name) => name.startsWith('boards-'))
  t.equal(boards.length, 1)
  const needed = await collectScripts([entry, ...boards], [AT_ONCE])
  t.strictSame(preloaded.toSorted(), needed.toSorted())
})
