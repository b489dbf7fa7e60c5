import { createHash } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import type { PageSettings } from '../contract/page-fields.js'
import type { QuestionDefaults } from '../contract/project-settings.js'
import type { FactsReader } from '../reads/facts-reader.js'
import type { SessionFactsMaker } from '../store/session-facts.js'
import { findRewriteSettings } from './server-settings.js'
import { Sessions } from './sessions.js'
import { type Query, type QueryContext, Statement } from './statement.js'
import { ValueColumns } from './value-columns.js'

export interface SessionFactsSourceOptions {
  shards: QueryContext['shards'] & Pick<Shards, 'each'>
  facts: Pick<FactsReader, 'readColumns'>
  /** the project's settings for sessions and pages */
  getSettings: (projectId: string) => QuestionDefaults & PageSettings
  /** epoch ms before which events or sessions of a project may have expired; null: none have */
  getExpiry: (projectId: string) => number | null
}

/** Builds the statements that compute session facts from the facts of events and the sessions of the calls. */
export class SessionFactsSource implements SessionFactsMaker {
  readonly #options: SessionFactsSourceOptions

  constructor(options: SessionFactsSourceOptions) {
    this.#options = options
  }

  define(projectId: string): string {
    return identifySessions(this.#options.getSettings(projectId))
  }

  since(projectId: string): number | null {
    return this.#options.getExpiry(projectId)
  }

  async select(
    projectId: string,
    { from, to, step, repairsTexts }: { from: number; to: number; step: number; repairsTexts: boolean },
  ): Promise<Query & { definition: string }> {
    const { shards, facts, getSettings } = this.#options
    const values = new ValueColumns(await facts.readColumns())
    const pages = getSettings(projectId)
    const context: QueryContext = {
      projectId,
      now: to,
      shards,
      // Aliases are resolved when the facts are read.
      hasAliases: false,
      repairsTexts,
      pages,
      facts: { hi: [0n], hasLater: false, step: [step], findColumn: (source) => values.find(source) },
    }
    const query = buildFacts(context, { from, to })
    // With the rewrites, ClickHouse computes the fields of a page again for each column: 20 s for 2000 sessions.
    const settings = { ...query.settings, ...(await findRewriteSettings(shards)) }
    return { definition: identifySessions(pages), ...query, settings }
  }
}

function buildFacts(context: QueryContext, { from, to }: { from: number; to: number }): Query {
  const statement = new Statement(context, { namesUsers: true })
  const scope = { definition: 'id', from, to: to + DAY_MS, timezone: 'UTC' } as const
  return statement.query(new Sessions(statement, scope).selectFacts({ from, to }))
}

const known = new WeakMap<PageSettings, string>()

/**
 * Identifies a project's definition of sessions, as a UInt64 in decimal digits. It is a hash of a statement, because it
 * must change with the settings of the project and with how a release computes fields.
 */
export function identifySessions(pages: PageSettings): string {
  const found = known.get(pages)
  if (found !== undefined) return found
  const shards = { table: (name: string) => name, areSeveral: false }
  const context = { projectId: '', now: 0, shards, hasAliases: false, repairsTexts: false, pages }
  const { sql, parameters } = buildFacts(context, { from: 0, to: DAY_MS })
  const hash = createHash('sha256')
    .update(JSON.stringify([sql, parameters]))
    .digest()
  const id = String(hash.readBigUInt64LE())
  known.set(pages, id)
  return id
}
