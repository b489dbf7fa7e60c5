/** Stored data that only another version of Tallyhouse can read. Retrying does not help; the message says what does. */
export class OtherVersionError extends Error {
  override readonly name = 'OtherVersionError'

  /** @param what names the data, as the subject of a sentence */
  constructor(what: string) {
    super(
      `${what} was made by another version of Tallyhouse. Run \`tallyhouse export --all FOLDER\` with that version, then ` +
        '`tallyhouse import --all FOLDER` with this one into an empty store and journal.',
    )
  }
}
