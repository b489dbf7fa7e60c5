/** Whether a text is an origin exactly as browsers send it: any other would never match. */
export function isOrigin(text: string): boolean {
  return URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text
}
