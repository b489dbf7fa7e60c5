import { PUBLIC_KEY, randomName, type StoredEvent, until } from '../helper.js'
import { call, type Findings, INSIST_LIMIT_MS, insist } from './calls.js'
import type { Ledger } from './ledger.js'
import { Producer } from './producer.js'

const DAY_MS = 86_400_000

/** The URL to write to, which is always the same service, and the URLs to read from. */
export interface Urls {
  write(): string
  read(): string
}

/** A client that makes one call after the other, and checks each. */
export interface Client {
  step(): Promise<void>
  /** Checks the state after the last step. */
  finish?(): Promise<void>
}

/** Sends events, single and in batches, with and without an Idempotency-Key, and looks for the last one. */
export class EventClient implements Client {
  readonly #producer: Producer
  readonly #urls: Urls
  readonly #ledger: Ledger
  readonly #findings: Findings
  readonly #batch: number
  #steps = 0

  constructor(urls: Urls, ledger: Ledger, findings: Findings, batch: number) {
    this.#producer = new Producer(ledger, urls.write)
    this.#urls = urls
    this.#ledger = ledger
    this.#findings = findings
    this.#batch = batch
  }

  async step(): Promise<void> {
    const step = this.#steps++
    const count = step % 2 === 0 ? 1 : this.#batch
    if (step % 4 < 2) await this.#producer.insist(count)
    else if ((await this.#producer.send(count)) !== 'answered') return
    if (step % 4 === 0) await this.#readById()
    else if (step % 4 === 3) await this.#readLast()
  }

  async #readLast(): Promise<void> {
    const { name, last } = this.#producer
    const reply = await call(this.#urls.read(), { path: `/public/events?distinct_id=${name}&order=desc&limit=1` })
    if (reply?.status !== 200 || reply.body.pending > 0) return
    const [event] = reply.body.events as StoredEvent[]
    // A search that reached its time limit may have found nothing; the response says so.
    if (!event && reply.body.hasMore) return
    this.#findings.counts.reads++
    if (event?.properties.number !== last) {
      this.#findings.blame('unread', `${name} sent ${last}, and the last one found is ${event?.properties.number}`)
    }
  }

  async #readById(): Promise<void> {
    const { name, last } = this.#producer
    const id = this.#ledger.idOf(name, last)
    const reply = await call(this.#urls.read(), { path: `/public/events/${id}` })
    if (reply === null || reply.status >= 500) return
    this.#findings.counts.reads++
    if (reply.status !== 200 || reply.body.event.properties.number !== last) {
      this.#findings.blame('unread', `${name} ${last} as ${id}: ${reply.text}`)
    }
  }
}

/** Sends events, edits each of them twice and deletes some, all at the same time. */
export class EditingClient implements Client {
  readonly #producer: Producer
  readonly #urls: Urls
  readonly #ledger: Ledger
  readonly #findings: Findings

  constructor(urls: Urls, ledger: Ledger, findings: Findings) {
    this.#producer = new Producer(ledger, urls.write)
    this.#urls = urls
    this.#ledger = ledger
    this.#findings = findings
  }

  async step(): Promise<void> {
    await this.#producer.insist()
    const { name, last: number } = this.#producer
    const path = `/public/events/${this.#ledger.idOf(name, number)}`
    for (const edit of [1, 2]) {
      const edited = await insist(
        this.#urls.read,
        { method: 'PUT', path, body: { properties: { number, edit } } },
        this.#findings,
      )
      this.#findings.counts.edits++
      if (edited.reply.status === 200) this.#ledger.noteEdit(name, number, edit)
      else this.#findings.blame('rejected', `edit ${edit} of ${name} ${number}: ${edited.reply.text}`)
    }
    const read = await call(this.#urls.read(), { path })
    if (read && read.status < 500 && read.body.event?.properties.edit !== 2) {
      this.#findings.blame('unread', `edit 2 of ${name} ${number}: ${read.text}`)
    }
    if (number % 3 === 0) await this.#delete(path, number)
  }

  async #delete(path: string, number: number): Promise<void> {
    const { name } = this.#producer
    const { reply, tries } = await insist(this.#urls.read, { method: 'DELETE', path }, this.#findings)
    this.#findings.counts.deletions++
    this.#ledger.noteDeletion(name, number)
    const isGone = reply.status === 200 || (reply.status === 404 && tries > 1)
    if (!isGone) this.#findings.blame('rejected', `deletion of ${name} ${number}: ${reply.text}`)
    const read = await call(this.#urls.read(), { path })
    if (read && read.status < 500 && read.status !== 404) {
      this.#findings.blame('unread', `deletion of ${name} ${number}: ${read.text}`)
    }
  }
}

/** Sends each event at least twice, with an `insert_id`, and asks how many there are. */
export class RepeatingClient implements Client {
  readonly #producer: Producer
  readonly #urls: Urls
  readonly #findings: Findings

  constructor(urls: Urls, ledger: Ledger, findings: Findings) {
    this.#producer = new Producer(ledger, urls.write)
    this.#urls = urls
    this.#findings = findings
  }

  async step(): Promise<void> {
    await this.#producer.repeat(1 + Math.floor(Math.random() * 20))
    await this.#ask()
  }

  async finish(): Promise<void> {
    await until('an answer about all events', () => this.#ask(), INSIST_LIMIT_MS)
  }

  /** @returns whether there was an answer about all events */
  async #ask(): Promise<boolean> {
    const { name, last } = this.#producer
    const question = {
      kind: 'series',
      series: [{ event: 'numbered', where: ['is', 'distinct_id', [name]] }],
      interval: 'none',
      ...{ from: Date.now() - DAY_MS, to: Date.now() + DAY_MS },
    }
    const reply = await call(this.#urls.read(), { method: 'POST', path: '/public/query', body: question })
    if (reply === null || reply.status === 503 || reply.body.pending > 0) return false
    this.#findings.counts.answers++
    const total = reply.body.results?.[0]?.total
    if (total !== last + 1) this.#findings.blame('miscounted', `${last + 1} events of ${name}: ${reply.text}`)
    return true
  }
}

/** Sends events and a profile of a new user, and erases the user. */
export class ErasingClient implements Client {
  readonly #urls: Urls
  readonly #ledger: Ledger
  readonly #findings: Findings

  constructor(urls: Urls, ledger: Ledger, findings: Findings) {
    this.#urls = urls
    this.#ledger = ledger
    this.#findings = findings
  }

  async step(): Promise<void> {
    const producer = new Producer(this.#ledger, this.#urls.write)
    const { name } = producer
    await producer.insist(1 + Math.floor(Math.random() * 5))
    await producer.repeat(2)
    const profile = { distinct_id: name, operations: { $set: { name } } }
    await this.#insist('/public/users/profile', profile)
    await this.#insist('/public/users/erase', { distinct_ids: [name] })
    this.#findings.counts.erasures++
    for (let number = 0; number <= producer.last; number++) this.#ledger.noteDeletion(name, number)
    const user = await call(this.#urls.read(), { path: `/public/users/${name}` })
    if (user && user.status < 500 && user.status !== 404) {
      this.#findings.blame('unread', `the erasure of ${name}: ${user.text}`)
    }
    const found = await call(this.#urls.read(), { path: `/public/events?distinct_id=${name}` })
    if (found?.status === 200 && found.body.events.length > 0) {
      this.#findings.blame('unread', `the erasure of ${name}: ${found.text}`)
    }
  }

  async #insist(path: string, body: object): Promise<void> {
    const { reply } = await insist(this.#urls.write, { method: 'POST', path, body }, this.#findings)
    if (reply.status !== 200) this.#findings.blame('rejected', `${path}: ${reply.text}`)
  }
}

const MAX_CHANGES = 400

/**
 * A profile that several clients change at the same time: every change counts once, and those of one client keep their
 * order.
 */
export class SharedProfile {
  readonly name = randomName('user')
  changes = 0
  readonly appended = new Map<string, number>()
}

export class ProfileClient implements Client {
  readonly #urls: Urls
  readonly #findings: Findings
  readonly #name = randomName('client')
  readonly #profiles: SharedProfile[]

  /** @param profiles a new one is added when one is full */
  constructor(urls: Urls, findings: Findings, profiles: SharedProfile[]) {
    this.#urls = urls
    this.#findings = findings
    this.#profiles = profiles
  }

  async step(): Promise<void> {
    const profile = this.#profiles.at(-1)
    if (!profile || profile.changes >= MAX_CHANGES) {
      this.#profiles.push(new SharedProfile())
      return
    }
    const number = profile.appended.get(this.#name) ?? 0
    profile.changes++
    profile.appended.set(this.#name, number + 1)
    const { reply } = await insist(
      this.#urls.write,
      {
        method: 'POST',
        path: '/public/users/profile',
        body: { distinct_id: profile.name, operations: { $add: { count: 1 }, $append: { [this.#name]: number } } },
        idempotencyKey: `${profile.name} ${this.#name} ${number}`,
      },
      this.#findings,
    )
    this.#findings.counts.profileChanges++
    if (reply.status !== 200) this.#findings.blame('rejected', `change of ${profile.name}: ${reply.text}`)
    const read = await call(this.#urls.read(), { path: `/public/users/${profile.name}` })
    if (read === null || read.status >= 500) return
    const own = read.body.user?.properties[this.#name] as number[] | undefined
    if (own?.at(-1) !== number) this.#findings.blame('unread', `change ${number} of ${profile.name}: ${read.text}`)
  }

  async finish(): Promise<void> {
    for (const profile of this.#profiles) {
      const { reply } = await insist(this.#urls.read, { path: `/public/users/${profile.name}` }, this.#findings)
      const properties = reply.body.user?.properties ?? {}
      const own = JSON.stringify(properties[this.#name] ?? [])
      const wanted = JSON.stringify([...Array(profile.appended.get(this.#name) ?? 0).keys()])
      if ((properties.count ?? 0) !== profile.changes || own !== wanted) {
        const rest = `${this.#name} appended ${wanted} and finds ${own}`
        this.#findings.blame('miscounted', `${profile.name}: ${properties.count} of ${profile.changes}, ${rest}`)
      }
    }
  }
}

/** Starts sessions, updates them and ends them. */
export class SessionClient implements Client {
  readonly #urls: Urls
  readonly #findings: Findings
  readonly #name = randomName('visitor')
  #sessions = 0

  constructor(urls: Urls, findings: Findings) {
    this.#urls = urls
    this.#findings = findings
  }

  async step(): Promise<void> {
    const session = `${this.#name}-${this.#sessions++}`
    await this.#send('start', session, 0)
    for (const step of [1, 2]) {
      await this.#send('update', session, step)
      await this.#look(session, (found) => found?.properties.step === step && found.duration === step)
    }
    await this.#send('end', session)
    await this.#look(session, isCompleted)
    this.#findings.counts.sessions++
  }

  async finish(): Promise<void> {
    const path = `/public/sessions?distinct_id=${this.#name}&limit=1000`
    for (let page = 1, left = this.#sessions; ; page++) {
      const { reply } = await insist(this.#urls.read, { path: `${path}&page=${page}` }, this.#findings)
      const sessions = (reply.body.sessions ?? []) as FoundSession[]
      left -= sessions.length
      const wrong = sessions.find((session) => !isCompleted(session))
      if (wrong) this.#findings.blame('miscounted', `a session in the list: ${JSON.stringify(wrong)}`)
      if (reply.body.hasMore) continue
      if (left !== 0) this.#findings.blame('miscounted', `${left} of ${this.#sessions} sessions are not in the list`)
      return
    }
  }

  async #send(path: 'start' | 'update' | 'end', session: string, step?: number): Promise<void> {
    const more = step === undefined ? {} : { properties: { step }, duration: step }
    const body = { distinct_id: this.#name, session_id: session, ...more }
    const { reply } = await insist(
      this.#urls.write,
      { method: 'POST', path: `/public/sessions/${path}`, body, apiKey: PUBLIC_KEY },
      this.#findings,
    )
    if (reply.status !== 200) this.#findings.blame('rejected', `${path} of ${session}: ${reply.text}`)
  }

  async #look(session: string, isRight: (found: FoundSession | undefined) => boolean): Promise<void> {
    const reply = await call(this.#urls.read(), { path: `/public/sessions/${session}` })
    if (reply === null || reply.status >= 500) return
    if (!isRight(reply.body.session)) this.#findings.blame('unread', `session ${session}: ${reply.text}`)
  }
}

interface FoundSession {
  state: string
  properties: { step: number }
  duration: number
}

function isCompleted(session: FoundSession | undefined): boolean {
  return session?.state === 'completed' && session.properties.step === 2 && session.duration === 2
}
