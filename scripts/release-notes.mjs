// Prints what CHANGELOG.md says about a version: `node scripts/release-notes.mjs 1.0.0`.
import { readFileSync } from 'node:fs'
import { section } from './changelog.mjs'

const [version = ''] = process.argv.slice(2)
const notes = section(readFileSync('CHANGELOG.md', 'utf8'), version)
if (notes === '') {
  console.error(`CHANGELOG.md has nothing about ${version || 'no version'}.`)
  process.exit(1)
}
console.log(notes)
