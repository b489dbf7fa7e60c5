/** Code units that are decoded before the caller gets a turn. */
const UNITS_PER_TURN = 512 * 1024
const FIRST_UNITS = 4 * 1024
const FIRST_CODES = 1024
/** bytes of a code unit, and of the offset and the length of a phrase */
const UNIT_BYTES = 2
const PHRASE_BYTES = 8

/** Codes that are not phrases. */
const CODE_OF_8_BITS = 0
const CODE_OF_16_BITS = 1
const END = 2
const FIRST_PHRASE = 3

/** The text was not made by lz-string. */
export class LzStringError extends Error {
  override readonly name = 'LzStringError'
}

/** The decompressed text is longer than allowed. */
export class LzStringTooLongError extends Error {
  override readonly name = 'LzStringTooLongError'
}

/**
 * Decompresses the output of lz-string 1's `compressToBase64`, in turns. A phrase of the dictionary is the previous
 * one and one more character, so each is a range of the output, and no strings are built. The package itself cannot
 * limit its output, and 10 kB can expand to gigabytes.
 * @param base64 with or without padding
 * @param maxUnits maximum length of the text, in UTF-16 code units
 * @param take called with a number of bytes before the memory grows by them
 * @yields after each half million code units
 * @returns the text
 * @throws LzStringError, LzStringTooLongError
 */
export function* decompressLzString(
  base64: Buffer,
  maxUnits: number,
  take: (bytes: number) => void,
): Generator<void, string> {
  const bits = new BitReader(base64)
  const output = new Output(maxUnits, take)
  const phrases = new Phrases(take)
  let width = 2
  /** number of codes until they get one bit longer */
  let left = 1
  let nextTurn = UNITS_PER_TURN
  /** length of the previous phrase, in code units */
  let last = 0
  const count = () => {
    if (--left > 0) return
    left = 2 ** width
    width++
  }
  for (;;) {
    const code = bits.read(width)
    if (code === END) return output.text()
    const isNew = code === CODE_OF_8_BITS || code === CODE_OF_16_BITS
    const start = output.length
    if (isNew) {
      output.add(bits.read(code === CODE_OF_8_BITS ? 8 : 16))
      phrases.add(start, 1)
      if (last > 0) count()
    } else if (last > 0 && code < phrases.next) {
      output.repeat(phrases.findStart(code), phrases.findLength(code))
    } else if (last > 0 && code === phrases.next) {
      // The phrase that this code is about to add: the previous one and its own first character.
      output.repeat(start - last, last + 1)
    } else {
      throw new LzStringError('a phrase that is not in the dictionary')
    }
    if (last > 0) phrases.add(start - last, last + 1)
    last = output.length - start
    count()
    if (output.length < nextTurn) continue
    nextTurn = output.length + UNITS_PER_TURN
    yield
  }
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const NO_DIGIT = 64
const DIGITS = new Uint8Array(256).fill(NO_DIGIT)
for (let i = 0; i < ALPHABET.length; i++) DIGITS[ALPHABET.charCodeAt(i)] = i

/** Reads numbers, lowest bit first, from base64, whose digits have their highest bit first. */
class BitReader {
  readonly #base64: Buffer
  #at = 0
  #digit = 0
  #mask = 0

  constructor(base64: Buffer) {
    this.#base64 = base64
  }

  /** @throws LzStringError after the last digit */
  read(count: number): number {
    let value = 0
    for (let i = 0; i < count; i++) {
      if (this.#mask === 0) {
        this.#digit = DIGITS[this.#base64[this.#at++] ?? 0] ?? NO_DIGIT
        if (this.#digit === NO_DIGIT) throw new LzStringError('no end')
        this.#mask = 32
      }
      if (this.#digit & this.#mask) value += 2 ** i
      this.#mask >>= 1
    }
    return value
  }
}

/** The text so far. */
class Output {
  length = 0
  readonly #maxUnits: number
  readonly #take: (bytes: number) => void
  #units: Uint16Array

  constructor(maxUnits: number, take: (bytes: number) => void) {
    this.#maxUnits = maxUnits
    this.#take = take
    this.#units = new Uint16Array(FIRST_UNITS)
  }

  add(unit: number): void {
    this.#reserve(1)
    this.#units[this.length++] = unit
  }

  /** Appends a range of the text again. The range may overlap what is appended. */
  repeat(start: number, count: number): void {
    this.#reserve(count)
    const units = this.#units
    for (let i = 0; i < count; i++) units[this.length + i] = units[start + i] ?? 0
    this.length += count
  }

  text(): string {
    const { buffer, byteOffset } = this.#units
    return Buffer.from(buffer, byteOffset, this.length * UNIT_BYTES).toString('utf16le')
  }

  #reserve(count: number): void {
    const needed = this.length + count
    if (needed > this.#maxUnits) throw new LzStringTooLongError()
    if (needed <= this.#units.length) return
    const size = Math.min(this.#maxUnits, Math.max(2 * this.#units.length, needed))
    this.#take((size - this.#units.length) * UNIT_BYTES)
    const units = new Uint16Array(size)
    units.set(this.#units)
    this.#units = units
  }
}

/** The phrases of the dictionary, as ranges of the text. */
class Phrases {
  /** the code of the next phrase */
  next = FIRST_PHRASE
  readonly #take: (bytes: number) => void
  /** for each code, at twice its number: offset and length of its phrase */
  #places = new Uint32Array(2 * FIRST_CODES)

  constructor(take: (bytes: number) => void) {
    this.#take = take
  }

  findStart(code: number): number {
    return this.#places[2 * code] ?? 0
  }

  findLength(code: number): number {
    return this.#places[2 * code + 1] ?? 0
  }

  add(start: number, length: number): void {
    if (2 * this.next === this.#places.length) {
      this.#take((this.#places.length / 2) * PHRASE_BYTES)
      const places = new Uint32Array(2 * this.#places.length)
      places.set(this.#places)
      this.#places = places
    }
    this.#places[2 * this.next] = start
    this.#places[2 * this.next + 1] = length
    this.next++
  }
}
