/**
 * The bytes that have a meaning in JSON and in lines of it; their UTF-16 codes are the same.
 *
 * The scanners that look at every byte (json/spans.ts, model/scan.ts, json/complexity.ts, http/admission/body-key.ts,
 * cli/import/json-array.ts) declare their own: an imported constant is read from its module each time, which costs such
 * a loop 10 to 70 % (Node 20).
 */
export const LINE_FEED = 0x0a
export const QUOTE = 0x22
export const COMMA = 0x2c
export const MINUS = 0x2d
export const ZERO = 0x30
export const NINE = 0x39
export const OPEN_BRACKET = 0x5b
export const CLOSE_BRACKET = 0x5d
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d
