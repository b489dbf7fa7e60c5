import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Command, type CommandIo, parseOptions, UsageError } from './command.js'
import { type SdkTarget, TEST_NAME, VENDORS, type VendorHelp } from './doctor-sdks.js'
import { defaultUrl, normalizeUrl } from './target.js'

const USAGE = `Usage: tallyhouse doctor --sdk NAME [options]

Prints the line to change in your code so that another product's SDK sends its events here.

  --sdk NAME   ${Object.keys(VENDORS).join(', ')}
  --url URL    address at which the SDK reaches the service (default: http://HOST:PORT from the
               settings)
  --key KEY    the write key (default: the variable WRITE_KEY). The store only has hashes of keys, so
               a lost key cannot be shown again; create another one:
               tallyhouse keys create --project NAME --kind write
  --check      also sends one test event the way that SDK does, and reads it back if the variable
               READ_KEY or SECRET_KEY has a key that may read. The event stays: it is named
               "${TEST_NAME}", and so is its user

With --check the exit code is 1 if the SDK would not consider the event delivered, or if it cannot
be read back.`

const PLACEHOLDER = 'YOUR_WRITE_KEY'
const CREATE_KEY_HINT = 'Create a write key: tallyhouse keys create --project NAME --kind write\n'
const TIMEOUT_MS = 10_000
const READ_INTERVAL_MS = 200

export const command: Command = {
  summary: "shows how to point another product's SDK at the service, and checks it",
  usage: USAGE,
  async run(args, io) {
    const { vendor, place, isChecked } = await parse(args, io)
    for (const [sdk, code] of Object.entries(vendor.sdks)) io.stdout.write(`// ${sdk}\n${code(place)}\n`)
    if (place.key === PLACEHOLDER) {
      io.stderr.write(CREATE_KEY_HINT)
      if (isChecked) throw new UsageError('--check needs the key: --key, or the variable WRITE_KEY.')
      return 0
    }
    if (place.key.startsWith('sk_')) io.stderr.write('This is a secret key. Never put it into a page or an app.\n')
    return !isChecked || (await check(vendor, place, io)) ? 0 : 1
  },
}

/** Sends an event as an SDK does. @returns whether it arrived, or was at least accepted if it cannot be read back */
async function check(vendor: VendorHelp, place: SdkTarget, io: CommandIo): Promise<boolean> {
  const id = randomUUID()
  const { path, headers, body } = vendor.request(place, id)
  const response = await call(`${place.url}${path}`, io, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  const text = await response.text()
  if (response.status >= 300 && response.status < 400) {
    io.stderr.write(`Something redirects ${path} (${response.status}): SDKs lose events that way.\n`)
    return false
  }
  if (!vendor.isTaken(response.status, text)) {
    io.stderr.write(`The event was not accepted: ${response.status} ${text.slice(0, 500).replaceAll(place.key, '…')}\n`)
    return false
  }
  const readKey = io.env.READ_KEY || io.env.SECRET_KEY
  if (!readKey) {
    io.stderr.write('The event was accepted. Set READ_KEY or SECRET_KEY to have it read back.\n')
    return true
  }
  return await readBack(place, id, readKey, io)
}

async function readBack({ url }: SdkTarget, id: string, key: string, io: CommandIo): Promise<boolean> {
  const query = new URLSearchParams({ event: TEST_NAME, distinct_id: TEST_NAME, order: 'desc', limit: '100' })
  const deadline = Date.now() + TIMEOUT_MS
  do {
    const response = await call(`${url}/public/events?${query}`, io, { headers: { 'x-api-key': key } })
    const text = await response.text()
    if (response.status !== 200) {
      io.stderr.write(`The event was accepted, but reading it back failed: ${response.status} ${text.slice(0, 500)}\n`)
      return false
    }
    if (text.includes(id)) {
      io.stderr.write('The event was accepted and read back.\n')
      return true
    }
    await wait(READ_INTERVAL_MS, null, { signal: io.signal })
  } while (Date.now() < deadline)
  io.stderr.write('The event was accepted, but was not found. Do both keys belong to the same project?\n')
  return false
}

async function call(url: string, { signal }: CommandIo, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, {
      ...init,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
  } catch (error) {
    throw new Error(`The service cannot be reached at ${new URL(url).origin}. Is it running?`, { cause: error })
  }
}

async function parse(
  args: string[],
  io: CommandIo,
): Promise<{ vendor: VendorHelp; place: SdkTarget; isChecked: boolean }> {
  const {
    sdk,
    url: given,
    key = io.env.WRITE_KEY || PLACEHOLDER,
    check,
  } = parseOptions({
    args,
    options: {
      sdk: { type: 'string' },
      url: { type: 'string' },
      key: { type: 'string' },
      check: { type: 'boolean', default: false },
    },
  }).values
  const vendor = sdk !== undefined && Object.hasOwn(VENDORS, sdk) ? VENDORS[sdk] : undefined
  if (!vendor) throw new UsageError(`Specify the SDK: --sdk ${Object.keys(VENDORS).join(', ')}.`)
  if (/^[pr]k_/.test(key)) throw new UsageError('This key cannot send events. A write key begins with wk_.')
  if (!/^[\w.-]+$/.test(key)) throw new UsageError('--key is not a valid key.')
  const url = normalizeUrl(given ?? (await defaultUrl(io.env)))
  const { protocol } = new URL(url)
  const place = { url, host: url.slice(`${protocol}//`.length), protocol: protocol.slice(0, -1), key }
  return { vendor, place, isChecked: check }
}
