import type { FetchHeaders } from '../../client/connection.js'

const LINE_END = '\r\n'

/**
 * The header fields of a response, parsed on demand, because usually no more than three are read. Creating a
 * `Headers` makes Node load all of its `fetch`, which takes longer than a small command.
 */
export class HeaderFields implements FetchHeaders {
  readonly #text: string
  readonly #lowerCase: string

  /** @param text the fields, each with a line end before it */
  constructor(text: string) {
    this.#text = text
    this.#lowerCase = text.toLowerCase()
  }

  get(name: string): string | null {
    const start = `${LINE_END}${name.toLowerCase()}:`
    let values: string | null = null
    for (let at = this.#lowerCase.indexOf(start); at !== -1; at = this.#lowerCase.indexOf(start, at + 1)) {
      const end = this.#text.indexOf(LINE_END, at + start.length)
      const value = this.#text.slice(at + start.length, end === -1 ? undefined : end).trim()
      values = values === null ? value : `${values}, ${value}`
    }
    return values
  }
}
