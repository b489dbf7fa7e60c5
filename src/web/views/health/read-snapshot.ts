import { CallError, send } from '../../api/call.js'
import { parseMetrics } from './prometheus.js'
import type { Reading } from './snapshots.js'

/** What the service measures now. @throws CallError */
export async function readHealth(): Promise<Reading> {
  const [metrics, notReady] = await Promise.all([send('GET', '/metrics'), whyNotReady()])
  const text = await metrics.text()
  return { at: Date.now(), samples: parseMetrics(text), notReady }
}

async function whyNotReady(): Promise<string | null> {
  try {
    await send('GET', '/health/ready')
    return null
  } catch (error) {
    if (error instanceof CallError && error.code === 'unavailable') return error.message
    throw error
  }
}
