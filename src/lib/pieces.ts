/** Groups values: `size` in each piece, except the last. */
export function* pieces<T>(values: Iterable<T>, size: number): Generator<T[]> {
  let piece: T[] = []
  for (const value of values) {
    piece.push(value)
    if (piece.length < size) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
}

/** Like `pieces`, for values that arrive over time. */
export async function* piecesAsync<T>(values: Iterable<T> | AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let piece: T[] = []
  for await (const value of values) {
    piece.push(value)
    if (piece.length < size) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
}
