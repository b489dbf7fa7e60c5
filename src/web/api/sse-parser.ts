/** Parses Server-Sent Events, limited to what this service sends (HTML standard, 9.2.6). */
export class SseParser {
  #rest = ''
  /** length of the prefix of `#rest` that was already searched for the end of a frame */
  #looked = 0

  /** @returns the data of each event completed by this chunk; comments have none */
  push(chunk: string): string[] {
    const text = this.#rest + chunk
    const found: string[] = []
    let start = 0
    let end = text.indexOf('\n\n', this.#looked)
    while (end >= 0) {
      const data = readData(text.slice(start, end))
      if (data !== null) found.push(data)
      start = end + 2
      end = text.indexOf('\n\n', start)
    }
    this.#rest = text.slice(start)
    this.#looked = Math.max(0, this.#rest.length - 1)
    return found
  }
}

function readData(frame: string): string | null {
  const lines = frame.split('\n').filter((line) => line.startsWith('data: '))
  return lines.length > 0 ? lines.map((line) => line.slice(6)).join('\n') : null
}
