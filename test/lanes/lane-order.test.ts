import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import { openJournal } from '../../src/lanes/open-journal.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { silent, startRedis } from '../helper.js'

t.test(
  'a changed order of REDIS_URL stops the start, because it would create new lanes and forget the old ones',
  async (t) => {
    const [first, second] = await Promise.all([startRedis(t), startRedis(t)])
    const shards = new Shards([])
    const open = async (urls: string[], lane: number) => {
      const config = loadConfig({ LANES: String(urls.length), REDIS_URL: urls.join(',') })
      return await openJournal(config, silent as never, shards, { lane, layout: 1, home: 0 })
    }
    const urls = [first.url, second.url]
    const ids: number[] = []
    for (const lane of [0, 1]) {
      const journal = await open(urls, lane)
      ids.push(journal.id)
      await journal.write([
        {
          type: 'append',
          keyClass: 'secret',
          projectId: 'p',
          count: 1,
          body: Buffer.from('{"events":[{}]}'),
          ids: NO_IDS,
        },
      ])
      await journal.close()
    }
    for (const lane of [0, 1]) await t.rejects(open(urls.toReversed(), lane), /order of REDIS_URL/, `lane ${lane}`)
    for (const lane of [0, 1]) {
      const journal = await open(urls, lane)
      t.equal(journal.id, ids[lane], 'in the right order they are the same')
      await journal.close()
    }
    const together = await startRedis(t)
    for (const lane of [0, 1]) await (await open([together.url, together.url], lane)).close()
  },
)
