import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import type { CommandIo } from '../../../src/cli/command.js'
import type { Batches } from '../../../src/cli/import/batches.js'
import { Checkpoint, newImport } from '../../../src/cli/import/checkpoint.js'
import type { ImportOptions } from '../../../src/cli/import/options.js'
import { chooseImportPaths } from '../../../src/cli/import/resume.js'
import { type ImportParts, importInput } from '../../../src/cli/import/send-batches.js'
import { Connection } from '../../../src/client/connection.js'
import { failure, faultyServer } from '../../client/faulty-server.js'
import { batchesOf, pieces } from './batches.js'

t.test('inputs of the same name in read-only directories do not share their progress', async (t) => {
  const stderr = new PassThrough()
  const pathsIn = (folder: string) => {
    return chooseImportPaths(`${folder}/events.ndjson`, {} as ImportOptions, { stderr } as unknown as CommandIo)
  }
  const [one, other] = [await pathsIn('/missing/a'), await pathsIn('/missing/b')]
  t.match(one.state, /^events\.ndjson\.[0-9a-f]{8}\.import\.json$/)
  t.not(one.state, other.state)
  t.not(one.rejects, other.rejects)
  t.strictSame(await pathsIn('/missing/a'), one)
  stderr.end()
  t.match(await text(stderr), `progress is kept in ${one.state}; resume from this directory.`)
})

t.test('the keys of batches that an earlier run sent expire while this one runs', async (t) => {
  const hourMs = 3_600_000
  const state = newImport({} as Parameters<typeof newImport>[0])
  state.sent = [{ upTo: 64, at: new Date(0).toISOString() }]
  let now = 22 * hourMs
  const checkpoint = new Checkpoint(state, null, () => now)
  await checkpoint.recordSending(64)
  t.equal(checkpoint.keysLeftMs(63), hourMs)
  now += 2 * hourMs
  t.equal(checkpoint.keysLeftMs(63), -hourMs)
  t.equal(checkpoint.keysLeftMs(64), null, 'of another batch')
})

t.test('a part of a batch is not sent once the keys of an earlier run have expired', async (t) => {
  const hourMs = 3_600_000
  const state = newImport({} as Parameters<typeof newImport>[0])
  state.sent = [{ upTo: 64, at: new Date(0).toISOString() }]
  let now = 22 * hourMs
  // The machine is suspended while the service refuses the whole batch.
  const server = await faultyServer(t, [
    (response, request) => {
      now += 2 * hourMs
      failure(413, 'payload_too_large')(response, request)
    },
  ])
  const text = '{"event":"e","distinct_id":"u"}\n'.repeat(2)
  const found = await batchesOf(pieces(text))
  const batches = { read: () => found, release: () => undefined } as unknown as Batches
  const parts = {
    ...{ input: pieces(text), batches, checkpoint: new Checkpoint(state, null, () => now), maxBytes: 1000 },
    connection: new Connection({ url: server.url, secretKey: 'sk_1' }),
    ...{ resumedAt: 0, parallel: 1, unacknowledged: 'check', signal: new AbortController().signal },
  } as unknown as ImportParts
  await t.rejects(importInput(parts), /have expired\. Rerun the command/)
  t.equal(server.received.length, 1)
})

t.test('after a clean interruption, the next batches are recorded before they are sent', async (t) => {
  const state = newImport({} as Parameters<typeof newImport>[0])
  state.done = { ...state.done, batches: 1000 }
  let written = ''
  const file = {
    write: async (next: typeof state) => {
      written = JSON.stringify(next)
    },
  }
  const checkpoint = new Checkpoint(state, file, Date.now)
  await checkpoint.recordSending(1000)
  const [recorded] = JSON.parse(written).sent
  t.ok(recorded.upTo > 1000, `up to ${recorded.upTo}`)
})
