/** Returns a random id. `crypto.randomUUID` needs a secure context, which plain HTTP is not. */
export function createId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
