/** Uses something that is being opened, and closes it in any case. */
export async function using<Opened extends { close(): Promise<void> }, Result>(
  opening: Promise<Opened>,
  use: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const opened = await opening
  try {
    return await use(opened)
  } finally {
    await opened.close()
  }
}
