import * as Type from '@sinclair/typebox'

/**
 * Builds TypeBox schemas that know two types: what callers may write, and the parsed value with every default filled
 * in. The page uses these schemas as well: `Type` is the module, not the object of that name, so that the bundle has
 * only the functions that are called.
 */

declare const parsed: unique symbol
declare const presence: unique symbol

export interface Schema<Input = unknown, Parsed = Input> extends Type.TSchema {
  static: Input
  /** the predicate of an error: it follows the path in a sentence */
  message: string
  /** only for the compiler */
  [parsed]: Parsed
}

/** A field that may be absent or null. A `filled` one is always present after reading. */
interface Absent<Input, Parsed, Presence extends 'filled' | 'optional'> extends Schema<Input, Parsed> {
  [presence]: Presence
}
type Filled<S extends Schema, Default = never> = Absent<Input<S>, Parsed<S> | Default, 'filled'>
type OptionalField<S extends Schema> = Absent<Input<S>, Parsed<S>, 'optional'>

/** The type of a request body. */
export type Input<S extends Schema> = S['static']
/** The type after parsing, with defaults filled in. */
export type Parsed<S extends Schema> = S[typeof parsed]

type Fields = Record<string, Schema>
type Flat<T> = { [K in keyof T]: T[K] }
type MayBeAbsent = { [presence]: 'filled' | 'optional' }
type IsOptional = { [presence]: 'optional' }

export interface ObjectSchema<F extends Fields = Fields>
  extends Schema<
    Flat<
      { [K in keyof F as F[K] extends MayBeAbsent ? never : K]: Input<F[K]> } & {
        [K in keyof F as F[K] extends MayBeAbsent ? K : never]?: Input<F[K]> | null | undefined
      }
    >,
    Flat<
      { [K in keyof F as F[K] extends IsOptional ? never : K]: Parsed<F[K]> } & {
        [K in keyof F as F[K] extends IsOptional ? K : never]?: Parsed<F[K]>
      }
    >
  > {
  properties: F
}

interface ListSchema<S extends Schema> extends Schema<Input<S>[], Parsed<S>[]> {
  minItems: number
  maxItems: number
}

interface NumberSchema extends Schema<number> {
  minimum: number
  maximum: number
}

/** The values of another field on which a field depends. */
interface Condition {
  field: string
  values: readonly unknown[]
}
export const When = Symbol('When')
/**
 * Key of an object schema's refused fields, with their messages: fields of similar objects that this one does not have.
 */
export const Refused = Symbol('Refused')

/** The kind of a schema whose values only a function can check. JSON Schema describes them more loosely. */
export function custom<T>(kind: string, schema: { message: string; [keyword: string]: unknown }): Schema<T> {
  return Type.Unsafe<T>({ ...schema, [Type.Kind]: kind }) as unknown as Schema<T>
}

export function anything<T = unknown>(): Schema<T> {
  return Type.Unknown() as unknown as Schema<T>
}

export function literal<const T extends string | boolean>(value: T): Schema<T> {
  return Type.Literal(value, { message: `must be ${JSON.stringify(value)}` }) as unknown as Schema<T>
}

Type.TypeRegistry.Set<{ enum: unknown[] }>('Choice', (schema, value) => schema.enum.includes(value))

export function choice<const T extends readonly string[]>(...values: T): Schema<T[number]> & { enum: T } {
  const schema = custom<T[number]>('Choice', { type: 'string', message: `must be one of ${values.join(', ')}` })
  return { ...schema, enum: values } as Schema<T[number]> & { enum: T }
}

export function wholeNumber(minimum = 0, maximum: number = Number.MAX_SAFE_INTEGER): NumberSchema {
  const message = `must be a whole number from ${minimum} to ${maximum}`
  return Type.Integer({ minimum, maximum, message }) as unknown as NumberSchema
}

export function number(minimum: number, maximum: number): NumberSchema {
  const message = `must be a number from ${minimum} to ${maximum}`
  return Type.Number({ minimum, maximum, message }) as unknown as NumberSchema
}

export function flag(): Schema<boolean> {
  return Type.Boolean({ message: 'must be true or false' }) as unknown as Schema<boolean>
}

export function text(message = 'must be a string'): Schema<string> {
  return Type.String({ message }) as unknown as Schema<string>
}

/** @param what the items, in the plural */
export function list<S extends Schema>(what: string, items: S, minItems: number, maxItems: number): ListSchema<S> {
  const message = `must be an array of ${minItems} to ${maxItems} ${what}`
  return Type.Array(items, { minItems, maxItems, message }) as unknown as ListSchema<S>
}

/** @param refused messages by the names of fields that must not be there */
export function object<F extends Fields>(fields: F, refused: Record<string, string> = {}): ObjectSchema<F> {
  return Type.Object(fields, { message: 'must be an object', [Refused]: refused }) as unknown as ObjectSchema<F>
}

/** An object, or the value of its first field: `"signed up"` for `{"event":"signed up"}`. */
export function shorthand<F extends Fields>(short: Schema, schema: ObjectSchema<F>, message: string) {
  const union = Type.Union([short, schema], { message })
  return union as unknown as Schema<Input<ObjectSchema<F>> | string, Parsed<ObjectSchema<F>>>
}

function absent<S extends Schema>(schema: S, options: object) {
  return Type.Optional(Type.Union([schema, Type.Null()], { message: schema.message, ...options }))
}

export function describe<S extends Schema>(schema: S, description: string): S {
  return { ...schema, description }
}

/** A field that has a value even if the caller leaves it out. */
export function withDefault<S extends Schema>(schema: S, value: Input<S>, description?: string): Filled<S> {
  return absent(schema, { default: value, ...(description && { description }) }) as never
}

/** A field that is null if the caller leaves it out. */
export function orNull<S extends Schema>(schema: S, description: string): Filled<S, null> {
  return absent(schema, { default: null, description }) as never
}

/** A field whose default depends on the rest of the question, and is filled in with that. */
export function computed<S extends Schema>(schema: S, description: string): Filled<S> {
  return absent(schema, { description }) as never
}

export function optional<S extends Schema>(schema: S, description?: string): OptionalField<S> {
  return absent(schema, description ? { description } : {}) as never
}

/**
 * A field that objects have only if an earlier field has one of these values. It is then required, unless it has a
 * default.
 */
export function when<S extends Schema>(
  condition: Condition,
  schema: S,
  options: { description: string; message?: string; default?: Input<S> },
): OptionalField<S> {
  return { ...absent(schema, options), [When]: condition } as never
}

/** The schema of a field's values other than null. */
export function withoutNull<S extends Schema>(field: S): S {
  return field[Type.OptionalKind] === undefined || field.anyOf === undefined ? field : field.anyOf[0]
}
