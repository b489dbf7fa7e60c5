/** Tries one part after another until one succeeds. @throws the first failure if none does */
export async function firstSuccess<Part, Result>(
  parts: readonly Part[],
  attempt: (part: Part) => Promise<Result>,
): Promise<Result> {
  let failure: unknown
  for (const part of parts) {
    try {
      return await attempt(part)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}
