import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Checkpoint, newImport } from '../../../src/cli/import/checkpoint.js'
import { StoredBatches, syncIdsFirst } from '../../../src/cli/import/stored-batches.js'
import { StateFile } from '../../../src/lib/state-file.js'
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

t.test('a state that is written while a batch ends still has the refused requests of that batch', async (t) => {
  const folder = await temporaryFolder(t)
  const state = newImport({} as Parameters<typeof newImport>[0])
  const refused = { 0: { key: { 'is too old': [1] } } }
  state.refused = { ...refused }
  const file = new StateFile<typeof state>(join(folder, 'state'))
  const checkpoint = new Checkpoint(state, syncIdsFirst(new StoredBatches(join(folder, 'ids'), 0), file), () => 0)
  const saved = checkpoint.save()
  checkpoint.recordDone({ ...state.done, batches: 1 })
  await saved
  t.match(await file.read(), { done: { batches: 0 }, refused })
  await checkpoint.save()
  t.match(await file.read(), { done: { batches: 1 }, refused: {} })
})
