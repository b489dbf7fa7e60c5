import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { failureText } from '../../src/lib/failure-text.js'
import { StateFile } from '../../src/lib/state-file.js'
import { temporaryFolder } from '../helper.js'

t.test('the text of a file that cannot be written names the missing folder', async (t) => {
  const folder = await temporaryFolder(t)
  await writeFile(join(folder, 'file'), '')
  await mkdir(join(folder, 'folder'))
  const write = (path: string) => new StateFile(path).write({}).catch((error) => failureText(error))
  t.equal(await write(join(folder, 'none', 'state.json')), `The folder ${join(folder, 'none')} does not exist.`)
  t.match(await write(join(folder, 'file', 'state.json')), /file\/state\.json cannot exist, because a parent/)
  t.match(await write(join(folder, 'folder')), `${join(folder, 'folder')} is a folder, but must be a file.`)
  t.equal(await write(join(folder, 'state.json')), undefined)
})
