import { access } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { lockFile } from '../../src/lib/file-lock.js'
import { temporaryFolder } from '../helper.js'

t.test('one holder at a time', async (t) => {
  const path = join(await temporaryFolder(t), 'lock')
  const first = await lockFile(path)
  t.ok(first)
  t.equal(await lockFile(path), null)
  first?.release()
  await t.rejects(access(path), 'the file is gone')
  const second = await lockFile(path)
  t.ok(second)
  second?.release()
})

t.test('if no file can be created, nothing is locked', async (t) => {
  const path = join(await temporaryFolder(t), 'missing', 'lock')
  t.ok(await lockFile(path))
  t.ok(await lockFile(path))
})
