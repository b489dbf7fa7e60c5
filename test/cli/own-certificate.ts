import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryFolder } from '../helper.js'

export const WITHOUT_OPENSSL = spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl'

/** A self-signed certificate for this machine. */
export async function ownCertificate(t: Test) {
  const folder = await temporaryFolder(t)
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1'
  const options = ['-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost', '-addext', names]
  spawnSync('openssl', ['req', '-x509', ...options, '-keyout', key, '-out', cert])
  return { path: cert, key: await readFile(key), cert: await readFile(cert) }
}
