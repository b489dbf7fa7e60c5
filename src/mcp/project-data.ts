/** The data of one project that the tools read, over HTTP or inside the service. */
export interface ProjectData {
  /** @see `POST /public/query` */
  ask(question: unknown, signal: AbortSignal): Promise<string>
  /** @see `GET /public/schema/events` */
  eventNames(signal: AbortSignal): Promise<string>
  /** @see `GET /public/schema/properties` */
  propertyNames(wanted: { event?: string }, signal: AbortSignal): Promise<string>
  /** @see `GET /public/schema/values` */
  values(wanted: ValuesWanted, signal: AbortSignal): Promise<string>
  /** @see `GET /public/users/:userId` */
  user(distinctId: string, signal: AbortSignal): Promise<string>
  /** Newest first. @see `GET /public/events` */
  events(wanted: EventsWanted, signal: AbortSignal): Promise<string>
}

// Each resolves with the body of the call's response, a JSON text, and throws ApiError.

export interface ValuesWanted {
  field: string
  event?: string
  search?: string
  limit: number
}

export interface EventsWanted {
  event?: string
  distinct_id?: string
  /** epoch ms */
  from?: number
  to?: number
  limit: number
  cursor?: string
}
