import t from 'tap'
import { PartMap } from '../../src/damage/part-map.js'
import type { Part } from '../../src/store/parts.js'

const part = (first: number, last: number, partition = '202601'): Part => {
  return { table: 'events', partition, name: `${partition}_${first}_${last}_0`, first, last, rows: 1 }
}
const namesOf = (parts: Part[]) => parts.map(({ name }) => name).sort()

t.test('PartMap finds what a search through all parts finds, also among merged ones', async (t) => {
  // Merges of five parts, and merges of those, so that parts are nested; some are gone, and one is in another month.
  const all = [part(1, 500), part(1, 9, '202602')]
  for (let first = 1; first <= 500; first += 5) all.push(part(first, first + 4))
  for (let first = 1; first <= 500; first += 25) all.push(part(first, first + 24))
  for (let block = 1; block <= 500; block++) if (block % 7 !== 0) all.push(part(block, block))
  const map = new PartMap(all.toReversed())
  for (const looked of [...all, part(7, 7), part(3, 8), part(499, 503), part(600, 600), part(0, 1000)]) {
    const own = all.filter(({ partition }) => partition === looked.partition)
    const around = own.filter(({ first, last }) => first <= looked.first && looked.last <= last)
    const within = own.filter(({ first, last }) => looked.first <= first && last <= looked.last)
    if (namesOf(map.allAround(looked)).join() !== namesOf(around).join()) t.fail(`around ${looked.name}`)
    if (namesOf(map.within(looked)).join() !== namesOf(within).join()) t.fail(`within ${looked.name}`)
  }
  t.strictSame(map.allAround(part(1, 1, '202603')), [])
  t.strictSame(map.within(part(1, 1, '202603')), [])
})
