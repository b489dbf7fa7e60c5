import t from 'tap'
import { withoutNamed } from '../../src/model/rejected.js'

const found = (message: string, ...names: string[]) => {
  const messages = [{ reason: 'no event', message }]
  const { users, left } = withoutNamed({ reason: '', messages }, new Set(names))
  t.equal(left.length, users.size > 0 ? 0 : 1)
  return [...users]
}

t.test(
  'a message names a user with a string anywhere, or a number, as it is spelled, in a field for names',
  async (t) => {
    for (const [message, name] of [
      ['{"userId":"ada"}', 'ada'],
      ['{"context":{"traits":[{"id":"\\u0061da"}]}}', 'ada'],
      ['"ada"', 'ada'],
      ['{"userId":42}', '42'],
      ['{"userId": 42.0 }', '42.0'],
      ['{"batch":[{"user_id":-1e3}]}', '-1e3'],
      ['{"userId":12345678901234567890}', '12345678901234567890'],
      ['{"userId":"ada","userId":"bob"}', 'ada'],
      ['{"properties":{"$distinct_ids":["ada",[{}],42]}}', '42'],
      [`{"userId":${'['.repeat(100_000)}42${']'.repeat(100_000)}}`, '42'],
      ['userId=ada&n=1', 'ada'],
    ] as const) {
      t.strictSame(found(message, name, 'eve'), [name], message.slice(0, 50))
    }
  },
)

t.test('a message does not name a user with a field, a part of a value, a literal or any other number', async (t) => {
  for (const [message, name] of [
    ['{"ada":1}', 'ada'],
    ['{"userId":"adalbert"}', 'ada'],
    ['{"userId":420}', '42'],
    ['{"userId":42.0}', '42'],
    ['{"userId":"bob","price":42}', '42'],
    ['{"userId":[{"price":42},"bob"],"prices":[42]}', '42'],
    ['[42]', '42'],
    ['{"userId":null}', 'null'],
    ['{"userId":true}', 'true'],
    ['{"userId":{}}', '{}'],
    ['[]', '[]'],
  ] as const) {
    t.strictSame(found(message, name), [], message)
  }
})
