import { StoreError } from '../clickhouse/errors.js'
import { type Config, loadConfig } from '../config.js'
import { type CommandIo, parseOptions, UsageError } from './command.js'

type Transfer = (folder: string, config: Config, io: CommandIo) => Promise<boolean>

/**
 * Runs `export --all FOLDER` or `import --all FOLDER`, which open the store directly instead of going through a
 * service.
 */
export async function transferAll(transfer: Transfer, args: string[], io: CommandIo): Promise<number> {
  const folder = parseFolder(args)
  const isWhole = await transfer(folder, loadConfig(io.env), io).catch((error: unknown) => {
    throw error instanceof StoreError ? new Error(error.reason) : error
  })
  if (isWhole) return 0
  io.stderr.write('Interrupted. Rerun the command to resume.\n')
  return 1
}

function parseFolder(args: string[]): string {
  try {
    const { values } = parseOptions({ args, options: { all: { type: 'string' } } })
    if (values.all) return values.all
  } catch (error) {
    if (error instanceof UsageError) throw new UsageError(`${error.message} --all FOLDER takes no other option.`)
    throw error
  }
  throw new UsageError('Name a folder: --all FOLDER.')
}
