/** An id that nobody has. `randomUUID` is missing where the page comes without TLS from another machine. */
export function createId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
