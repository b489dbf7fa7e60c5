import type { ColumnSource } from '../store/fact-values.js'
import { failIf, markName, repairText, unmarkToken } from '../store/json-sql.js'
import type { Statement } from './statement.js'

/** The columns of facts with single values of the properties. */
export interface KeptValues {
  /** the column with the parser's results for a path, or with first texts; null if there is none */
  find(source: ColumnSource): string | null
  /** whether the rows are facts; false for events, whose columns are computed */
  isThere: boolean
}

/** The paths into one JSON column that a question uses, each with a column name. */
export class Paths {
  readonly #prefix: string
  readonly #columns = new Map<string, { name: string; path: string[] }>()

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

  /**
   * Columns with the raw results of the parser.
   * @param kept null: the rows have only the text
   */
  raws(statement: Statement, json: string, kept: KeptValues | null = null): string[] {
    return this.#each(({ name, path }) => {
      const raw = `JSONExtractRaw(${json}, ${toKeys(statement, path)})`
      const column = kept?.find(path)
      if (!column) return `${raw} AS raw_${name}`
      return `${kept?.isThere ? column : `toLowCardinality(${raw})`} AS raw_${name}`
    })
  }

  /**
   * Columns with the tokens, including those of texts that the parser rejects. The repaired text is a separate column,
   * because ClickHouse would compute a shared expression for every row. Without repair, every token depends on the
   * check that fails for a rejected text, so that such a row is never evaluated.
   * @param kept if given, the column `refused` says what the parser rejects; without repair, there are no such rows
   */
  tokens(statement: Statement, json: string, kept: KeptValues | null = null): string[] {
    const isRefused = kept ? 'refused' : this.isRejected(json)
    if (statement.context.repairsTexts) {
      const tokens = this.#each(({ name, path }) => {
        const found = unmarkToken(`JSONExtractRaw(repaired, ${toKeys(statement, path)})`)
        return `multiIf(is_refused, replaceRegexpOne(${found}, '^null$', ''), raw_${name} = 'null', '', raw_${name}) AS ${name}`
      })
      return [`${isRefused} AS is_refused`, `if(is_refused, ${repairText(json)}, '') AS repaired`, ...tokens]
    }
    if (!kept) {
      const taken = this.#each(({ name }) => `if(is_refused OR raw_${name} = 'null', '', raw_${name}) AS ${name}`)
      return [`${failIf(isRefused)} AS is_refused`, ...taken]
    }
    return this.#each(({ name, path }) => {
      // A function of one column with a dictionary is computed for the values in it.
      const token = kept.find(path)
        ? `replaceRegexpOne(raw_${name}, '^null$', '')`
        : `if(raw_${name} = 'null', '', raw_${name})`
      return `${token} AS ${name}`
    })
  }

  /**
   * Whether the parser rejects the text of a row. If `raws` found a value, the parser has accepted the text, which saves
   * parsing it once more.
   */
  isRejected(json: string): string {
    return [...this.#each(({ name }) => `raw_${name} = ''`), `NOT isValidJSON(${json})`].join(' AND ')
  }

  /** For a subquery over profiles, which needs only tokens. */
  select(statement: Statement): { raws: string[]; tokens: string[]; names: string[] } {
    return { raws: this.raws(statement, 'properties'), tokens: this.tokens(statement, 'properties'), names: this.names }
  }

  #each(of: (column: { name: string; path: string[] }) => string): string[] {
    return [...this.#columns.values()].map(of)
  }
}

function toKeys(statement: Statement, path: string[]): string {
  return path.map((name) => statement.text(markName(name))).join(', ')
}
