import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import type { CommandIo } from '../../../src/cli/command.js'
import type { ImportOptions } from '../../../src/cli/import/options.js'
import { chooseImportPaths } from '../../../src/cli/import/resume.js'

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
