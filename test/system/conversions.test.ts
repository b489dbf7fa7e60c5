import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { temporaryFolder } from '../helper.js'
import { findConversions } from './conversions.js'

/** The folders whose code reads requests and files of callers. */
const ROOMS = 'contract http ingest json keys lanes live mcp model questions reads routes states users vendors'.split(
  ' ',
)

/** Each line except the last ones converts. */
const EXAMPLES = `
export const a = (given: unknown) => String(given)
export const b = (given: unknown) => Number(given)
export const c = (given: unknown) => \`\${given}\`
export const d = (given: any) => +given
export const e = (given: any) => given + ''
export const f = (given: any) => new Date(given)
export const g = (given: any) => /x/.test(given)
export const h = (given: any, by: Record<string, string>) => by[given]
export const i = (given: any) => given.name.toString()
export const j = (given: { [name: string]: any }) => { let s = ''; s += given.name; return s }
export const k = (given: string | number) => String(given) + given
export const l = () => { try { a(1) } catch (error) { return String(error) } }
`
const CONVERTING = 10

function settings(): ts.CompilerOptions {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile)
  return ts.parseJsonConfigFileContent(config, ts.sys, '.').options
}

t.test('no received value is converted before its type is known', { timeout: 120_000 }, async (t) => {
  const example = join(await temporaryFolder(t), 'examples.ts')
  await writeFile(example, EXAMPLES)
  const files = ROOMS.flatMap((room) => {
    const names = readdirSync(join('src', room), { recursive: true, encoding: 'utf8' })
    return names.filter((name) => name.endsWith('.ts')).map((name) => join('src', room, name))
  })
  t.ok(files.length > 100, `${files.length} files`)
  const found = findConversions([example, ...files], settings())
  const lines = found.filter(({ file }) => file === example).map(({ line }) => line)
  t.strictSame(
    lines,
    Array.from({ length: CONVERTING }, (_, i) => i + 2),
    'the rule finds them',
  )
  t.strictSame(found.slice(lines.length), [])
})
