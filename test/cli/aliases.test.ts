import t from 'tap'
import { runCommand } from './command-line.js'
import { projectOfCommands } from './project-of-commands.js'

t.test('aliases lists an alias, and removes it after a confirmation', async (t) => {
  const client = await projectOfCommands()
  const run = (...args: string[]) => client.run(['aliases', ...args])
  for (const alias of ['device/7', 'tablet\u001b[2J']) {
    await client.call('POST', '/public/users/alias', { distinct_id: 'ada', alias })
  }
  const listed = await run('list', '--distinct-id', 'ada')
  t.match(listed, { code: 0, stderr: '' })
  t.strictSame(listed.stdout.split('\n').sort(), ['', 'device/7', 'tablet\ufffd[2J'], 'in any order')
  const { stdout, stderr } = await run('list', '--distinct-id', 'device/7', '--json')
  const { aliases, ...rest } = JSON.parse(stdout)
  t.strictSame(aliases.sort(), ['device/7', 'tablet\u001b[2J'])
  t.strictSame(rest, { distinct_id: 'ada', hasMore: false })
  t.match(stderr, 'device/7 is an alias of ada.')

  const remove = ['remove', '--distinct-id', 'ada', '--alias', 'device/7']
  t.match(await run(...remove), { code: 1, stderr: /would be a separate user again.*--yes/ })
  t.match((await run('list', '--distinct-id', 'ada')).stdout, 'device/7')
  t.match(await run(...remove, '--yes'), { code: 0, stderr: 'device/7 is a separate user again, apart from ada.' })
  t.notMatch((await run('list', '--distinct-id', 'ada')).stdout, 'device/7')
  t.match(await run(...remove), { code: 1, stderr: /has no such alias/ }, 'also without --yes')
  const again = await run(...remove, '--yes')
  t.equal(again.code, 1)
  t.notMatch(again.stderr, 'is a separate user again')
  t.match(await run('list', '--distinct-id', 'nobody'), { code: 0, stdout: '', stderr: 'nobody has no aliases.' })
  const climb = await run('remove', '--distinct-id', 'ada', '--alias', '..', '--yes')
  t.match(climb, { code: 1, stderr: /cannot be used as an id/ })
})

t.test('aliases explains missing and misspelled arguments', async (t) => {
  for (const [args, message] of [
    [[], /list or remove/],
    [['unlink'], /list or remove/],
    [['list'], /--distinct-id/],
    [['remove', '--distinct-id', 'ada', '--yes'], /--alias/],
    [['list', '--distinct-id', 'ada', '--alias', 'x'], /--alias/],
  ] as const) {
    const { code, stderr } = await runCommand(['aliases', ...args])
    t.equal(code, 2, args.join(' '))
    t.match(stderr, message)
  }
})
