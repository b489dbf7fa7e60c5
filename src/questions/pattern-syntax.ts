/** Properties of a regular expression that are known without compiling it. */
export interface PatternShape {
  /** rough number of instructions that RE2 compiles it to, with repetitions expanded */
  size: number
  /**
   * the same pattern in a form that can be an alternative in a group; null if its brackets do not match, so that RE2
   * rejects it or would give it another meaning there
   */
  part: string | null
}

/** Instructions of an item that matches many characters, which depend on the UTF-8 bytes that it distinguishes. */
const WIDE = 12
/** Instructions of a group, without its contents. */
const GROUP = 2
/** Instructions of the largest Unicode class, such as `\pL`. */
const UNICODE_CLASS = 700

const REPETITION = /\{(\d{1,4})(,(\d{0,4}))?\}/y
const GROUP_HEAD = /\?(?:P?<[^>)]*>|[a-zA-Z-]*:?)/y
const CLASS_NAME = /\[:\^?[a-z]+:\]/y
const ESCAPE = /\\(?:[pP](?:\{[^}]*\}|.)|x\{[^}]*\}|.)/suy

/** Reads groups, classes, quotations and repetitions of RE2's syntax. */
class PatternReader {
  readonly #text: string
  #at = 0
  #part = ''
  /** sizes of the groups around the current one */
  readonly #outer: number[] = []
  #size = 0
  /** size of the last item, which a repetition would repeat */
  #last = 0

  constructor(text: string) {
    this.#text = text
  }

  read(): PatternShape {
    while (this.#at < this.#text.length) {
      if (!this.#step()) return { size: this.#total, part: null }
    }
    return { size: this.#total, part: this.#outer.length > 0 ? null : this.#part }
  }

  get #total(): number {
    return this.#outer.reduce((sum, size) => sum + size, this.#size)
  }

  /** @returns false if the brackets do not match */
  #step(): boolean {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0)
    switch (character) {
      case '\\':
        return this.#escape()
      case '[':
        return this.#class()
      case '(':
        return this.#open()
      case ')':
        return this.#close()
      case '{':
        return this.#repetition()
      case '|':
        this.#last = 0
        this.#size += 1
        return this.#take(character)
      case '*':
      case '+':
      case '?':
        this.#size += 1
        return this.#take(character)
      default:
        return this.#atom(character, character === '.' ? WIDE : Buffer.byteLength(character))
    }
  }

  #take(text: string): boolean {
    this.#part += text
    this.#at += text.length
    return true
  }

  #atom(text: string, size: number): boolean {
    this.#size += size
    this.#last = size
    return this.#take(text)
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    return pattern.exec(this.#text)
  }

  #escape(): boolean {
    if (this.#text.startsWith('\\Q', this.#at)) return this.#quotation()
    const [found] = this.#match(ESCAPE) ?? []
    return found !== undefined && this.#atom(found, estimateEscape(found))
  }

  /** Escapes the characters of a quotation, because one without an end would include everything after it. */
  #quotation(): boolean {
    this.#size += 1
    const start = this.#at + 2
    const found = this.#text.indexOf('\\E', start)
    const quoted = this.#text.slice(start, found < 0 ? undefined : found)
    for (const character of quoted) {
      this.#last = Buffer.byteLength(character)
      this.#size += this.#last
    }
    this.#part += quoted.replace(/[!-/:-@[-`{-~]/g, '\\$&')
    this.#at = found < 0 ? this.#text.length : found + 2
    return true
  }

  #class(): boolean {
    const start = this.#at
    let end = start + 1
    let size = 2
    if (this.#text[end] === '^') {
      end++
      size = WIDE
    }
    // A `]` at the start is literal.
    if (this.#text[end] === ']') end++
    while (this.#text[end] !== ']') {
      const character = this.#text[end]
      if (character === undefined) return false
      const special = character === '\\' ? ESCAPE : CLASS_NAME
      special.lastIndex = end
      const [item] = special.exec(this.#text) ?? [character]
      if (character === '\\') size = Math.max(size, estimateEscape(item))
      if (character > '\x7f') size = Math.max(size, WIDE)
      end += item.length
    }
    return this.#atom(this.#text.slice(start, end + 1), size)
  }

  #open(): boolean {
    this.#outer.push(this.#size + GROUP)
    this.#size = 0
    this.#last = 0
    this.#take('(')
    const [head] = this.#match(GROUP_HEAD) ?? []
    return head === undefined || this.#take(head)
  }

  #close(): boolean {
    const outer = this.#outer.pop()
    if (outer === undefined) return false
    this.#last = this.#size + GROUP
    this.#size += outer
    return this.#take(')')
  }

  #repetition(): boolean {
    const found = this.#match(REPETITION)
    // A brace that begins no repetition is literal.
    if (!found) return this.#atom('{', 1)
    const [text, least, isRange, most] = found
    const times = Math.max(1, Number(least), most ? Number(most) : isRange ? Number(least) + 1 : 0)
    // RE2 adds an instruction for an optional item.
    const each = this.#last + (isRange ? 1 : 0)
    this.#size += each * times - this.#last
    this.#last = each * times
    return this.#take(text)
  }
}

function estimateEscape(text: string): number {
  if (/^\\[pP]/.test(text)) return UNICODE_CLASS
  if (/^\\[DWS]/.test(text)) return WIDE
  return text.startsWith('\\x{') ? 4 : 1
}

export function parsePattern(pattern: string): PatternShape {
  return new PatternReader(pattern).read()
}
