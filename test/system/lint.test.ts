import { spawn } from 'node:child_process'
import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { temporaryFolder } from '../helper.js'

/** A source tree in which each file breaks one rule. */
const BROKEN: Record<string, string> = {
  'src/model/up.ts': "import type { Up } from '../routes/one.js'\nexport type T = Up\n",
  'src/model/disk.ts': "import { readFileSync } from 'node:fs'\nexport const f = readFileSync\n",
  'src/model/a.ts': "import { b } from './b.js'\nexport const a = () => b\n",
  'src/model/b.ts': "import { a } from './a.js'\nexport const b = () => a\n",
  'src/routes/one.ts': "import type { Two } from './two.js'\nexport type Up = Two\n",
  'src/routes/two.ts': "import Redis from 'ioredis'\nexport type Two = Redis\n",
  'src/web/a.tsx': "import type { B } from './b.js'\nexport type A = B\n",
  'src/web/b.tsx': "import type { A } from './a.js'\nexport type B = A\n",
  'src/web/number.ts': 'export const f = new Intl.NumberFormat()\n',
  'src/web/time.ts': 'export const f = (time: Date) => time.toLocaleDateString()\n',
  'bench/a.ts': "import type { B } from './b.js'\nexport type A = B\n",
  'bench/b.ts': "import type { A } from './a.js'\nexport type B = A\n",
  'src/attic/new.ts': "export { a } from '../model/a.js'\n",
  'src/lib/setting.ts': 'export const port = process.env.PORT\n',
  'src/config.ts': 'export const port = process.env.PORT\n',
  'src/lib/function.ts': `export function f(n: number) {\n${'  n++\n'.repeat(71)}  return n\n}\n`,
  'src/lib/file.ts': Array.from({ length: 601 }, (_, i) => `export const n${i} = ${i}\n`).join(''),
}
const SETTINGS = [
  '.dependency-cruiser.cjs',
  'tsconfig.json',
  'biome.json',
  '.gitignore',
  'scripts/no-browser-language.grit',
]

async function brokenTree(): Promise<string> {
  const folder = await temporaryFolder(t)
  for (const [path, source] of Object.entries(BROKEN)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), source)
  }
  await mkdir(join(folder, 'scripts'))
  for (const name of SETTINGS) await copyFile(name, join(folder, name))
  await symlink(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** @returns all that a tool of `node_modules` prints */
async function run(cwd: string, tool: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = spawn(join(process.cwd(), 'node_modules/.bin', tool), args, { cwd, stdio: 'pipe' })
  return (await Promise.all([text(stdout), text(stderr)])).join('\n')
}

t.test('a broken rule fails the lint', async (t) => {
  const folder = await brokenTree()
  const [style, layers] = await Promise.all([
    run(folder, 'biome', 'lint', 'src', '--max-diagnostics=100', '--colors=off'),
    run(
      folder,
      'depcruise',
      'src',
      'bench',
      '--config',
      '.dependency-cruiser.cjs',
      '--output-type',
      'err',
      '--no-cache',
    ),
  ])
  t.match(style, /src\/lib\/function\.ts.* lint\/complexity\/noExcessiveLinesPerFunction/)
  t.match(style, /src\/lib\/file\.ts.* lint\/style\/noExcessiveLinesPerFile/)
  t.match(style, /src\/lib\/setting\.ts.* lint\/style\/noProcessEnv/)
  t.match(style, /src\/model\/[ab]\.ts.* lint\/suspicious\/noImportCycles/)
  t.match(style, /src\/web\/number\.ts.* lint\/style\/noRestrictedGlobals/)
  t.match(style, /src\/web\/time\.ts.* plugin/)
  t.notMatch(style, /src\/config\.ts/)

  t.match(layers, /imports-of-model: src\/model\/up\.ts/)
  t.match(layers, /no-input-or-output: src\/model\/disk\.ts/)
  t.match(layers, /no-circle: src\/model\/[ab]\.ts/)
  t.match(layers, /no-circle: src\/web\/[ab]\.tsx/)
  t.match(layers, /no-circle: bench\/[ab]\.ts/)
  t.match(layers, /routes-apart: src\/routes\/one\.ts/)
  t.match(layers, /home-of-ioredis: src\/routes\/two\.ts/)
  t.match(layers, /rooms-are-listed: src\/attic\/new\.ts/)
})
