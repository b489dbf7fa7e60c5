import t from 'tap'
import { Greeting } from '../../src/process/greeting.js'

const { log } = console
t.teardown(() => {
  console.log = log
})

/** What is printed once the service listens. */
async function printed(
  ROLE: 'all' | 'api' | 'writer',
  address: string,
  keys: { SECRET_KEY?: string } = { SECRET_KEY: 'sk_of_the_environment' },
): Promise<string> {
  const lines: string[] = []
  console.log = (line: string) => lines.push(line)
  const greeting = new Greeting({ ROLE, LANES: 1, CLICKHOUSE_URL: 'http://db', ...keys })
  greeting.onKeys({ valid: 1, hasSecret: keys.SECRET_KEY !== undefined, makeFirst: null })
  await greeting.print({ address, family: address.includes(':') ? 'IPv6' : 'IPv4', port: 3000 })
  console.log = log
  return lines.join('\n')
}

t.test('a start prints the address of the page, unless the process has no API', async (t) => {
  t.match(await printed('all', '127.0.0.1'), 'See your events at http://127.0.0.1:3000/\n')
  t.match(await printed('all', '127.0.0.1'), 'create a write key at http://127.0.0.1:3000/#/settings')
  t.match(await printed('api', '0.0.0.0'), 'See your events at http://127.0.0.1:3000/\n', 'the wildcard works here')
  t.match(await printed('all', '2001:db8::1'), 'See your events at http://[2001:db8::1]:3000/\n')
  t.notMatch(await printed('writer', '127.0.0.1'), /See your events|For a website/)
})

t.test('a start with only a public key says what is missing', async (t) => {
  const output = await printed('all', '127.0.0.1', {})
  t.match(
    output,
    /no secret key.*\. Set SECRET_KEY, or create a key with: npx tallyhouse keys create --project default/,
  )
  t.notMatch(output, /created before/)
})
