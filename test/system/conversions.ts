import ts from 'typescript'

/** A place where a value of an unknown type becomes a string or a number. */
export interface Conversion {
  file: string
  line: number
  text: string
}

const FUNCTIONS = new Set(['String', 'Number', 'BigInt', 'Date', 'parseInt', 'parseFloat', 'isNaN', 'isFinite'])
const METHODS = new Set(['test', 'exec'])
const SIGNS = new Set([ts.SyntaxKind.PlusToken, ts.SyntaxKind.MinusToken, ts.SyntaxKind.TildeToken])
const SUMS = new Set([ts.SyntaxKind.PlusToken, ts.SyntaxKind.PlusEqualsToken])
/** Fields of our schemas that are strings, although their types do not say so. */
const OWN = new Set(['schema.message', 'Question.message'])

/**
 * Finds what converts a value whose type is `any` or `unknown`: `String()`, `Number()`, a template, a sign, `+`. The
 * value may be one that somebody sent, with a member `toString` or `valueOf` that is no function: then the conversion
 * throws a TypeError. Values that a `catch` caught do not count.
 * @param files paths of sources
 */
export function findConversions(files: readonly string[], options: ts.CompilerOptions): Conversion[] {
  const program = ts.createProgram(files, options)
  const checker = program.getTypeChecker()
  const found: Conversion[] = []
  const isUnknown = (node: ts.Expression) => {
    const { flags } = checker.getTypeAtLocation(node)
    return (
      (flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) !== 0 && !isCaught(node, checker) && !OWN.has(node.getText())
    )
  }
  for (const file of files) {
    const source = program.getSourceFile(file)
    if (!source) throw new Error(`no source: ${file}`)
    const visit = (node: ts.Node): void => {
      if (convertedBy(node).some(isUnknown)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart())
        found.push({ file, line: line + 1, text: node.getText() })
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
  }
  return found
}

/** The expressions whose values a node turns into strings or numbers. */
function convertedBy(node: ts.Node): ts.Expression[] {
  if (ts.isTemplateSpan(node)) return [node.expression]
  if (ts.isPrefixUnaryExpression(node) && SIGNS.has(node.operator)) return [node.operand]
  if (ts.isBinaryExpression(node) && SUMS.has(node.operatorToken.kind)) return [node.left, node.right]
  if (ts.isElementAccessExpression(node)) return [node.argumentExpression]
  if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return []
  const { expression, arguments: given = [] } = node
  if (ts.isIdentifier(expression)) return FUNCTIONS.has(expression.text) ? [...given] : []
  if (!ts.isPropertyAccessExpression(expression)) return []
  if (METHODS.has(expression.name.text)) return [...given]
  return expression.name.text === 'toString' ? [expression.expression] : []
}

function isCaught(node: ts.Expression, checker: ts.TypeChecker): boolean {
  const declaration = checker.getSymbolAtLocation(node)?.valueDeclaration
  return declaration !== undefined && ts.isCatchClause(declaration.parent)
}
