import { pointerPart } from '../../contract/warning.js'

/** The value at a JSON pointer (RFC 6901); undefined if there is none. */
export function getAt(value: unknown, pointer: string): unknown {
  return parsePointer(pointer).reduce((inner, name) => {
    return typeof inner === 'object' && inner !== null && Object.hasOwn(inner, name) ? inner[name as never] : undefined
  }, value)
}

/** A copy of a value in which the value at a JSON pointer is replaced. The pointer must exist. */
export function setAt(value: unknown, pointer: string, replacement: unknown): unknown {
  const set = (inner: unknown, [name, ...rest]: string[]): unknown => {
    if (name === undefined) return replacement
    if (Array.isArray(inner)) return inner.with(Number(name), set(inner[Number(name)], rest))
    return { ...(inner as object), [name]: set(getAt(inner, `/${pointerPart(name)}`), rest) }
  }
  return set(value, parsePointer(pointer))
}

function parsePointer(pointer: string): string[] {
  const names = pointer.split('/').slice(1)
  return names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
}
