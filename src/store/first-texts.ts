/** A tree of the names to look up in a document. A leaf says which lists need it, and its position in each. */
interface Names {
  children: Map<string, Names>
  leaves: { list: string; rank: number }[]
}

/**
 * SQL that finds, for each of several lists of properties, the text of the first property in the list that has one.
 * ClickHouse parses the document once for all lists.
 */
export class FirstTexts {
  readonly #lists: ReadonlyMap<string, readonly (readonly string[])[]>
  readonly #literal: (text: string) => string
  readonly #root: Names = { children: new Map(), leaves: [] }

  /**
   * @param lists by a name for the list: paths of properties
   * @param literal SQL for a text
   */
  constructor(lists: ReadonlyMap<string, readonly (readonly string[])[]>, literal: (text: string) => string) {
    this.#lists = lists
    this.#literal = literal
    for (const [list, paths] of lists) {
      for (const [rank, path] of paths.entries()) if (!path.some(isUnsafe)) this.#add(path, { list, rank })
    }
  }

  get isEmpty(): boolean {
    return this.#lists.size === 0
  }

  #add(path: readonly string[], leaf: Names['leaves'][number]): void {
    let at = this.#root
    for (const name of path) {
      const next = at.children.get(name) ?? { children: new Map(), leaves: [] }
      at.children.set(name, next)
      at = next
    }
    at.leaves.push(leaf)
  }

  /** The parsed document that `find` reads. @param json SQL for a document */
  parse(json: string): string {
    return `JSONExtract(${json}, ${this.#literal(formatType(this.#root))})`
  }

  /**
   * A candidate for the text of each list, empty if there is none. `check` verifies it.
   * @param parsed what `parse` returned
   */
  find(parsed: string, json: string): Map<string, string> {
    const found = new Map<string, string[]>()
    for (const [list, paths] of this.#lists) {
      found.set(
        list,
        paths.map((path) => `JSONExtract(${json}, ${this.#formatPath(path)}, 'String')`),
      )
    }
    const visit = ({ children }: Names, sql: string) => {
      for (const [i, child] of [...children.values()].entries()) {
        const within = `${sql}.${i + 1}`
        // A name with names below it is an object in the type.
        if (child.children.size > 0) visit(child, within)
        else for (const { list, rank } of child.leaves) found.get(list)?.splice(rank, 1, within)
      }
    }
    visit(this.#root, parsed)
    return new Map([...found].map(([list, values]) => [list, chooseFirst(values)]))
  }

  /**
   * The text of a list. The parser also returns other values as text, and reads members of an object from an array by
   * position. So if the candidate may be a value of this kind, every property of the list is checked.
   * @param found what `find` returned for the list
   */
  check(list: string, found: string, json: string): string {
    const paths = this.#lists.get(list) ?? []
    if (paths.length === 0) return `''`
    const tokens = paths.map((path) => `JSONExtractRaw(${json}, ${this.#formatPath(path)})`)
    const text = `JSONExtractString(arrayFirst(token -> ${IS_TEXT}, [${tokens.join(', ')}]))`
    const isWithin = paths.some((path) => path.length > 1)
    const mayBeInArray = isWithin ? ` OR (${found} != '' AND position(${json}, '[') > 0)` : ''
    return `if(match(${found}, '${MAY_BE_OTHER}')${mayBeInArray}, ${text}, ${found})`
  }

  #formatPath(path: readonly string[]): string {
    return path.map(this.#literal).join(', ')
  }
}

/** Matches what may be a number, an array, an object, a boolean, or an infinite number of a repaired text. */
const MAY_BE_OTHER = '^(?:[-0-9{[]|true$|false$|\u{10fffd})'
const IS_TEXT = `startsWith(token, '"') AND token != '""' AND NOT startsWith(token, '"\u{10fffd}')`

/** The first text that is not empty. ClickHouse takes many times as long to plan `multiIf`. */
function chooseFirst(texts: readonly string[]): string {
  const [only] = texts
  if (only === undefined) return `''`
  return texts.length === 1 ? only : `firstNonDefault(${texts.join(', ')})`
}

/** The ClickHouse type with a text for each leaf. */
function formatType({ children }: Names): string {
  if (children.size === 0) return 'String'
  const members = [...children].map(([name, child]) => `${quoteName(name)} ${formatType(child)}`)
  return `Tuple(${members.join(', ')})`
}

/** Whether ClickHouse reads a name differently in the type of a tuple, or as an element of one. */
function isUnsafe(name: string): boolean {
  return /^(?:[0-9]*|null|true|false|nan|inf)$/i.test(name)
}

function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
}
