import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { StoredBatches } from '../../../src/cli/import/stored-batches.js'
import { temporaryFolder } from '../../helper.js'

async function readAll(stored: StoredBatches): Promise<string[]> {
  const ids: string[] = []
  for await (const group of stored.read(2)) ids.push(...group)
  return ids
}

t.test('StoredBatches lists the ids of earlier runs, and refuses if its file was removed in between', async (t) => {
  const path = join(await temporaryFolder(t), 'ids')
  const first = new StoredBatches(path, 0)
  const bytes = await first.write(['a', 'b'])
  await first.close()
  const second = new StoredBatches(path, bytes)
  await second.write(['c'])
  await second.close()
  t.strictSame(await readAll(second), ['a', 'b', 'c'])

  await rm(path)
  await t.rejects(readAll(second), /missing or incomplete/)
  const third = new StoredBatches(path, bytes)
  await third.write(['c'])
  await third.close()
  await t.rejects(readAll(third), /missing or incomplete/)
})
