import { MAX_WEIGHT } from '../json/complexity.js'
import { Scan } from './scan.js'
import type { ScannedBody } from './scanned-body.js'

/**
 * Scans the body of an edit, which has the new properties of an event; null if it is unknown (see scan.ts).
 * @param raw valid UTF-8
 * @param maxDepth a body whose properties are nested deeper is unknown
 */
export function scanEdit(raw: Buffer, maxDepth: number): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_WEIGHT).edit()
}
