import t from 'tap'
import { AliasBody, IdentifyBody, TrackBody } from '../../src/contract/schemas.js'
import { compileCheck } from '../../src/contract/validation.js'

const event = { event: 'e', distinct_id: 'ada' }

t.test('an error names only the rule that the value breaks', async (t) => {
  const name = 'must be a string of 1 to 255 characters'
  const reserved = /^must be the name of a user: .* are reserved$/
  for (const [schema, body, message] of [
    [TrackBody, { distinct_id: 'ada' }, `is required and ${name}`],
    [TrackBody, { ...event, event: 5 }, name],
    [TrackBody, { ...event, event: '' }, name],
    [TrackBody, { ...event, event: 'e'.repeat(256) }, name],
    [TrackBody, { ...event, event: 'e\ud83d' }, 'must not contain unpaired surrogates'],
    [TrackBody, { ...event, insert_id: 5 }, `${name}, or absent`],
    [TrackBody, { ...event, insert_id: '\udc00' }, 'must not contain unpaired surrogates'],
    [TrackBody, { ...event, timestamp: 'now' }, /^must be a number of milliseconds .* to 9999999999999, or absent$/],
    [
      TrackBody,
      { ...event, timestamp: 1_700_000_000 },
      'must be in milliseconds, but looks like seconds: multiply it by 1000',
    ],
    [TrackBody, { ...event, properties: [] }, 'must be an object, or absent'],
    [IdentifyBody, {}, `is required and ${name}`],
    [IdentifyBody, { distinct_id: '$group:a:b' }, reserved],
    [AliasBody, { distinct_id: 'ada', alias: '$anonymous' }, reserved],
    [AliasBody, { distinct_id: 'ada', alias: 'undefined' }, /clients send this if they have no id/],
    [AliasBody, { distinct_id: 'ada', alias: '\ud83d' }, 'must not contain unpaired surrogates'],
  ] as const) {
    t.match(compileCheck(schema, null)(body)?.details, [{ message }], JSON.stringify(body))
  }
})
