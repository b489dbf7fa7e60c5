import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { connectionsWithin, readOpenFilesLimit } from '../../src/lib/open-files.js'
import { temporaryFolder } from '../helper.js'

t.test('reads how many files may be open', async (t) => {
  const dir = await temporaryFolder(t)
  const file = join(dir, 'limits')
  await writeFile(
    file,
    'Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n',
  )
  t.equal(readOpenFilesLimit(file), 1024)
  await writeFile(file, 'Max open files            unlimited            unlimited            files\n')
  t.equal(readOpenFilesLimit(file), null)
  t.equal(readOpenFilesLimit(join(dir, 'none')), null)
})

t.test('leaves files for the service itself', async (t) => {
  t.equal(connectionsWithin(10_000, null), 10_000)
  t.equal(connectionsWithin(10_000, 1_048_576), 10_000)
  t.equal(connectionsWithin(10_000, 4096), 3584)
  t.equal(connectionsWithin(10_000, 256), 128)
  t.equal(connectionsWithin(5, 4096), 5)
})
