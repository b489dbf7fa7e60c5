import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const QUESTIONS = fileURLToPath(new URL('../src/contract/questions.ts', import.meta.url))
/** Modules from which the types of questions are derived. */
const SCHEMAS = /^@sinclair\/typebox$|\/(?:fields|question-schemas|answer-schemas)\.js$/
const { NoTruncation, InTypeAlias, UseSingleQuotesForStringLiteralType } = ts.TypeFormatFlags

/**
 * Compiles a client. The types of questions are written out, because users of the package do not have TypeBox.
 * @param {string} config path of its tsconfig.json
 * @param {ts.CompilerOptions} options in addition to those
 * @throws Error if it does not compile
 */
export function compile(config, options) {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: refuse }
  const parsed = ts.getParsedCommandLineOfConfigFile(config, options, host)
  if (!parsed) throw new Error(`${config} cannot be read.`)
  const files = ts.createCompilerHost(parsed.options)
  const { readFile } = files
  const source = ts.createProgram(parsed.fileNames, parsed.options, files)
  const text = source.getSourceFile(QUESTIONS) ? writeOutTypes(source) : ''
  files.readFile = (path) => (resolve(path) === QUESTIONS ? text : readFile(path))
  const program = ts.createProgram(parsed.fileNames, parsed.options, files)
  const faults = ts.getPreEmitDiagnostics(program)
  for (const fault of [...faults, ...program.emit().diagnostics]) refuse(fault)
}

/** @param {ts.Program} program @returns the module of the types of questions, without its schemas */
function writeOutTypes(program) {
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(QUESTIONS)
  const texts = source?.statements.map((statement) => {
    const text = statement.getFullText()
    if (ts.isImportDeclaration(statement)) {
      const { moduleSpecifier } = statement
      return ts.isStringLiteral(moduleSpecifier) && SCHEMAS.test(moduleSpecifier.text) ? '' : text
    }
    if (!ts.isTypeAliasDeclaration(statement) || !/\btypeof /.test(text)) return text
    const type = checker.getTypeAtLocation(statement.name)
    const flags = NoTruncation | InTypeAlias | UseSingleQuotesForStringLiteralType
    const comment = text.slice(0, -statement.getText().length)
    return `${comment}export type ${statement.name.text} = ${checker.typeToString(type, statement, flags)}`
  })
  return texts?.join('') ?? ''
}

/** @param {ts.Diagnostic} fault @returns {never} */
function refuse(fault) {
  const format = { getCurrentDirectory: () => process.cwd(), getCanonicalFileName: String, getNewLine: () => '\n' }
  throw new Error(ts.formatDiagnostic(fault, format))
}
