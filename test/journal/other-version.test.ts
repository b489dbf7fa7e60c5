import { Redis } from 'ioredis'
import { open } from 'lmdb'
import t from 'tap'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openLmdbRelocation } from '../../src/journal/lmdb/relocation.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { openRedisRelocation } from '../../src/journal/redis/relocation.js'
import { silent, startRedis, temporaryFolder } from '../helper.js'
import { ALL, append } from './writes.js'

/** Formats of versions before the first release, which recorded none, and of a later version. */
const FORMATS = [undefined, 2]
const whose = (format: number | undefined) => (format === undefined ? 'another version' : 'a newer version')

for (const format of FORMATS) {
  t.test(`lmdb: a journal of format ${format} is refused and left as it is`, async (t) => {
    const path = await temporaryFolder(t)
    const journal = await openLmdbJournal({ path, maxBytes: ALL })
    await journal.write([append('waits')])
    await journal.close()
    const change = async (value: unknown) => {
      const root = open({ path, maxDbs: 16 })
      const meta = root.openDB<Record<string, unknown>, string>({ name: 'meta', encoding: 'json' })
      await meta.put('meta', { ...meta.get('meta'), format: value })
      await root.close()
    }
    await change(format)
    const refused = {
      name: 'OtherVersionError',
      message: `The journal in ${path} was made by ${whose(format)} of Tallyhouse. `,
    }
    await t.rejects(openLmdbJournal({ path, maxBytes: ALL }), refused)
    const relocation = openLmdbRelocation({ path })
    await t.rejects(relocation.readStatus(), refused)
    await relocation.close()
    await change(1)
    const again = await openLmdbJournal({ path, maxBytes: ALL })
    t.equal((await again.depth()).entries, 1)
    await again.close()
  })

  t.test(`redis: a journal of format ${format} is refused and left as it is`, async (t) => {
    const { url } = await startRedis(t)
    const prefix = '{j}'
    const admin = new Redis(url)
    t.teardown(() => admin.disconnect())
    const journal = await openRedisJournal({ url, maxBytes: ALL, prefix, log: silent })
    await journal.write([append('waits')])
    await journal.close()
    await (format === undefined ? admin.hdel(`${prefix}:meta`, 'format') : admin.hset(`${prefix}:meta`, { format }))
    const refused = { name: 'OtherVersionError', message: `The journal in Redis was made by ${whose(format)} ` }
    await t.rejects(openRedisJournal({ url, maxBytes: ALL, prefix, log: silent }), refused)
    const relocation = await openRedisRelocation({ url, prefix, log: silent })
    await t.rejects(relocation.readStatus(), refused)
    await relocation.close()
    await admin.hset(`${prefix}:meta`, { format: 1 })
    const again = await openRedisJournal({ url, maxBytes: ALL, prefix, log: silent })
    t.equal((await again.depth()).entries, 1)
    await again.close()
  })
}
