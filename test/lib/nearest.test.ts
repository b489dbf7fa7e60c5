import fc from 'fast-check'
import t from 'tap'
import { createNearestFinder, editDistance } from '../../src/lib/nearest.js'
import { codePoint } from '../fuzz/texts.js'

const NAMES = ['purchased', 'page viewed', 'signed up', 'Signed In', 'cart: item added', 'plan']

t.test('a mistyped name leads to the one that was meant', (t) => {
  const nearest = createNearestFinder(NAMES)
  for (const [given, meant] of [
    ['purch', 'purchased'],
    ['Purchased', 'purchased'],
    ['purchsaed', 'purchased'],
    ['purhcase', 'purchased'],
    ['pageViewed', 'page viewed'],
    ['page_view', 'page viewed'],
    ['signedup', 'signed up'],
    ['signedin', 'Signed In'],
    ['signed un', 'signed up'],
    ['cart', 'cart: item added'],
    ['plam', 'plan'],
  ] as const) {
    t.equal(nearest(given), meant, given)
  }
  t.end()
})

t.test('an unrelated text leads to no name', (t) => {
  const nearest = createNearestFinder(NAMES)
  for (const given of ['', '!!', 'x', 'pl', 'planned', 'refunded', 'zzzzzzzzz', 'plan'])
    t.equal(nearest(given), undefined, given)
  t.equal(createNearestFinder([])('anything'), undefined)
  t.equal(createNearestFinder(['', '--'])('--'), undefined)
  t.equal(createNearestFinder(['a'.repeat(300)])(`${'a'.repeat(299)}b`), undefined, 'too long to compare')
  t.equal(createNearestFinder(['a'.repeat(300)])('A'.repeat(300)), 'a'.repeat(300))
  t.end()
})

t.test('of equally near names, the first is found', (t) => {
  t.equal(createNearestFinder(['bear', 'beer'])('bexr'), 'bear')
  t.equal(createNearestFinder(['beer', 'bear'])('bexr'), 'beer')
  t.end()
})

const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'ä'), maxLength: 9 })

t.test('the distance matches its definition', (t) => {
  fc.assert(
    fc.property(text, text, fc.nat(10), (a, b, limit) => {
      const distance = plainDistance(a, b)
      return (
        editDistance(a, b, limit) === (distance <= limit ? distance : null) &&
        editDistance(a, b, limit) === editDistance(b, a, limit)
      )
    }),
    { numRuns: 500 },
  )
  t.end()
})

t.test('a typo in a longer name leads back to it, unless another name is as near', (t) => {
  const word = fc.stringMatching(/^[a-z]{6,20}$/)
  fc.assert(
    fc.property(word, fc.nat(), fc.constantFrom('drop', 'double', 'swap', 'case'), (name, at, slip) => {
      const i = at % (name.length - 1)
      const given = {
        drop: name.slice(0, i) + name.slice(i + 1),
        double: name.slice(0, i + 1) + name.slice(i),
        swap: name.slice(0, i) + name.charAt(i + 1) + name.charAt(i) + name.slice(i + 2),
        case: name.slice(0, i) + name.charAt(i).toUpperCase() + name.slice(i + 1),
      }[slip]
      return given === name || createNearestFinder(['0', name, '1'])(given) === name
    }),
  )
  t.end()
})

t.test('any text may be compared with any other', (t) => {
  const any = fc.string({ unit: codePoint })
  fc.assert(
    fc.property(any, fc.array(any), (given, names) => {
      const found = createNearestFinder(names)(given)
      return found === undefined || (found !== given && names.includes(found))
    }),
  )
  t.end()
})

/** By recursion, as optimal string alignment is defined. */
function plainDistance(a: string, b: string): number {
  const known = new Map<string, number>()
  const of = (i: number, j: number): number => {
    if (i === 0 || j === 0) return i + j
    const key = `${i} ${j}`
    const found = known.get(key)
    if (found !== undefined) return found
    const ways = [of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)]
    if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) ways.push(of(i - 2, j - 2) + 1)
    const least = Math.min(...ways)
    known.set(key, least)
    return least
  }
  return of(a.length, b.length)
}
