/** Closes parts in the reverse of the order in which they were opened. */
export class CloseStack {
  readonly #parts: { close(): unknown }[] = []

  /** @returns the part */
  add<Part extends { close(): unknown }>(part: Part): Part {
    this.#parts.push(part)
    return part
  }

  /** Closes every part, even if some fail. @throws the error of the last one that failed */
  async close(): Promise<void> {
    const part = this.#parts.pop()
    if (!part) return
    try {
      await part.close()
    } finally {
      await this.close()
    }
  }
}
