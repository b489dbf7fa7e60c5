import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { RejectsFile } from '../../../src/cli/import/rejects.js'
import { temporaryFolder } from '../../helper.js'

const reject = (line: number) => ({ line, reason: 'why', row: '{}' })
const text = (...lines: number[]) => lines.map((line) => `${JSON.stringify(reject(line))}\n`).join('')

/**
 * Writes a reject like an import that resumes after this many bytes.
 * @returns the recorded bytes
 */
async function write(path: string, bytes: number, line: number): Promise<number> {
  const file = new RejectsFile(path, bytes)
  const recorded = await file.write([reject(line)])
  t.equal(await file.write([]), recorded)
  await file.close()
  return recorded
}

t.test('RejectsFile appends to the rejects of earlier runs', async (t) => {
  const path = join(await temporaryFolder(t), 'rejects')
  await writeFile(path, 'of another import')
  const bytes = await write(path, 0, 1)
  t.equal(await readFile(path, 'utf8'), text(1))
  await write(path, bytes, 2)
  t.equal(await write(path, bytes, 3), 2 * bytes, 'unrecorded bytes are overwritten')
  t.equal(await readFile(path, 'utf8'), text(1, 3))
})

t.test('RejectsFile starts a new file if the user moved the old one', async (t) => {
  const path = join(await temporaryFolder(t), 'rejects')
  const bytes = await write(path, 0, 1)
  await rm(path)
  t.equal(await write(path, bytes, 2), bytes)
  t.equal(await readFile(path, 'utf8'), text(2))
})
