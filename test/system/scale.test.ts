import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'

const model = (...args: string[]) => execFileSync('node', ['docs/scale-model.mjs', ...args], { encoding: 'utf8' })

t.test('the table in the manual is the output of the model', (t) => {
  t.ok(readFileSync('docs/scale.md', 'utf8').includes(model()))
  t.end()
})

t.test('the model grows with the load, and says where the maximum of lanes is reached', (t) => {
  const cores = (table: string) => /cores of the service +\| +([\d.]+)/.exec(table)?.[1]
  t.equal(cores(model('20e9')), '1.5')
  t.equal(cores(model('20e9', '--singles=1')), '50')
  t.match(model('20e9', '200e9'), /lanes +\| +12 \| +113: more than 64/)
  t.end()
})
