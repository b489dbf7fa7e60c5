import { failIf, markName, repairText, unmarkToken } from '../store/json-sql.js'
import type { Statement } from './statement.js'

interface PathColumn {
  name: string
  path: string[]
}

/** The paths into one JSON column that a question uses, each with a column name. */
export class Paths {
  readonly #prefix: string
  readonly #columns = new Map<string, PathColumn>()

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  get size(): number {
    return this.#columns.size
  }

  get isEmpty(): boolean {
    return this.size === 0
  }

  get names(): string[] {
    return [...this.#columns.values()].map(({ name }) => name)
  }

  column(path: string[]): string {
    const key = JSON.stringify(path)
    const known = this.#columns.get(key)
    if (known) return known.name
    const name = `${this.#prefix}${this.#columns.size}`
    this.#columns.set(key, { name, path })
    return name
  }

  /** Columns with the raw results of the parser. */
  raws(statement: Statement, json: string): string[] {
    return this.#each(({ name, path }) => `JSONExtractRaw(${json}, ${toKeys(statement, path)}) AS raw_${name}`)
  }

  /**
   * Columns with the tokens, including those of texts that the parser rejects. The repaired text is a column of its
   * own, because ClickHouse would compute a shared expression for every row. Without repair, every token depends on the
   * check that fails for a rejected text, so that such a row is never evaluated.
   */
  tokens(statement: Statement, json: string): string[] {
    const isRefused = [...this.#each(({ name }) => `raw_${name} = ''`), `NOT isValidJSON(${json})`].join(' AND ')
    if (!statement.context.repairsTexts) {
      const taken = this.#each(({ name }) => `if(is_refused OR raw_${name} = 'null', '', raw_${name}) AS ${name}`)
      return [`${failIf(isRefused)} AS is_refused`, ...taken]
    }
    const tokens = this.#each(({ name, path }) => {
      const found = unmarkToken(`JSONExtractRaw(repaired, ${toKeys(statement, path)})`)
      return `multiIf(is_refused, replaceRegexpOne(${found}, '^null$', ''), raw_${name} = 'null', '', raw_${name}) AS ${name}`
    })
    return [`${isRefused} AS is_refused`, `if(is_refused, ${repairText(json)}, '') AS repaired`, ...tokens]
  }

  /** Columns with the values in `event_facts`, and those that a path within one of them begins at. */
  factRaws(statement: Statement): string[] {
    return this.#each(({ name, path: [first = '', ...rest] }) => {
      const outer = `props[${statement.text(markName(first))}]`
      if (rest.length === 0) return `${outer} AS raw_${name}`
      return `${outer} AS outer_${name}, JSONExtractRaw(outer_${name}, ${toKeys(statement, rest)}) AS raw_${name}`
    })
  }

  /**
   * Columns with the tokens, from `factRaws` and `repaired`. The parser may reject a value that it has written itself, such
   * as an integer beyond 64 bits.
   */
  factTokens(statement: Statement): string[] {
    const isRefused = ({ name, path }: PathColumn) =>
      path.length > 1 ? `(raw_${name} = '' AND outer_${name} != '' AND NOT isValidJSON(outer_${name}))` : '0'
    if (!statement.context.repairsTexts) {
      const refused = this.#each(isRefused).filter((test) => test !== '0')
      const taken = this.#each(({ name }) => `if(is_refused OR raw_${name} = 'null', '', raw_${name}) AS ${name}`)
      return [`${failIf(['repaired', ...refused].join(' OR '))} AS is_refused`, ...taken]
    }
    return this.#each((column) => {
      const { name, path } = column
      const [, ...rest] = path
      const repaired = `JSONExtractRaw(${repairText(`outer_${name}`)}, ${toKeys(statement, rest)})`
      const found = rest.length === 0 ? `raw_${name}` : `if(${isRefused(column)}, ${repaired}, raw_${name})`
      // Only the text of the whole row was given marks: a value that is written again has none.
      const token = `if(repaired, ${unmarkToken(`found_${name}`)}, found_${name})`
      return `${found} AS found_${name}, if(found_${name} = 'null', '', ${token}) AS ${name}`
    })
  }

  /** For a subquery over profiles, which needs only tokens. */
  select(statement: Statement): { raws: string[]; tokens: string[]; names: string[] } {
    return { raws: this.raws(statement, 'properties'), tokens: this.tokens(statement, 'properties'), names: this.names }
  }

  #each(of: (column: PathColumn) => string): string[] {
    return [...this.#columns.values()].map(of)
  }
}

function toKeys(statement: Statement, path: string[]): string {
  return path.map((name) => statement.text(markName(name))).join(', ')
}
