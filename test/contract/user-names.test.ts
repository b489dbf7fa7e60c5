import t from 'tap'
import { canLink, groupName, isPlaceholder, isReserved } from '../../src/contract/user-names.js'

t.test('isReserved refuses names of groups, visitors and nobody', async (t) => {
  for (const name of ['$anonymous', '$group:', groupName('company', 'acme'), '$visitor:2026-01-01:x']) {
    t.ok(isReserved(name), name)
    t.notOk(canLink(name), name)
  }
  for (const name of ['$Anonymous', ' $anonymous', 'anonymous$', '$groups', '$visitor', 'x$group:a', '$device:1', '']) {
    t.notOk(isReserved(name), name)
  }
})

t.test('isPlaceholder recognises placeholders in any case, with white space around them and in quotes', async (t) => {
  const texts = [
    ...['undefined', 'null', 'None', 'nil', 'NaN', '[object Object]', '0', '-1', 'true', 'false', 'anonymous', 'guest'],
    ...[
      'unknown',
      'n/a',
      'NA',
      '(null)',
      '<nil>',
      '[]',
      '{}',
      'not set',
      '(not set)',
      'not_authenticated',
      'distinct_id',
    ],
    ...['00000000-0000-0000-0000-000000000000', '0'.repeat(32), '{00000000-0000-0000-0000-000000000000}'],
    ...['0'.repeat(15), '00:00:00:00:00:00', 'not  set'],
    ...['0.00', '-0.0', '+0', '0e5', '-1.0', 'inf', '<NA>', '#N/A', '\\N'],
    // A device without an id, as Mixpanel's SDKs name it.
    ...['$device:', '$device:undefined', '$device:00000000-0000-0000-0000-000000000000', '$device: "null"'],
  ]
  for (const text of texts) {
    for (const name of [
      text,
      text.toUpperCase(),
      text.toLowerCase(),
      ` ${text}\n`,
      `\u00a0${text}\u200b`,
      `"${text}"`,
      `' ${text} '`,
    ])
      t.ok(isPlaceholder(name), JSON.stringify(name))
  }
  for (const name of [
    '',
    ' ',
    '\t\r\n',
    '\u00a0',
    '\u200b\u200d',
    '\ufeff',
    '\u3000',
    '\u2060',
    '\u0000',
    '""',
    "''",
    '\u3164',
  ]) {
    t.ok(isPlaceholder(name), JSON.stringify(name))
  }
})

t.test('isPlaceholder accepts names that only resemble placeholders', async (t) => {
  const names = [
    ...[
      'nullable',
      'guest-1',
      'user-0',
      '00',
      '0.5',
      '0e',
      '$device:1',
      '$device:undefined-1',
      'info',
      '1',
      '-2',
      'Nilsson',
      'trueman',
      'ada',
      'null@example.com',
      'anonymous-7f3a',
    ],
    ...['00000000-0000-0000-0000-000000000001', '😀', '漢字', 'x'.repeat(255), ' a ', '"ada"', "o'hara", '0000'],
  ]
  for (const name of names) {
    t.notOk(isPlaceholder(name), name)
    t.ok(canLink(name), name)
  }
})
