import { memberText } from '../../src/json/texts.js'

/** The fields of an event's JSON that must be exported as they were imported. */
export function essence(text: string): string {
  return JSON.stringify(['event', 'distinct_id', 'timestamp', 'properties'].map((name) => memberText(text, name)))
}
