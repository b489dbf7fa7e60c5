import { readdirSync, readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import t from 'tap'
import { Script } from '../../../src/journal/redis/script.js'
import * as scripts from '../../../src/journal/redis/scripts.js'
import { startRedis } from '../../helper.js'

const ALL = Object.entries(scripts).flatMap(([name, script]): [string, Script][] =>
  script instanceof Script ? [[name, script]] : [],
)
const FOLDER = 'src/journal/redis/scripts'

t.test('Redis compiles every script, for one server and for a cluster', async (t) => {
  const redis = new Redis((await startRedis(t)).url)
  t.teardown(() => redis.disconnect())
  for (const [name, { single, cluster }] of ALL) {
    for (const { text, digest } of [single, cluster]) t.equal(await redis.script('LOAD', text), digest, name)
  }
})

t.test('every file of the folder is a script', async (t) => {
  const files = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isFile())
  t.strictSame(
    files.map(({ name }) => name.replace('.lua', '').replaceAll('-', '_').toUpperCase()).sort(),
    ALL.map(([name]) => name).sort(),
  )
})

t.test('the scripts read all keys and arguments that they are passed', async (t) => {
  for (const [name, { keys, args, single }] of ALL) {
    for (let i = 1; i <= keys.length; i++) {
      // A key that a script does not read only chooses the slot.
      if (keys.length > 1) t.ok(single.text.includes(`KEYS[${i}]`), `${name}: ${keys[i - 1]}`)
    }
    for (let i = 1; i <= args.length; i++) t.ok(single.text.includes(`ARGV[${i}]`), `${name}: ${args[i - 1]}`)
  }
})

t.test('a script with a name that is not defined is refused', async (t) => {
  const names = { records: {}, constants: {} }
  t.throws(() => new Script('shrink', { keys: ['meta'], args: ['frozen'] }, names), /unknown name: ARGV.shrunk/)
  t.match(readFileSync(`${FOLDER}/shrink.lua`, 'utf8'), /ARGV\.shrunk/)
})
