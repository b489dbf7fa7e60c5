import t from 'tap'
import { withoutNamed } from '../../src/model/rejected.js'

const found = (message: string, ...names: string[]) => {
  const messages = [{ reason: 'no event', message }]
  const { users, left } = withoutNamed({ reason: '', messages }, new Set(names))
  t.equal(left.length, users.size > 0 ? 0 : 1)
  return [...users]
}

t.test('a message names a user in any field, with a string or a number as it is spelled', async (t) => {
  for (const [message, name] of [
    ['{"userId":"ada"}', 'ada'],
    ['{"context":{"traits":[{"id":"\\u0061da"}]}}', 'ada'],
    ['"ada"', 'ada'],
    ['{"userId":42}', '42'],
    ['{"userId": 42.0 }', '42.0'],
    ['{"batch":[{"user_id":-1e3}]}', '-1e3'],
    ['{"userId":12345678901234567890}', '12345678901234567890'],
    ['{"userId":"ada","userId":"bob"}', 'ada'],
    [`${'['.repeat(100_000)}42${']'.repeat(100_000)}`, '42'],
    ['userId=ada&n=1', 'ada'],
  ] as const) {
    t.strictSame(found(message, name, 'eve'), [name], message.slice(0, 50))
  }
})

t.test('a message does not name a user with a field, a part of a value or a literal', async (t) => {
  for (const [message, name] of [
    ['{"ada":1}', 'ada'],
    ['{"userId":"adalbert"}', 'ada'],
    ['{"userId":420}', '42'],
    ['{"userId":42.0}', '42'],
    ['{"userId":null}', 'null'],
    ['{"userId":true}', 'true'],
    ['{"userId":{}}', '{}'],
    ['[]', '[]'],
  ] as const) {
    t.strictSame(found(message, name), [], message)
  }
})
