import { CallError, send } from '../../api/call.js'
import { parseMetrics } from './prometheus.js'
import type { Snapshot } from './snapshots.js'

/** Reads the current metrics of the service. @throws CallError */
export async function readSnapshot(): Promise<Snapshot> {
  const [metrics, notReady] = await Promise.all([send('GET', '/metrics'), readWhyNotReady()])
  const text = await metrics.text()
  return { at: Date.now(), samples: parseMetrics(text), notReady }
}

async function readWhyNotReady(): Promise<string | null> {
  try {
    await send('GET', '/health/ready')
    return null
  } catch (error) {
    if (error instanceof CallError && error.code === 'unavailable') return error.message
    throw error
  }
}
