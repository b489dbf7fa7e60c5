import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { CsvReader } from '../../../src/cli/import/csv.js'

interface Found {
  cells: (string[] | null)[]
  strays: number
}

/** The rows of a table, read in pieces of these sizes; null for a row that is rejected. */
function readTable(text: string | Buffer, { sizes = [1 << 20], hasStrays = false, delimiter = ',' } = {}): Found {
  const bytes = Buffer.from(text)
  const reader = new CsvReader({ offset: 0, line: 0 }, { delimiter, hasStrays, types: new Map() }, null)
  const cells: Found['cells'] = []
  const take = (rows: ReturnType<CsvReader['read']>) => {
    for (const { table, isEmpty } of rows) {
      cells.push(isEmpty ? [] : table === null ? null : Object.values(JSON.parse(table) as Record<string, string>))
    }
  }
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const end = at + (sizes[i % sizes.length] ?? 1)
    take(reader.read(bytes.subarray(at, end)))
    at = end
  }
  take(reader.end())
  return { cells, strays: reader.strays }
}

const HEADER = 'a,b,c,d\n'

t.test('a cell that begins with an inch mark is read literally', (t) => {
  const rows = Array.from({ length: 3_000 }, (_, i) => [`e${i}`, 'u', i % 3 === 0 ? '"27 inch' : 'x', String(i)])
  const { cells, strays } = readTable(HEADER + rows.map((row) => `${row.join()}\n`).join(''))
  t.strictSame(cells, rows)
  t.equal(strays, 1000)
  t.end()
})

t.test('a stray quote costs at most its own row', (t) => {
  for (const [line, wanted] of [
    ['e,u,"27 inch,4', ['e', 'u', '"27 inch', '4']],
    ['e,u,27",4', ['e', 'u', '27"', '4']],
    ['e,u,"27" wide,4', ['e', 'u', '"27" wide', '4']],
    ['e,u,",4', ['e', 'u', '"', '4']],
    ['e,u,4,"', ['e', 'u', '4', '"']],
    ['"e,u,x,4"', ['"e', 'u', 'x', '4"']],
    ['e,"27 inch,30",4', ['e', '"27 inch', '30"', '4']],
    ['e,u,"a ""b"" c,4', ['e', 'u', '"a ""b"" c', '4']],
    ['e,u,"27 inch, wide,4', null],
    ['e,"u', null],
  ] as const) {
    const good = ['x', '"y, ""z""\nw"', '', '1']
    const { cells } = readTable(`${HEADER}${good.join()}\r\n${line}\r\n${good.join()}\n`)
    const read = ['x', 'y, "z"\nw', '', '1']
    t.strictSame(cells, [read, wanted, read], line)
  }
  t.end()
})

t.test('two stray quotes in different rows do not swallow the rows between them', (t) => {
  const plain = (n: number) => Array.from({ length: n }, (_, i) => ['e', 'u', String(i), 'y'])
  for (const between of [1, 2, 500]) {
    const rows = [['e', 'u', '"27 inch', 'y'], ...plain(between), ['e', 'u', '30"', 'y'], ...plain(3)]
    t.strictSame(readTable(HEADER + rows.map((row) => `${row.join()}\n`).join('')).cells, rows, `${between} between`)
  }
  const next = `${HEADER}e,u,"27 inch,y\ne,u,30",y\n`
  t.equal(readTable(next).cells.length, 1, 'two lines may be one cell')
  t.strictSame(
    readTable(next, { hasStrays: true }).cells,
    [
      ['e', 'u', '"27 inch', 'y'],
      ['e', 'u', '30"', 'y'],
    ],
    'unless the table has stray quotes elsewhere',
  )
  t.end()
})

t.test('a record of several lines with the wrong number of cells is one bad row', (t) => {
  const { cells } = readTable(`${HEADER}e,u,"some\ntext\n",4,5\ne,u,3,4\n`)
  t.strictSame(cells, [null, ['e', 'u', '3', '4']])
  t.end()
})

t.test('empty cells beyond the columns are ignored', (t) => {
  const rows = readTable('a;b;c;;;\r\n1;2;3;;;\r\n1;2;3\r\n1;2;;;;;;;;\r\n;;;;;\r\n1;2;3;;5\r\n', {
    delimiter: ';',
  }).cells
  t.strictSame(rows, [['1', '2', '3'], ['1', '2', '3'], ['1', '2', ''], [], null])
  t.end()
})

const text = fc.string({
  unit: fc.constantFrom('a', 'ü', '😀', ',', '"', '\n', '\r\n', ' ', ';', '7'),
  maxLength: 12,
})
const quoted = (cell: string) => (/[",\n\r]/.test(cell) || cell === '' ? `"${cell.replaceAll('"', '""')}"` : cell)
const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 })
const column = (at: number) => fc.tuple(fc.constant(`n${at}`), text).map(([name, rest]) => name + rest)

t.test('a valid RFC 4180 table is read exactly, wherever its chunks end', (t) => {
  const table = fc.array(fc.tuple(column(0), text, text, text, text), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(table, sizes, fc.constantFrom('\n', '\r\n'), (rows, sizes, end) => {
      const lines = ['a,b,c,d,e', ...rows.map((row) => row.map(quoted).join())].join(end)
      const { cells, strays } = readTable(lines + end, { sizes })
      assert.deepEqual(cells, rows)
      assert.equal(strays, 0)
    }),
    { numRuns: 150 },
  )
  t.end()
})

t.test('stray quotes anywhere: at most their own rows are lost, and every line is a row', (t) => {
  const word = fc.string({ unit: fc.constantFrom('a', 'ü', ' ', ';', '7'), minLength: 1, maxLength: 6 })
  const row = fc.tuple(word, word, word, word, word)
  const stray = fc.record({ row: fc.nat(), cell: fc.nat({ max: 4 }), at: fc.nat({ max: 6 }) })
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 5, maxLength: 20 }),
      fc.array(stray, { minLength: 1, maxLength: 6 }),
      sizes,
      (rows, strays, sizes) => {
        const cells = rows.map((row, i) => [`n${i}`, ...row])
        const touched = new Set<number>()
        for (const { row, cell, at } of strays) {
          const i = row % rows.length
          const old = cells[i]?.[cell + 1] ?? ''
          ;(cells[i] as string[])[cell + 1] = `${old.slice(0, at)}"${old.slice(at)}`
          touched.add(i)
        }
        const lines = `n,a,b,c,d,e\n${cells.map((row) => `${row.join()}\n`).join('')}`
        const whole = readTable(lines, { hasStrays: true })
        assert.equal(whole.cells.length, rows.length)
        for (const [i, row] of cells.entries()) if (!touched.has(i)) assert.deepEqual(whole.cells[i], row)
        assert.deepEqual(readTable(lines, { sizes, hasStrays: true }), whole)
      },
    ),
    { numRuns: 150 },
  )
  t.end()
})

/** Counts the bytes that are searched or decoded while a function runs. */
function workOf(run: () => void): number {
  const { indexOf, toString: textOf } = Buffer.prototype
  let bytes = 0
  Buffer.prototype.indexOf = function (this: Buffer, ...args: Parameters<Buffer['indexOf']>) {
    const found = Reflect.apply(indexOf, this, args) as number
    bytes += (found === -1 ? this.length : found) - Number(args[1] ?? 0)
    return found
  } as Buffer['indexOf']
  Buffer.prototype.toString = function (this: Buffer, ...args: Parameters<Buffer['toString']>) {
    bytes += (args[2] ?? this.length) - (args[1] ?? 0)
    return Reflect.apply(textOf, this, args) as string
  }
  try {
    run()
  } finally {
    Object.assign(Buffer.prototype, { indexOf, toString: textOf })
  }
  return bytes
}

t.test('CsvReader takes linear time with any quotes', (t) => {
  const kinds: Record<string, (i: number) => string> = {
    none: () => 'x',
    'one at the beginning': (i) => (i === 0 ? '"27 inch' : 'x'),
    each: () => '"27 inch',
    'each, doubled': () => '"""27 inch',
    'one, then empty cells': (i) => (i === 0 ? '"x' : '""'),
    'some at the end': (i) => (i % 7 === 0 ? '"27 inch' : i % 7 === 3 ? '30"' : 'x'),
  }
  for (const [name, cell] of Object.entries(kinds)) {
    const table = (rows: number) => HEADER + Array.from({ length: rows }, (_, i) => `e,u,${cell(i)},y\n`).join('')
    for (const sizes of [[65_536], [100]]) {
      const large = table(8_000)
      const work = workOf(() => readTable(large, { sizes }))
      t.ok(work < 12 * large.length, `${name}: ${(work / large.length).toFixed(1)} times the bytes`)
    }
  }
  t.end()
})
