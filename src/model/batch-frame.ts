/** The text around the events of a batch. Lines between the two become a batch when commas replace their line ends. */
export const BATCH_HEAD: Buffer = Buffer.from('{"events":[')
export const BATCH_TAIL: Buffer = Buffer.from(']}')
