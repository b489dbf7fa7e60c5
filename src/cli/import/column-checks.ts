import { quote } from './find-text-fault.js'
import { type FieldNames, OWN_NAMES } from './native-rows.js'
import type { InputOptions } from './options.js'

/** Delimiters to suggest if a table seems to have a single column. */
const DELIMITERS = [',', ';', '\t', '|']
const SHOWN_NAMES = 20
const SHOWN_NAME = 60

/**
 * Checks that a table has the columns that the options name, and those that every event needs.
 * @param beginning of the input's text
 * @throws Error with a sentence for the user
 */
export function checkColumns(columns: string[], beginning: Buffer, options: InputOptions, input: string): void {
  const { names, types, event } = options
  const mapped = mappedFields(names).find(([, column]) => !columns.includes(column))
  const typed = Object.keys(types).find((column) => !columns.includes(column))
  const needed = (['event', 'distinct_id'] as const).filter((field) => field !== 'event' || event === undefined)
  const lacking = needed.find((field) => !columns.includes(names[field]))
  if (!mapped && typed === undefined && lacking === undefined) return
  checkDelimiter(columns, beginning, options, input)
  const has = `Its columns are ${listed(columns)}.`
  if (mapped) throw new Error(`${input} has no column "${mapped[1]}", which --map names. ${has}`)
  if (typed !== undefined) throw new Error(`${input} has no column "${typed}", which --types names. ${has}`)
  const hint =
    lacking === 'event'
      ? 'Name the column with --map event=COLUMN, or the event of all rows with --event NAME.'
      : `Name the column with --map ${lacking}=COLUMN.`
  throw new Error(`${input} has no column "${lacking}". ${has} ${hint}`)
}

/**
 * Checks that a table has more than one column, as all tables of events have.
 * @throws Error that names the delimiter which would give more
 */
export function checkDelimiter(columns: string[], beginning: Buffer, options: InputOptions, input: string): void {
  if (columns.length === 1) throw new Error(oneColumn(beginning, options.delimiter, input))
}

/**
 * Checks that each JSON field that the options map is in some row.
 * @param fields of the rows in the input's head
 * @throws Error with a sentence for the user
 */
export function checkFields(fields: readonly string[], names: FieldNames, input: string): void {
  const missing = mappedFields(names).find(([, name]) => !fields.includes(name))
  if (!missing) return
  throw new Error(
    `No row of ${input} has the field "${missing[1]}", which --map names. The fields are ${listed(fields)}.`,
  )
}

function mappedFields(names: FieldNames): [field: string, name: string][] {
  return Object.entries(names).filter(([field, name]) => name !== OWN_NAMES[field as keyof FieldNames])
}

function oneColumn(beginning: Buffer, delimiter: string, input: string): string {
  const [header = ''] = beginning.toString().trimStart().split(/\r?\n/, 1)
  const [best] = DELIMITERS.filter((char) => char !== delimiter && header.includes(char))
    .map((char) => ({ char, count: header.split(char).length }))
    .sort((one, other) => other.count - one.count)
  const hint = /^sep=.$/i.test(header)
    ? 'remove its first line, which only names the delimiter'
    : best
      ? `--delimiter ${best.char === '\t' ? 'tab' : `'${best.char}'`} would give ${best.count}`
      : 'name its delimiter with --delimiter, if it is CSV. Other formats are NDJSON and a JSON array'
  return `As CSV, ${input} has only one column: ${hint}. It begins with ${quote(beginning)}.`
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map((name) => JSON.stringify(name.slice(0, SHOWN_NAME)))
  return `${shown.join(', ')}${names.length > shown.length ? ` and ${names.length - shown.length} more` : ''}`
}
