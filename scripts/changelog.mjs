const UNRELEASED = '## [Unreleased]'

/**
 * Gives what is unreleased a version and a date.
 * @param {string} text of CHANGELOG.md
 * @param {string} version
 * @param {string} date
 * @throws Error if nothing is unreleased
 */
export function withRelease(text, version, date) {
  if (section(text, 'Unreleased') === '') throw new Error('CHANGELOG.md has nothing under [Unreleased].')
  return text.replace(UNRELEASED, `${UNRELEASED}\n\n## [${version}] - ${date}`)
}

/**
 * @param {string} text of CHANGELOG.md
 * @param {string} name a version, or Unreleased
 * @returns {string} what is below its heading; empty if there is nothing, or no such heading
 */
export function section(text, name) {
  const sections = text.split(/^(?=## \[)/m)
  const found = sections.find((part) => part.startsWith(`## [${name}]`)) ?? ''
  return found.slice(found.indexOf('\n') + 1).trim()
}
