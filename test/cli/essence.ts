import { memberText } from '../../src/json/texts.js'

const FIELDS = ['event', 'distinct_id', 'timestamp', 'properties', 'insert_id', 'session_id', 'context']

/** The fields of an event's JSON that must be exported as they were imported. */
export function essence(text: string): string {
  return JSON.stringify(FIELDS.map((name) => memberText(text, name)))
}
