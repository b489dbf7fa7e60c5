import { Tallyhouse, type TallyhouseOptions } from './index.js'

/** The stub that a page uses until this script has loaded; it holds the calls made so far. */
interface Early {
  q: ['track' | 'identify' | 'reset' | 'optOut' | 'optIn', unknown[]][]
}

const page = window as { tallyhouse?: Tallyhouse | Early }
const { tallyhouse: early } = page
// The page may include the script twice.
if (!(early && 'sessionId' in early)) {
  const { dataset, src } = document.currentScript as HTMLScriptElement
  // data-hash and data-hash="true" mean the same.
  const attributes = Object.entries(dataset).map(([name, value]) => [name, value === 'false' ? false : value || true])
  const url = new URL(dataset.url ?? '.', src).href
  const tallyhouse = new Tallyhouse({ ...(Object.fromEntries(attributes) as TallyhouseOptions), url })
  page.tallyhouse = tallyhouse
  for (const [name, args] of early?.q ?? []) (tallyhouse[name] as (...args: unknown[]) => void)?.(...args)
}
