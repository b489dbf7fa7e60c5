import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { type CellTypeName, cellText, guessType } from '../../../src/cli/import/cell-types.js'
import { localMilliseconds } from '../../../src/cli/import/local-time.js'
import { guessTimeFormat, timeText } from '../../../src/cli/import/row-times.js'

t.test('guessType returns the common type of all cells', (t) => {
  const columns: [CellTypeName, string[]][] = [
    ['number', ['1', '2.5', '-3', '0', '1e3', '0.10', ' 7 ']],
    ['number', ['123456789012345']],
    ['boolean', ['true', 'FALSE', 'True']],
    ['date', ['2024-01-02', '2024-01-02T03:04:05Z', '2024-01-02 03:04']],
    ['text', []],
    ['text', ['1', 'x']],
    ['text', ['1', 'true']],
    ['text', ['01234', '98765']],
    ['text', ['0049', '1']],
    ['text', ['-07']],
    ['text', ['1234567890123456']],
    ['text', ['12345678901234567890']],
    ['text', ['0.12345678901234567890']],
    ['text', ['1.70E+12']],
    ['text', ['1e999']],
    ['text', ['+4912345']],
    ['text', ['1,5']],
    ['text', ['1.', '.5']],
    ['text', ['NaN']],
    ['text', ['0x10']],
    ['text', ['yes', 'no']],
    ['text', ['02/03/2024']],
    ['text', ['2024-02-31']],
    ['text', ['2024-01-02', '3']],
  ]
  for (const [type, cells] of columns) t.equal(guessType(cells), type, cells.join(' '))
  t.end()
})

t.test('cellText converts a cell to its type', (t) => {
  const given = (name: CellTypeName, zone?: string) => ({ name, isGiven: true, zone })
  const guessed = (name: CellTypeName) => ({ name, isGiven: false })
  for (const [cell, type, wanted] of [
    ['1.50', guessed('number'), '1.50'],
    [' 7 ', guessed('number'), '7'],
    ['007', guessed('number'), null],
    ['007', given('number'), '7'],
    ['+1', given('number'), '1'],
    ['-.5', given('number'), '-0.5'],
    ['00', given('number'), '0'],
    ['1.', given('number'), null],
    ['12345678901234567890', given('number'), '12345678901234567890'],
    ['1e999', given('number'), null],
    ['TRUE', guessed('boolean'), 'true'],
    ['yes', guessed('boolean'), null],
    ['yes', given('boolean'), 'true'],
    ['0', given('boolean'), 'false'],
    ['maybe', given('boolean'), null],
    ['2024-07-01', guessed('date'), '"2024-07-01"'],
    ['2024-07-01 12:00', given('date', 'Europe/Berlin'), '"2024-07-01T10:00:00.000Z"'],
    ['2024-07-01', given('date'), '"2024-07-01T00:00:00.000Z"'],
    ['soon', given('date'), null],
    ['12', given('text'), '"12"'],
  ] as const) {
    t.equal(cellText(cell, type), wanted, `${cell} as a ${type.name}`)
  }
  t.end()
})

t.test('a cell guessed to be a number keeps its value and spelling', (t) => {
  const cell = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.string({ unit: fc.constantFrom(...'0123456789.-+eE ,') }),
  )
  fc.assert(
    fc.property(fc.array(cell, { minLength: 1, maxLength: 5 }), (cells) => {
      if (guessType(cells) !== 'number') return
      for (const cell of cells) {
        const text = cellText(cell, { name: 'number', isGiven: false })
        assert.equal(text, cell.trim())
        assert.equal(JSON.parse(text), Number(cell))
      }
    }),
    { numRuns: 300 },
  )
  t.end()
})

t.test('guessTimeFormat detects the format from the values', (t) => {
  const guess = (...texts: string[]) =>
    guessTimeFormat(texts.map((text, i) => ({ text: JSON.stringify(text), line: i + 1 })))
  for (const [format, times] of [
    ['s', ['1700000000', '1700000001.5']],
    ['ms', ['1700000000000', '1700000000001.25']],
    ['us', ['1700000000000000']],
    ['ns', ['1700000000000000000']],
    ['iso', ['2024-01-02 03:04:05 UTC', '2024-01-02 03:04:05.123456 UTC']],
    ['iso', ['2024-01-02', '2024-01-02T03:04:05+02:00']],
    ['ms', [...Array(20).fill('1700000000000'), '5']],
    [undefined, []],
    [undefined, ['yesterday']],
    [undefined, ['1.70E+12']],
  ] as const) {
    t.equal(guess(...times), format, times.slice(0, 2).join(' '))
  }
  t.throws(() => guess('5', '6'), { message: /before 1973 in milliseconds: --time s reads seconds, --time ms/ })
  t.throws(() => guess('1700000000', '1700000000000'), { message: /several formats.*line 1.*line 2.*--time/ })
  t.end()
})

t.test('timeText converts a time, or refuses it by name', (t) => {
  const read = (text: string, format: Parameters<typeof timeText>[1], zone?: string) =>
    timeText(JSON.stringify(text), format, zone, true)
  t.equal(read('1700000000', 's'), '1700000000000')
  t.equal(read('1700000000123456', 'us'), '1700000000123')
  t.equal(read('1700000000123456789', 'ns'), '1700000000123')
  t.equal(read('1704164645123456', 'us'), '1704164645123')
  t.equal(read('2024-01-02 03:04:05 UTC', 'iso'), '1704164645000')
  t.equal(read('2024-01-02 03:04:05.123456 UTC', 'iso'), '1704164645123')
  t.equal(read('2024-01-02 03:04:05 UTC', 'iso', 'Europe/Berlin'), '1704164645000', 'a zone in the time comes first')
  t.equal(read('2024-01-02 03:04:05', 'iso', 'Europe/Berlin'), '1704161045000')
  t.equal(read('1.7000000000001E+12', 'ms'), '1700000000000.1', 'all digits are there')
  for (const format of ['s', 'ms', 'us'] as const) {
    for (const text of ['1.70E+12', '1,70E+12', '1.7e+15', '2E+9']) {
      t.throws(() => read(text, format), { message: /scientific notation.*Excel/ }, `${text} as ${format}`)
    }
  }
  for (const text of ['yesterday', '02/01/2024', '2024-13-01', '']) {
    t.throws(() => read(text, 'iso', 'Europe/Berlin'), { message: /is not an ISO 8601 time/ }, text)
  }
  t.end()
})

t.test('localMilliseconds converts local times', (t) => {
  const at = (text: string, zone: string) => {
    const ms = localMilliseconds(text, zone)
    return ms === null ? null : new Date(ms).toISOString()
  }
  t.equal(at('2024-01-15 12:00', 'Europe/Berlin'), '2024-01-15T11:00:00.000Z')
  t.equal(at('2024-07-15 12:00:00.25', 'Europe/Berlin'), '2024-07-15T10:00:00.250Z')
  t.equal(at('2024-03-31 02:30', 'Europe/Berlin'), '2024-03-31T01:30:00.000Z', 'does not exist')
  t.equal(at('2024-10-27 02:30', 'Europe/Berlin'), '2024-10-27T00:30:00.000Z', 'exists twice')
  t.equal(at('2024-10-27 03:00', 'Europe/Berlin'), '2024-10-27T02:00:00.000Z')
  t.equal(at('2024-07-15', 'America/New_York'), '2024-07-15T04:00:00.000Z')
  t.equal(at('2024-07-15 12:00', 'Asia/Kathmandu'), '2024-07-15T06:15:00.000Z')
  t.equal(at('1900-01-01', 'Europe/Berlin'), '1899-12-31T23:00:00.000Z')
  t.equal(at('soon', 'Europe/Berlin'), null)
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4e12 }),
      fc.constantFrom('Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'UTC'),
      (ms, zone) => {
        const instant = Math.floor(ms / 1000) * 1000
        const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
        const found = localMilliseconds(format.format(instant), zone) ?? Number.NaN
        // The first of the two, because the clock was set back.
        assert.equal(format.format(found), format.format(instant))
        assert.ok(found <= instant)
      },
    ),
    { numRuns: 200 },
  )
  t.end()
})
