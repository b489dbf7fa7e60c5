/** A part of an export that is on disk. */
export interface Part {
  rows: number
  bytes: number
  /** the cursor after its last row */
  next: string
  /** whether it is the last one, for now */
  isLast: boolean
  /** accepted events that were not in the store yet */
  pending: number
}

/** What was written before. */
export interface Written {
  /** parts that had bytes */
  pages: number
  /** of the file; of all files of a folder */
  bytes: number
}

/** Writes an export, one part after the other. */
export interface Parts {
  /** Reads the next part and writes it behind what was written before; resolves when it is on disk. */
  write(before: Written): Promise<Part>
  close(): Promise<void>
}
