import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'

/** Documents about this repository; everything that they name must exist. */
const DOCUMENTS = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md']
const FOLDERS = ['docs', 'docs/decisions', 'docs/vendors']
/** Paths below these are files of the repository; others, such as `data/`, are made while it runs. */
const PATH = /(?<![\w./:-])((?:src|test|bench|docs|schema|packages|\.ci)\/[\w./*-]*[\w*/])/g
const SCRIPT = /npm run (?:--silent )?([\w:-]+)/g
/** `npm` itself runs these. */
const LIFECYCLE = /\bnpm (test|start)\b/g
const LINK = /\]\((?!https?:)([^)#\s]+)(?:#([\w-]+))?\)/g
const MAX_LINE = 100

async function documents(): Promise<[path: string, text: string][]> {
  const listed = await Promise.all(
    FOLDERS.map(async (folder) => (await readdir(folder)).map((name) => join(folder, name))),
  )
  const names = listed.flat().filter((name) => name.endsWith('.md'))
  return Promise.all(
    [...DOCUMENTS, ...names].map(async (path): Promise<[string, string]> => [path, await readFile(path, 'utf8')]),
  )
}

/** The distinct matches of the first group of a pattern in a text. */
function found(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, name = '']) => name))]
}

/** Whether a path exists; with a `*`, only its folder must. */
function exists(path: string): boolean {
  return existsSync(path.includes('*') ? path.slice(0, path.indexOf('*')).replace(/[^/]*$/, '') : path)
}

t.test('every file and npm script that the documents name exists', async (t) => {
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8'))
  for (const [document, text] of await documents()) {
    for (const path of found(text, PATH)) t.ok(exists(path), `${document}: ${path}`)
    for (const name of [...found(text, SCRIPT), ...found(text, LIFECYCLE)]) t.ok(scripts[name], `${document}: ${name}`)
  }
})

t.test('every link leads to a file and a heading', async (t) => {
  const texts = new Map(await documents())
  for (const [document, text] of texts) {
    for (const [, path = '', anchor] of text.matchAll(LINK)) {
      const target = join(dirname(document), path)
      t.ok(existsSync(target), `${document}: ${path}`)
      if (anchor === undefined) continue
      const headings = found(texts.get(target) ?? '', /^#+ (.*)$/gm)
      const anchors = headings.map((heading) =>
        heading
          .toLowerCase()
          .replace(/[^\w -]/g, '')
          .replaceAll(' ', '-'),
      )
      t.ok(anchors.includes(anchor), `${document}: ${path}#${anchor}`)
    }
  }
})

t.test('the map has the rooms in the order that the lint checks', async (t) => {
  const map = await readFile('docs/ARCHITECTURE.md', 'utf8')
  const table = map.slice(map.indexOf('| room '), map.indexOf('### Invariants'))
  const rooms = found(table, /^\| (`.*?) *\|/gm).flatMap((cell) => found(cell, /`([\w.]+)\/?`/g))
  const rules: { name: string }[] = createRequire(import.meta.url)(resolve('.dependency-cruiser.cjs')).forbidden
  const checked = rules.flatMap(({ name }) => /^imports-of-(.*)/.exec(name)?.[1] ?? [])
  t.same(rooms, checked.reverse())
})

t.test('every room is on the map and has an invariant', async (t) => {
  const map = await readFile('docs/ARCHITECTURE.md', 'utf8')
  for (const entry of await readdir('src', { withFileTypes: true })) {
    const room = entry.isDirectory() ? `${entry.name}/` : entry.name
    t.ok(map.includes(`\`${room}\``), room)
    if (!entry.isDirectory()) continue
    const isPromised = new RegExp(`^- \\*\\*[^*]*\\b${entry.name}\\b[^*]*\\*\\* Invariant:`, 'm').test(map)
    t.ok(isPromised, `${room} has an invariant`)
  }
})

t.test('every log line that the manual explains is written somewhere', async (t) => {
  const manual = await readFile('docs/monitoring.md', 'utf8')
  const files = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts'))
  const source = (await Promise.all(files.map((name) => readFile(join('src', name), 'utf8')))).join()
  const table = /^\| line +\|.*\n(?:\|.*\n)+/m.exec(manual)?.[0] ?? ''
  const lines = found(table, /^\| `([^`]+)`/gm)
  t.ok(lines.length > 5)
  for (const line of lines) t.ok(source.includes(line.replace(/ …$/, '')), line)
})

t.test('lines of prose are short', async (t) => {
  for (const [document, text] of await documents()) {
    const prose = text.replace(/^ *```[\s\S]*?^ *```/gm, (code) => code.replace(/[^\n]/g, ''))
    const long = prose.split('\n').flatMap((line, i) => {
      return line.length > MAX_LINE && !line.startsWith('|') && !line.includes('](http') ? [`line ${i + 1}`] : []
    })
    t.strictSame(long, [], document)
  }
})
