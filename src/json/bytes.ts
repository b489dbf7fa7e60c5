/**
 * The bytes that have a meaning in JSON and JSON lines; their UTF-16 codes are the same.
 *
 * tokens.ts, value.ts and complexity.ts look at every byte and declare their own, because an imported constant is read
 * from its module each time. With imported ones `weigh` took 1.7 times as long, the search for a key 1.5 times and
 * `readJson` 1.2 times. For model/scan.ts it makes no difference: its loops over bytes are in tokens.ts.
 */
export const LINE_FEED = 0x0a
export const QUOTE = 0x22
export const COMMA = 0x2c
export const MINUS = 0x2d
export const ZERO = 0x30
export const NINE = 0x39
export const COLON = 0x3a
export const OPEN_BRACKET = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_BRACKET = 0x5d
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d
/** The first character of `null`. */
export const NULL = 0x6e
