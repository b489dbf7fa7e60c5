import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { JournalKeys } from './keys.js'

/** An argument of a script. */
export type Argument = string | Buffer

/** The values of the names in capital letters in the scripts. */
export interface Names {
  /**
   * Consecutive arguments that a script reads together: `APPEND.kind` is the offset of a field from the first one,
   * `APPEND.length` the number of fields.
   */
  records: Record<string, readonly string[]>
  constants: Record<string, string | number>
}

export interface Source {
  text: string
  /** the name of the script for EVALSHA */
  digest: string
}

/**
 * A Lua script in the folder `scripts`. It knows its keys and arguments by the same names as its callers: `KEYS.stream`
 * is the key that they pass as `stream`, `ARGV.layout` the argument `layout`. Arguments without names follow these,
 * from `ARGV[ARGS.length + 1]` on. A line such as `--- include shared/now` is replaced by that file.
 */
export class Script<Key extends string = string, Arg extends string = string> {
  readonly keys: readonly Key[]
  readonly args: readonly Arg[]
  readonly single: Source
  /** the script for a Redis Cluster */
  readonly cluster: Source

  /**
   * @param file its name, without `.lua`
   * @throws Error if it cannot be read, or contains a name that is not defined
   */
  constructor(file: string, { keys, args }: { keys: readonly Key[]; args: readonly Arg[] }, names: Names) {
    this.keys = keys
    this.args = args
    const text = read(file)
    const compose = (text: string) => sourceFrom(resolveNames(include(text), { keys, args, ...names }))
    this.single = compose(text)
    // Flags, if there are any, are on the first line.
    this.cluster = compose(text.replace(/^(#!.*\n)?/, '$1--- include shared/whole-slot\n'))
  }
}

/** The named arguments of a script. */
export type ArgumentsFor<S> = S extends Script<string, infer Arg> ? Record<Arg, Argument> : never

/** Runs a script on the keys of a journal. @param rest the arguments that follow the named ones */
export type RunScript = <Key extends keyof JournalKeys, Arg extends string>(
  script: Script<Key, Arg>,
  args: Record<Arg, Argument>,
  rest?: readonly Argument[],
) => Promise<unknown>

/** The arguments for a record. */
export function recordArguments<Field extends string>(
  fields: readonly Field[],
  values: Record<Field, Argument>,
): Argument[] {
  return fields.map((field) => values[field])
}

function include(text: string): string {
  return text.replace(/^--- include (.+)\n/gm, (_, file) => include(read(file)))
}

function read(file: string): string {
  return readFileSync(new URL(`./scripts/${file}.lua`, import.meta.url), 'utf8')
}

/** Replaces names by numbers before Redis sees them: Lua would look each of them up in a table, for every event. */
function resolveNames(
  text: string,
  { keys, args, records, constants }: Names & Record<'keys' | 'args', readonly string[]>,
): string {
  const owners: typeof records = { ...records, KEYS: keys, ARGV: args, ARGS: args }
  return text
    .replace(/\b([A-Z_]+)\.(\w+)/g, (name, owner, field) => {
      const offset = field === 'length' ? owners[owner]?.length : owners[owner]?.indexOf(field)
      if (offset === undefined || offset < 0)
        throw new Error(`a script of the Redis journal has an unknown name: ${name}`)
      return owner === 'KEYS' || owner === 'ARGV' ? `${owner}[${offset + 1}]` : String(offset)
    })
    .replace(/\b[A-Z_]+\b/g, (name) => (name in constants ? JSON.stringify(constants[name]) : name))
}

function sourceFrom(text: string): Source {
  return { text, digest: createHash('sha1').update(text).digest('hex') }
}
