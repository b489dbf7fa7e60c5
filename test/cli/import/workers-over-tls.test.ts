import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import t, { type Test } from 'tap'
import {
  realEvents,
  SECRET_KEY,
  type Service,
  settingsFor,
  startService,
  temporaryFolder,
  until,
} from '../../helper.js'
import { runProcess } from '../command-line.js'
import { essence } from '../essence.js'
import { ownCertificate, WITHOUT_OPENSSL } from '../own-certificate.js'

/** @returns the port of a proxy that terminates TLS in front of the service */
async function startTlsProxy(t: Test, own: { key: Buffer; cert: Buffer }, service: Service): Promise<number> {
  const { hostname, port } = new URL(service.url)
  const proxy = createServer({ key: own.key, cert: own.cert }, (client) => {
    const onward = connect(Number(port), hostname)
    client.pipe(onward).pipe(client)
    for (const [one, other] of [[client, onward] as const, [onward, client] as const]) {
      one.on('error', () => undefined).on('close', () => other.destroy())
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => proxy.close())
  return (proxy.address() as AddressInfo).port
}

async function eventsOf({ url }: Service): Promise<string[]> {
  const { code, stdout, stderr } = await runProcess(['export', '--url', url])
  t.equal(code, 0, stderr)
  return stdout.trimEnd().split('\n').map(essence).sort()
}

t.test('an import over TLS into two workers, which know each other’s batches', { skip: WITHOUT_OPENSSL }, async (t) => {
  const own = await ownCertificate(t)
  const service = await startService(t, { ...(await settingsFor(t, 'servers')), WORKERS: '2', FACTS: 'off' })
  const port = await startTlsProxy(t, own, service)
  const lines = await realEvents()
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, lines.join('\n'))
  const state = `${path}.import.json`
  const args = ['import', '--url', `https://127.0.0.1:${port}`, path]
  const env = { SECRET_KEY, NODE_EXTRA_CA_CERTS: own.path }

  t.match(await runProcess(args), { code: 1, stderr: /its TLS certificate is not accepted/ })
  const first = await runProcess(args, '', env)
  t.equal(first.code, 0, first.stderr)
  const wanted = lines.map(essence).sort()
  t.strictSame(await eventsOf(service), wanted)
  // Metrics of a slow worker are left out.
  await until('events of both workers', async () => {
    const metrics = await (await fetch(`${service.url}/metrics`)).text()
    return ['worker-1', 'worker-2'].every((worker) =>
      new RegExp(`^tallyhouse_events_accepted_total\\{process="${worker}"\\} [1-9]`, 'm').test(metrics),
    )
  })

  // Simulates a kill before any response was recorded: the same batches are sent with the same keys.
  const { done, ...begun } = JSON.parse(await readFile(state, 'utf8'))
  const nothing = Object.fromEntries(Object.keys(done).map((name) => [name, 0]))
  const sent = [{ upTo: done.batches, at: new Date().toISOString() }]
  await writeFile(state, JSON.stringify({ ...begun, done: nothing, sent, finishedAt: null }))
  const second = await runProcess(args, '', env)
  t.equal(second.code, 0, second.stderr)
  t.strictSame(await eventsOf(service), wanted, 'nothing is stored twice')
})
