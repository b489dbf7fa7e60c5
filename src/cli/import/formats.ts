export const INPUT_FORMATS = ['ndjson', 'json', 'csv'] as const
export type InputFormat = (typeof INPUT_FORMATS)[number]

/**
 * Detects the format by the first character that is not white space: a brace begins NDJSON, a bracket a JSON array,
 * anything else CSV.
 * @param beginning of the input's text
 */
export function findFormat(beginning: Buffer): InputFormat {
  const [first] = /\S/.exec(beginning.toString('latin1')) ?? []
  return first === '{' ? 'ndjson' : first === '[' ? 'json' : 'csv'
}
