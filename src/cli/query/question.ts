import { Kind } from '@sinclair/typebox'
import { type Schema, withoutNull } from '../../contract/fields.js'
import { COUNTING, SeriesDefinition } from '../../contract/question-schemas.js'
import { parseOptions, UsageError } from '../command.js'
import { TARGET_OPTIONS } from '../target.js'

/** Options of the command itself. Every other option is part of a question. */
const COMMAND = { ...TARGET_OPTIONS, format: { type: 'string' } } as const

/** Fields of a series, without `where`, which is an option of the question. */
const { where: _, ...SERIES } = SeriesDefinition.properties as Record<string, Schema>
const KINDS: Record<string, Record<string, Schema>> = Object.fromEntries(
  Object.entries(COUNTING).map(([kind, { properties }]) => [kind, properties]),
)

/**
 * An option, and the fields with its name by the kinds of question that have them; kinds with the same field share an
 * entry.
 */
interface Option {
  name: string
  fields: Map<Schema, string[]>
}

const OPTIONS = findOptions()

type Parts = Record<string, string | boolean | string[]>

function findOptions(): Option[] {
  const options = new Map<string, Option>()
  const add = (owner: string, fields: Record<string, Schema>) => {
    for (const [name, field] of Object.entries(fields)) {
      if (!hasOption(field)) continue
      const option = options.get(name) ?? { name, fields: new Map() }
      options.set(name, option)
      option.fields.set(field, [...(option.fields.get(field) ?? []), owner])
    }
  }
  add('series', SERIES)
  for (const [kind, fields] of Object.entries(KINDS)) add(kind, fields)
  return [...options.values()]
}

/** Whether a field has an option. Other fields need a question in JSON. */
function hasOption(field: Schema): boolean {
  const schema = withoutNull(field)
  switch (schema[Kind]) {
    case 'Literal':
      return false
    case 'Array':
      // Options for definitions only take names.
      return schema.items[Kind] === 'Field' || Object.keys(schema.items.properties ?? {}).join() === 'event,where'
    case 'Boolean':
      return field.default === false
    default:
      return true
  }
}

function toFlag(name: string): string {
  return name.replaceAll('_', '-')
}

/** @throws UsageError */
export function readArguments(args: string[]) {
  const parts = OPTIONS.map(({ name, fields }) => {
    const [schema] = [...fields.keys()].map(withoutNull)
    const type = schema?.[Kind] === 'Boolean' ? ('boolean' as const) : ('string' as const)
    const multiple = name === 'event' || schema?.items?.[Kind] === 'Field'
    return [toFlag(name), { type, multiple }] as const
  })
  const options = { ...Object.fromEntries(parts), kind: { type: 'string' } as const, ...COMMAND }
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options })
  const { url, 'key-file': keyFile, format, ...given } = values
  return {
    target: { ...(url !== undefined && { url }), ...(keyFile !== undefined && { 'key-file': keyFile }) },
    format,
    parts: given as Parts,
    positionals,
  }
}

/**
 * Makes a question from options. The service checks its meaning.
 * @throws UsageError if the options do not make a question
 */
export function makeQuestion(parts: Parts): Record<string, unknown> {
  const kind = String(parts.kind ?? guessKind(parts))
  const question: Record<string, unknown> = { kind }
  if (kind === 'series') question.series = makeSeries(parts)
  for (const { name, fields } of OPTIONS) {
    const given = parts[toFlag(name)]
    if (given === undefined || (kind === 'series' && name in SERIES)) continue
    if (name in SERIES) throw new UsageError(`--${name} is only for series.`)
    // A field of another kind is sent anyway: the service explains that it does not apply.
    const field = KINDS[kind]?.[name] ?? [...fields.keys()][0]
    if (field) question[name] = readText(name, withoutNull(field), given)
  }
  return question
}

/** @throws UsageError if the text is not JSON */
export function json(what: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Reads a definition of sessions: `id`, a pause, or JSON. @throws UsageError */
export function readSessions(option: string, text: string): unknown {
  if (text === 'id') return text
  return text.startsWith('{') ? json(option, text) : { gap: text }
}

function guessKind({ steps, start, end, return: back }: Parts): string {
  if (back !== undefined) return 'retention'
  if (start !== undefined || end !== undefined) return 'paths'
  return steps === undefined ? 'series' : 'funnel'
}

function makeSeries(parts: Parts): object[] {
  const { event = [] } = parts
  if (!Array.isArray(event) || event.length === 0) {
    throw new UsageError('Specify what to count: --event NAME, or "*" for all events; or pass a question in JSON.')
  }
  const rest = Object.entries(SERIES).flatMap(([name, field]) => {
    const given = parts[toFlag(name)]
    return name === 'event' || given === undefined ? [] : [[name, readText(name, withoutNull(field), given)]]
  })
  return event.map((name) => ({ event: name, ...Object.fromEntries(rest) }))
}

/** Reads the value of a field from an option. */
function readText(name: string, schema: Schema, given: string | boolean | string[]): unknown {
  if (typeof given === 'boolean') return given
  if (Array.isArray(given)) return given.map((text) => readText(name, schema.items, text))
  switch (schema[Kind]) {
    case 'Integer':
      if (!/^\d{1,9}$/.test(given)) throw new UsageError(`--${toFlag(name)} must be a whole number.`)
      return Number(given)
    case 'Number':
    case 'Filter':
      return json(`--${toFlag(name)}`, given)
    case 'Field':
      // A path whose names contain dots is written as a JSON array.
      return given.startsWith('[') ? json('The field', given) : given
    case 'Time':
      return /^\d+$/.test(given) ? Number(given) : given
    case 'Sessions':
      return readSessions(`--${toFlag(name)}`, given)
    case 'Union':
      return { event: given }
    case 'Array':
      return given.split(',').map((event) => ({ event }))
    default:
      return given
  }
}

const COLUMN = 21
const WIDTH = 100
const PLACEHOLDERS: Record<string, string> = {
  Array: 'A,B,C',
  Duration: 'LENGTH',
  EventNames: 'NAME',
  Field: 'FIELD',
  Filter: 'FILTER',
  Integer: 'N',
  Number: 'N',
  Sessions: 'id or GAP',
  Time: 'TIME',
  TimeZone: 'ZONE',
  Union: 'NAME',
}

/** Describes the options that are parts of a question, for the help. */
export function describeOptions(): string {
  return OPTIONS.map(describeOption).join('\n')
}

function describeOption({ name, fields }: Option): string {
  const schemas = [...fields.keys()].map((field) => {
    const schema = withoutNull(field)
    return schema.items?.[Kind] === 'Field' ? (schema.items as Schema) : schema
  })
  const placeholders = new Set(schemas.map((schema) => findPlaceholder(name, schema)))
  const texts = [...fields].map(([field, kinds]) => {
    const isGeneral = kinds.length === Object.keys(KINDS).length || name in SERIES
    return `${isGeneral ? '' : `${kinds.join(', ')}: `}${describeField(field)}`
  })
  return wrap(`  --${toFlag(name)} ${[...placeholders].join(' or ')}`.trimEnd(), texts.join('; '))
}

function findPlaceholder(name: string, schema: Schema): string {
  if (schema[Kind] === 'Boolean') return ''
  return PLACEHOLDERS[schema[Kind]] ?? name.replace(/^.*_/, '').toUpperCase()
}

function describeField(field: Schema): string {
  const { enum: choices, minimum, maximum } = withoutNull(field)
  const isShown = field.default != null && !Array.isArray(field.default) && field.default !== false
  const limits = [
    ...(choices ? [choices.join(', ')] : []),
    ...(maximum === undefined ? [] : [`${minimum} to ${maximum}`]),
    ...(isShown ? [`default: ${field.default}`] : []),
  ].join('; ')
  const text = String(field.description)
    .replaceAll('`', '')
    // An option takes one name.
    .replace('a list of names, ', '')
    .replace(/\.$/, '')
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}${limits && ` (${limits})`}`
}

/** Formats two columns of text. */
function wrap(left: string, text: string): string {
  const indent = ' '.repeat(COLUMN)
  const lines = left.length < COLUMN - 1 ? [left.padEnd(COLUMN)] : [left, indent]
  for (const word of text.split(' ')) {
    const line = lines.pop() ?? ''
    const isStart = line.length === COLUMN
    if (!isStart && line.length + 1 + word.length > WIDTH) lines.push(line, indent + word)
    else lines.push(`${line}${isStart ? '' : ' '}${word}`)
  }
  return lines.join('\n')
}
