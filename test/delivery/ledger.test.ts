import t from 'tap'
import { FLAWLESS, type Found, Ledger, type Outcome } from './ledger.js'

/** Events of one producer, in the order in which they were read; ids rise along. */
const read = (...numbers: number[]): Found[] =>
  numbers.map((number, i) => ({ producer: 'p', number, eventId: `id-${String(i).padStart(6, '0')}` }))

function ledgerOf(...outcomes: Outcome[]): Ledger {
  const ledger = new Ledger()
  outcomes.forEach((outcome, number) => {
    ledger.note('p', number, 1, outcome)
  })
  return ledger
}

t.test('everything that was acknowledged, once and in order, has no faults', async (t) => {
  const ledger = ledgerOf('answered', 'answered', 'answered')
  t.strictSame(await ledger.verdict(read(0, 1, 2)), FLAWLESS)
  t.strictSame(await ledger.verdict(read(0, 1, 2)), FLAWLESS, 'also when it is read again')
  t.equal(ledger.answered, 3)
})

t.test('a walk that breaks off has no effect', async (t) => {
  const ledger = ledgerOf('answered', 'answered')
  async function* broken() {
    yield* read(0)
    throw new Error('the page was refused')
  }
  await t.rejects(ledger.verdict(broken()))
  t.match(await ledger.verdict(read(1)), { lost: 1, twice: 0 })
  t.strictSame(await ledger.verdict(read(0, 1)), FLAWLESS)
})

t.test('a loss is found, at any place', async (t) => {
  for (const missing of [0, 1, 2]) {
    const ledger = ledgerOf('answered', 'answered', 'answered')
    const verdict = await ledger.verdict(read(...[0, 1, 2].filter((number) => number !== missing)))
    t.strictSame(verdict, { ...FLAWLESS, lost: 1, examples: [`p ${missing} is lost`] })
  }
  t.match(await ledgerOf('answered').verdict([]), { lost: 1 })
})

t.test('a duplicate is found, with the next number or with the same id', async (t) => {
  const ledger = ledgerOf('answered', 'answered')
  t.strictSame(await ledger.verdict(read(0, 1, 1)), { ...FLAWLESS, twice: 1, examples: ['p 1 is twice'] })
  const [first, second] = read(0, 1)
  if (!first || !second) return t.fail('there are two')
  t.match(await ledger.verdict([first, second, second]), { twice: 1, disordered: 1 })
})

t.test('a wrong order is found, of numbers and of ids', async (t) => {
  const ledger = ledgerOf('answered', 'answered', 'answered')
  t.match(await ledger.verdict(read(0, 2, 1)), { disordered: 1, lost: 0, twice: 0 })
  t.match(await ledger.verdict(read(0, 1, 2).map((event) => ({ ...event, eventId: 'same' }))), { disordered: 2 })
})

t.test('data that was refused or never sent must not be there', async (t) => {
  t.match(await ledgerOf('answered', 'refused').verdict(read(0, 1)), { unexpected: 1, lost: 0 })
  t.match(await ledgerOf('answered').verdict(read(0, 7)), { unexpected: 1 })
  t.strictSame(await ledgerOf('answered', 'refused').verdict(read(0)), FLAWLESS)
})

t.test('data without a response may be there once or not at all', async (t) => {
  const ledger = ledgerOf('answered', 'unknown')
  t.strictSame(await ledger.verdict(read(0)), FLAWLESS)
  t.strictSame(await ledger.verdict(read(0, 1)), FLAWLESS)
  t.match(await ledger.verdict(read(0, 1, 1)), { twice: 1 })
})

t.test('the last attempt counts, but a refusal does not undo an attempt without a response', async (t) => {
  const ledger = ledgerOf('unknown')
  ledger.note('p', 0, 1, 'refused')
  t.strictSame(await ledger.verdict(read(0)), FLAWLESS)
  ledger.note('p', 0, 1, 'answered')
  t.match(await ledger.verdict([]), { lost: 1 })
})

t.test('a changed id is found', async (t) => {
  const ledger = ledgerOf('answered')
  ledger.noteId('p', 0, 'id-000000')
  t.strictSame(await ledger.verdict(read(0)), FLAWLESS)
  t.match(await ledger.verdict([{ producer: 'p', number: 0, eventId: 'id-000001' }]), { renamed: 1 })
})

t.test('a missing edit is found, and a deleted event that still exists', async (t) => {
  const ledger = ledgerOf('answered', 'answered')
  ledger.noteEdit('p', 1, 2)
  const [first, second] = read(0, 1)
  if (!first || !second) return t.fail('there are two')
  t.match(await ledger.verdict([first, second]), { unedited: 1, examples: ['p 1 is unedited'] })
  t.match(await ledger.verdict([first, { ...second, edit: 1 }]), { unedited: 1 })
  t.strictSame(await ledger.verdict([first, { ...second, edit: 2 }]), FLAWLESS)
  ledger.noteDeletion('p', 0)
  t.match(await ledger.verdict([first, { ...second, edit: 2 }]), { unexpected: 1 })
  t.strictSame(await ledger.verdict([{ ...second, edit: 2 }]), FLAWLESS)
})

t.test(
  'a walk during the writes may see an event before it is answered, edited or deleted, but misses none',
  async (t) => {
    const ledger = ledgerOf('answered')
    const seeing = (...numbers: number[]) => {
      const reading = ledger.liveReading()
      for (const found of read(...numbers)) reading.see(found)
      return reading
    }
    const [whole, hasGap] = [seeing(0, 1, 2), seeing(0, 2)]
    for (const number of [1, 2]) ledger.note('p', number, 1, 'answered')
    ledger.noteEdit('p', 0, 1)
    ledger.noteDeletion('p', 2)
    t.strictSame(whole.verdict(), FLAWLESS)
    t.strictSame(hasGap.verdict(), { ...FLAWLESS, lost: 1, examples: ['p 1 is lost'] })
    t.strictSame(seeing(0, 1).verdict(), FLAWLESS)
    t.match(seeing(0, 1, 1).verdict(), { twice: 1 })
    t.match(seeing(0, 1, 3).verdict(), { unexpected: 1 })
  },
)

t.test('producers are distinguished', async (t) => {
  const ledger = new Ledger()
  ledger.note('p', 0, 2000, 'answered')
  ledger.note('q', 0, 1, 'answered')
  const events = [...read(...Array(2000).keys()), { producer: 'q', number: 0, eventId: 'jd' }]
  t.strictSame(await ledger.verdict(events), FLAWLESS)
  t.match(await ledger.verdict(events.slice(0, 2000)), { lost: 1, examples: ['q 0 is lost'] })
})
