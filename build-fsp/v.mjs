// <stdin>
import { readFileSync } from "node:fs";

// src/clickhouse/client.ts
import { randomUUID } from "node:crypto";
import { addAbortSignal } from "node:stream";
import { setTimeout as wait2 } from "node:timers/promises";
import { EXCEPTION_TAG_HEADER_NAME } from "@clickhouse/client";

// src/lib/thread-load.ts
var WINDOW_MS = 500;
var BUSY_SHARE = 0.5;
var STEP_MS = 100;
var ThreadHistory = class {
  #read;
  /** oldest first; the second is within the window */
  #moments = [];
  /** @param read default: that of this thread */
  constructor(read = () => performance.eventLoopUtilization()) {
    this.#read = read;
  }
  /** Takes a sample. Call it every STEP_MS. */
  note() {
    this.#moments.push(this.#read());
    this.#trim();
  }
  /** Busy and idle time in the window, or slightly more, and when that period began, in ms since the loop began. */
  window() {
    this.#trim();
    const { active, idle } = this.#moments[0] ?? { active: 0, idle: 0 };
    const now = this.#read();
    return { active: now.active - active, idle: now.idle - idle, since: active + idle };
  }
  /** ms since the loop began */
  get now() {
    return total(this.#read());
  }
  #trim() {
    const start = this.now - WINDOW_MS;
    while (this.#moments[1] && total(this.#moments[1]) <= start) this.#moments.shift();
  }
};
function total({ active, idle }) {
  return active + idle;
}
var own;
function ownHistory() {
  if (own) return own;
  const history = new ThreadHistory();
  history.note();
  setInterval(() => history.note(), STEP_MS).unref();
  own = history;
  return own;
}
var ThreadLoad = class {
  #history;
  #excluded = [];
  /** @param history default: that of this thread */
  constructor(history = ownHistory()) {
    this.#history = history;
  }
  /** Excludes the last `ms`, which the caller used itself and could yield to others. */
  exclude(ms) {
    this.#excluded.push({ at: this.#history.now, ms });
  }
  get isShort() {
    const { active, idle, since } = this.#history.window();
    this.#excluded = this.#excluded.filter(({ at }) => at > since);
    const excluded = this.#excluded.reduce((sum, { ms }) => sum + ms, 0);
    return active + idle >= WINDOW_MS && (active - excluded) / (active + idle) > BUSY_SHARE;
  }
};

// src/clickhouse/connection.ts
import { setMaxListeners } from "node:events";
import {
  ClickHouseError as ClickHouseError2,
  createClient
} from "@clickhouse/client";

// src/clickhouse/errors.ts
import { ClickHouseError } from "@clickhouse/client";

// src/contract/errors.ts
var ERROR_STATUS = {
  invalid_json: 400,
  invalid_request: 400,
  too_many_events: 400,
  not_numeric: 400,
  not_array: 400,
  too_old: 400,
  unauthorized: 401,
  wrong_key_kind: 403,
  invalid_csrf_token: 403,
  not_found: 404,
  session_ended: 409,
  session_owner_mismatch: 409,
  idempotency_conflict: 409,
  alias_conflict: 409,
  revision_conflict: 409,
  key_conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  query_too_large: 422,
  rate_limited: 429,
  quota_exceeded: 429,
  internal: 500,
  store_damaged: 500,
  overloaded: 503,
  unavailable: 503
};
var ApiError = class extends Error {
  name = "ApiError";
  code;
  details;
  /** seconds after which a retry makes sense, if known */
  retryAfter;
  /** the limit that refused the call, for the metrics and Health; never sent */
  limit;
  /** what that limit allows, for the header `ratelimit-limit`, if it fills again with time */
  quota;
  /**
   * @param message a sentence that tells a person what to do; never contains a key, SQL or a path
   * of the server
   * @param more `details` for the caller; `cause` for the log only; `retryAfter` in seconds;
   * `limit` if one was met, and its `quota`
   */
  constructor(code, message, more = {}) {
    super(message, "cause" in more ? { cause: more.cause } : void 0);
    this.code = code;
    this.details = more.details;
    this.retryAfter = more.retryAfter;
    this.limit = more.limit;
    this.quota = more.quota;
  }
  get status() {
    return ERROR_STATUS[this.code];
  }
};

// src/clickhouse/errors.ts
var CODES = {
  CANNOT_PARSE_TEXT: 6,
  CANNOT_PARSE_ESCAPE_SEQUENCE: 25,
  CANNOT_PARSE_QUOTED_STRING: 26,
  CANNOT_PARSE_INPUT_ASSERTION_FAILED: 27,
  CANNOT_PRINT_FLOAT_OR_DOUBLE_NUMBER: 28,
  ATTEMPT_TO_READ_AFTER_EOF: 32,
  CANNOT_READ_ALL_DATA: 33,
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_DATE: 38,
  TOO_LARGE_SIZE_COMPRESSED: 39,
  CHECKSUM_DOESNT_MATCH: 40,
  CANNOT_PARSE_DATETIME: 41,
  UNKNOWN_IDENTIFIER: 47,
  TYPE_MISMATCH: 53,
  UNKNOWN_TABLE: 60,
  SYNTAX_ERROR: 62,
  ARGUMENT_OUT_OF_BOUND: 69,
  CANNOT_CONVERT_TYPE: 70,
  CANNOT_PARSE_NUMBER: 72,
  CANNOT_READ_FROM_FILE_DESCRIPTOR: 74,
  CANNOT_OPEN_FILE: 76,
  UNKNOWN_DATABASE: 81,
  CANNOT_SEEK_THROUGH_FILE: 87,
  UNKNOWN_COMPRESSION_METHOD: 89,
  SIZES_OF_MARKS_FILES_ARE_INCONSISTENT: 91,
  FILE_DOESNT_EXIST: 107,
  INCORRECT_DATA: 117,
  TOO_LARGE_ARRAY_SIZE: 128,
  CANNOT_READ_ARRAY_FROM_TEXT: 130,
  TOO_LARGE_STRING_SIZE: 131,
  ILLEGAL_DIVISION: 153,
  TIMEOUT_EXCEEDED: 159,
  TOO_SLOW: 160,
  READONLY: 164,
  TOO_DEEP_AST: 167,
  TOO_BIG_AST: 168,
  UNKNOWN_USER: 192,
  WRONG_PASSWORD: 193,
  REQUIRED_PASSWORD: 194,
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  SOCKET_TIMEOUT: 209,
  NETWORK_ERROR: 210,
  NO_FILE_IN_DATA_PART: 226,
  UNEXPECTED_FILE_IN_DATA_PART: 227,
  BAD_SIZE_OF_FILE_IN_DATA_PART: 228,
  TOO_MANY_UNEXPECTED_DATA_PARTS: 231,
  ABORTED: 236,
  MEMORY_LIMIT_EXCEEDED: 241,
  TABLE_IS_READ_ONLY: 242,
  NOT_ENOUGH_SPACE: 243,
  CORRUPTED_DATA: 246,
  TOO_MANY_PARTS: 252,
  CANNOT_DECOMPRESS: 271,
  ALL_CONNECTION_TRIES_FAILED: 279,
  TOO_DEEP_RECURSION: 306,
  TOO_FEW_LIVE_REPLICAS: 285,
  UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE: 286,
  REPLICA_IS_NOT_IN_QUORUM: 289,
  UNKNOWN_STATUS_OF_INSERT: 319,
  CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN: 349,
  CANNOT_PARSE_UUID: 376,
  CANNOT_ASSIGN_OPTIMIZE: 388,
  QUERY_WAS_CANCELLED: 394,
  FUNCTION_THROW_IF_VALUE_IS_NON_ZERO: 395,
  TOO_MANY_ROWS: 158,
  TOO_MANY_ROWS_OR_BYTES: 396,
  SEEK_POSITION_OUT_OF_BOUND: 361,
  DECIMAL_OVERFLOW: 407,
  CANNOT_COMPILE_REGEXP: 427,
  UNKNOWN_CODEC: 432,
  CANNOT_PARSE_BOOL: 467,
  VIOLATED_CONSTRAINT: 469,
  ACCESS_DENIED: 497,
  AUTHENTICATION_FAILED: 516,
  CANNOT_PARSE_IPV4: 675,
  CANNOT_PARSE_IPV6: 676,
  UNKNOWN_ELEMENT_OF_ENUM: 691,
  POTENTIALLY_BROKEN_DATA_PART: 740,
  KEEPER_EXCEPTION: 999
};
var DATA_ERRORS = toCodes([
  "CANNOT_PARSE_TEXT",
  "CANNOT_PARSE_ESCAPE_SEQUENCE",
  "CANNOT_PARSE_QUOTED_STRING",
  "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
  "CANNOT_PRINT_FLOAT_OR_DOUBLE_NUMBER",
  "CANNOT_READ_ALL_DATA",
  "TYPE_MISMATCH",
  "ARGUMENT_OUT_OF_BOUND",
  "CANNOT_CONVERT_TYPE",
  "CANNOT_PARSE_NUMBER",
  "INCORRECT_DATA",
  "CANNOT_READ_ARRAY_FROM_TEXT",
  "TOO_LARGE_STRING_SIZE",
  "TOO_DEEP_RECURSION",
  "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
  // Errors of constraints and computed columns that an operator has added to our tables (tested with 26.7).
  "VIOLATED_CONSTRAINT",
  "CANNOT_PARSE_DATE",
  "CANNOT_PARSE_DATETIME",
  "CANNOT_PARSE_UUID",
  "CANNOT_PARSE_BOOL",
  "CANNOT_PARSE_IPV4",
  "CANNOT_PARSE_IPV6",
  "ILLEGAL_DIVISION",
  "DECIMAL_OVERFLOW",
  "UNKNOWN_ELEMENT_OF_ENUM",
  "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO",
  "CANNOT_COMPILE_REGEXP"
]);
var DAMAGE_ERRORS = toCodes([
  "ATTEMPT_TO_READ_AFTER_EOF",
  "CANNOT_READ_ALL_DATA",
  "TOO_LARGE_SIZE_COMPRESSED",
  "CHECKSUM_DOESNT_MATCH",
  "CANNOT_READ_FROM_FILE_DESCRIPTOR",
  "CANNOT_OPEN_FILE",
  "CANNOT_SEEK_THROUGH_FILE",
  "UNKNOWN_COMPRESSION_METHOD",
  "SIZES_OF_MARKS_FILES_ARE_INCONSISTENT",
  "FILE_DOESNT_EXIST",
  "TOO_LARGE_ARRAY_SIZE",
  "TOO_LARGE_STRING_SIZE",
  "NO_FILE_IN_DATA_PART",
  "UNEXPECTED_FILE_IN_DATA_PART",
  "BAD_SIZE_OF_FILE_IN_DATA_PART",
  "CORRUPTED_DATA",
  "CANNOT_DECOMPRESS",
  "SEEK_POSITION_OUT_OF_BOUND",
  "UNKNOWN_CODEC",
  "POTENTIALLY_BROKEN_DATA_PART"
]);
var LOGIN_ERRORS = toCodes([
  "UNKNOWN_USER",
  "WRONG_PASSWORD",
  "REQUIRED_PASSWORD",
  "ACCESS_DENIED",
  "AUTHENTICATION_FAILED"
]);
var LOGGABLE = /* @__PURE__ */ new Set([
  ...LOGIN_ERRORS,
  ...toCodes([
    "UNKNOWN_TABLE",
    "UNKNOWN_DATABASE",
    "TIMEOUT_EXCEEDED",
    "TOO_SLOW",
    "READONLY",
    "TOO_MANY_SIMULTANEOUS_QUERIES",
    "SOCKET_TIMEOUT",
    "NETWORK_ERROR",
    "ALL_CONNECTION_TRIES_FAILED",
    "MEMORY_LIMIT_EXCEEDED",
    "TABLE_IS_READ_ONLY",
    "NOT_ENOUGH_SPACE",
    "TOO_MANY_PARTS",
    "TOO_MANY_UNEXPECTED_DATA_PARTS",
    "TOO_FEW_LIVE_REPLICAS",
    "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    "REPLICA_IS_NOT_IN_QUORUM",
    "UNKNOWN_STATUS_OF_INSERT",
    "CANNOT_ASSIGN_OPTIMIZE",
    "QUERY_WAS_CANCELLED",
    // Its message is our own.
    "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO",
    "KEEPER_EXCEPTION"
  ])
]);
var MAX_ERROR_BYTES = 64 * 1024;
var StoreError = class extends Error {
  name = "StoreError";
  /** the error code, see `CODES` */
  code;
  /**
   * ClickHouse's own message, which may quote data: for dead letters and for operators at a terminal, never for the log
   */
  words;
  /** @param error not kept as `cause`, which would be logged */
  constructor(code, error) {
    const isLoggable = LOGGABLE.has(code) || DAMAGE_ERRORS.has(code) && NAMED_PART.test(error.message);
    super(`ClickHouse error ${code}${isLoggable ? `: ${error.message}` : error.type ? ` (${error.type})` : ""}`);
    this.code = code;
    this.words = error.message;
  }
  /** the code and the message, for dead letters */
  get reason() {
    return `ClickHouse error ${this.code}: ${this.words}`;
  }
};
var StoreUnreachableError = class extends Error {
  name = "StoreUnreachableError";
};
function assertIsFromClickHouse(headers) {
  if (Object.keys(headers).some((name) => name.startsWith("x-clickhouse-"))) return;
  throw new Error(
    "the response is not from ClickHouse, because it has no header X-ClickHouse-\u2026: check CLICKHOUSE_URL, and that every proxy in front of ClickHouse passes its headers"
  );
}
function assertHasEnd(headers) {
  if (headers["transfer-encoding"] !== void 0 || headers["content-length"] !== void 0) return;
  throw new Error("the response has neither a length nor chunks; a proxy in front of ClickHouse must use HTTP/1.1");
}
var StoreTimeoutError = class extends StoreUnreachableError {
  name = "StoreTimeoutError";
};
var NoSlotError = class extends Error {
  name = "NoSlotError";
};
var StatementTooLargeError = class extends Error {
  name = "StatementTooLargeError";
};
var PART_NAME = "((?:patch-[0-9a-f]+-)?[0-9A-Za-z]+(?:_\\d+){3,4})";
var NAMED_PART = new RegExp(`(?:\\b(?:reading|data) part |/)${PART_NAME}(?=[/\\s:.,')]|$)`);
function toStoreError(error) {
  return error instanceof ClickHouseError ? new StoreError(Number(error.code), error) : error;
}
function isStoreError(error, ...names) {
  return error instanceof StoreError && names.some((name) => CODES[name] === error.code);
}
function isTimeout(error) {
  return error instanceof StoreTimeoutError || isStoreError(error, "TIMEOUT_EXCEEDED");
}
function isFatal(error) {
  if (error instanceof StoreError) return LOGIN_ERRORS.has(error.code);
  if (error instanceof ApiError) return error.status !== 503;
  return !(error instanceof StoreUnreachableError);
}
function toCodes(names) {
  return new Set(names.map((name) => CODES[name]));
}

// src/clickhouse/query-stream.ts
import { request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { urlToHttpOptions } from "node:url";
import { parseError } from "@clickhouse/client";

// src/clickhouse/block-agent.ts
import { Agent } from "node:http";
import { connect } from "node:net";
var BLOCK_BYTES = 256 * 1024;
var BlockAgent = class extends Agent {
  createConnection(options) {
    const block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    const callback = (bytes) => {
      socket.emit("data", block.subarray(0, bytes));
      return true;
    };
    const socket = connect({ ...options, onread: { buffer: block, callback } });
    return socket;
  }
};

// src/clickhouse/query-stream.ts
var QueryStreams = class {
  #silentMs;
  #address;
  #request;
  #agent;
  constructor({ origin, user, password, connections, idleMs, silentMs }) {
    this.#silentMs = silentMs;
    const url = new URL(origin);
    const isSecure = url.protocol === "https:";
    const Agent2 = isSecure ? HttpsAgent : BlockAgent;
    this.#request = isSecure ? httpsRequest : httpRequest;
    this.#agent = new Agent2({ keepAlive: true, maxSockets: connections, timeout: idleMs });
    const { hostname, port } = urlToHttpOptions(url);
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
    const headers = { authorization, "user-agent": "tallyhouse" };
    this.#address = { hostname, port, method: "POST", headers, agent: this.#agent, timeout: silentMs };
  }
  /**
   * Resolves with the response once its headers have arrived and it is not an error. An abort before that cancels the
   * query.
   * @param parameters go in the URL, which some proxies want below 8 KiB
   * @throws ClickHouseError, or Node's error for a connection that was refused, reset or silent
   */
  async open(query2, parameters, settings2, signal) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(settings2)) search.set(name, String(value));
    for (const [name, value] of Object.entries(parameters)) search.set(`param_${name}`, formatParameter(value));
    const answer2 = await this.#send(`/?${search}`, query2, signal);
    const isError = answer2.statusCode !== 200 || answer2.headers["x-clickhouse-exception-code"] !== void 0;
    if (isError) throw parseError(await readErrorText(answer2));
    try {
      assertIsFromClickHouse(answer2.headers);
      assertHasEnd(answer2.headers);
    } catch (error) {
      answer2.destroy();
      throw error;
    }
    return answer2;
  }
  #send(path, query2, signal) {
    return new Promise((resolve, reject) => {
      const request = this.#request({ ...this.#address, path, signal });
      let answer2 = null;
      request.on("response", (response) => {
        answer2 = response;
        resolve(response);
      });
      request.on("error", reject);
      const onSilence = () => {
        if (answer2?.complete) return;
        if (answer2 && answer2.readableLength > 0) return answer2.socket.setTimeout(this.#silentMs, onSilence);
        const silent = answer2 ?? request;
        silent.destroy(new Error(`ClickHouse sent nothing for ${this.#silentMs} ms`));
      };
      request.on("timeout", onSilence);
      request.end(query2);
    });
  }
  /** Closes all connections, active ones too. Call it when no query is waiting for one. */
  close() {
    this.#agent.destroy();
  }
};
async function readErrorText(answer2) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of answer2) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= MAX_ERROR_BYTES) break;
  }
  return Buffer.concat(chunks).toString();
}
var ESCAPES = { "	": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\" };
function formatParameter(value) {
  return String(value).replace(/[\t\n\r\\]/g, (character) => ESCAPES[character] ?? character);
}

// src/clickhouse/connection.ts
var INSERT_TIMEOUT_MS = 12e4;
var CONNECTIONS = 32;
var SILENT_MS = 12e4;
var IDLE_SOCKET_MS = 2500;
var Connection = class {
  /** URL with user and password */
  url;
  database;
  client;
  streams;
  #abandoned = new AbortController();
  /** @param settings apply to every statement except streamed results */
  constructor(url, settings2 = {}) {
    const address = new URL(url);
    this.url = url;
    this.database = decodeURIComponent(address.pathname.slice(1)) || "default";
    const user = decodeURIComponent(address.username) || "default";
    const password = decodeURIComponent(address.password);
    setMaxListeners(0, this.#abandoned.signal);
    this.streams = new QueryStreams({
      origin: address.origin,
      user,
      password,
      connections: CONNECTIONS,
      idleMs: IDLE_SOCKET_MS,
      silentMs: SILENT_MS
    });
    this.client = createClient({
      url: address.origin,
      username: user,
      password,
      database: this.database,
      application: "tallyhouse",
      max_open_connections: CONNECTIONS,
      request_timeout: INSERT_TIMEOUT_MS,
      keep_alive: { enabled: true, idle_socket_ttl: IDLE_SOCKET_MS },
      clickhouse_settings: {
        // 26.x buffers inserts by default; ours must not be acknowledged before they are parts.
        async_insert: 0,
        // Makes a DELETE write a patch part instead of a mutation; the table's setting of this name has no effect.
        lightweight_delete_mode: "lightweight_update_force",
        ...settings2
      },
      log: { LoggerClass: Silent }
    });
  }
  /**
   * Runs a request for up to `limitMs`.
   * @throws StoreError for ClickHouse's own error, StoreTimeoutError, StoreUnreachableError for any other failure
   */
  async run(limitMs, request, outer) {
    const controller = new AbortController();
    const abort = () => controller.abort();
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      abort();
    }, limitMs);
    const signals = outer ? [outer, this.#abandoned.signal] : [this.#abandoned.signal];
    for (const signal of signals) {
      signal.addEventListener("abort", abort);
      if (signal.aborted) abort();
    }
    try {
      return await request(controller.signal);
    } catch (error) {
      if (error instanceof ClickHouseError2) throw toStoreError(error);
      if (isOver) throw new StoreTimeoutError(`ClickHouse did not answer within ${limitMs} ms.`, { cause: error });
      const message = error instanceof Error ? error.message : String(error);
      if (message.includes("DB::Exception")) throw new StoreUnreachableError("ClickHouse sent a truncated error.");
      throw new StoreUnreachableError(`ClickHouse did not answer: ${message}`, { cause: error });
    } finally {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener("abort", abort);
    }
  }
  /** The rows of a query as objects: all of them, or an error. An abort ends it at any time. */
  async rows(query2) {
    const { abort_signal: signal } = query2;
    const result = await this.client.query({ ...query2, format: "JSONEachRow" });
    const close = () => result.close();
    signal.addEventListener("abort", close);
    if (signal.aborted) close();
    try {
      assertIsFromClickHouse(result.response_headers);
      assertHasEnd(result.response_headers);
      return await result.json();
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
  }
  /** Aborts every request in flight, streamed results included, and refuses new ones. */
  async abandon() {
    this.#abandoned.abort();
    await this.close();
  }
  async close() {
    this.streams.close();
    await this.client.close();
  }
};
var Silent = class {
  trace() {
  }
  debug() {
  }
  info() {
  }
  warn() {
  }
  error() {
  }
};

// src/clickhouse/exception-guard.ts
import { pipeline, Transform } from "node:stream";
import { parseError as parseError2 } from "@clickhouse/client";
var CARRIAGE_RETURN = 13;
function untilException(answer2, tag, wrap) {
  return pipeline(answer2, new ExceptionGuard(tag, wrap), () => void 0);
}
var ExceptionGuard = class extends Transform {
  #marker;
  #wrap;
  /** the last bytes that were passed on, which may contain the start of a marker */
  #passed = Buffer.alloc(0);
  /** the bytes from the marker on, or from just before it */
  #exception = null;
  constructor(tag, wrap) {
    super();
    this.#wrap = wrap;
    this.#marker = Buffer.from(`__exception__\r
${tag}\r
`);
  }
  _transform(chunk, _encoding, done) {
    if (this.#exception === null) this.#pass(chunk);
    else if (this.#exception.length < MAX_ERROR_BYTES) this.#exception = Buffer.concat([this.#exception, chunk]);
    done();
  }
  #pass(chunk) {
    const most = this.#marker.length - 1;
    const seam = Buffer.concat([this.#passed, chunk.subarray(0, most)]);
    if (seam.includes(this.#marker)) {
      this.#exception = Buffer.concat([this.#passed, chunk]);
      return;
    }
    const at = chunk.includes(CARRIAGE_RETURN) ? chunk.indexOf(this.#marker) : -1;
    this.push(at < 0 ? chunk : chunk.subarray(0, at));
    if (at >= 0) this.#exception = chunk.subarray(at);
    else this.#passed = (chunk.length < most ? seam : chunk).subarray(-most);
  }
  _flush(done) {
    done(this.#error());
  }
  _destroy(error, done) {
    done(error && (this.#error() ?? error));
  }
  #error() {
    if (this.#exception === null) return null;
    return this.#wrap(parseError2(this.#exception.toString("utf8", this.#exception.indexOf(this.#marker))));
  }
};

// src/clickhouse/parameters.ts
var MAX_FIELD_BYTES = 12e4;
var NUMBERS = MAX_FIELD_BYTES / 25;
var MAX_FIELDS = 950;
var MAX_URL_BYTES = 1e6;
var MAX_CHARACTERS = 1e4;
var PIECES = new RegExp(`[^]{1,${MAX_CHARACTERS}}`, "gu");
function isLongStatement(query2, parameters) {
  if (Object.keys(parameters).length > MAX_FIELDS) throw tooLarge();
  if (Buffer.byteLength(query2) <= MAX_FIELD_BYTES) return false;
  const fields = Object.entries(parameters).map(([name, value]) => {
    return [`param_${name}`, Array.isArray(value) ? JSON.stringify(value) : String(value)];
  });
  if (new URLSearchParams(fields).toString().length <= MAX_URL_BYTES) return true;
  throw tooLarge();
}
function tooLarge() {
  return new StatementTooLargeError("the statement and its parameters are too large for a request");
}
var QueryParameters = class {
  parameters = {};
  #count = 0;
  /** A string of any length, split into several parameters if necessary. */
  text(value) {
    if (value.length <= MAX_CHARACTERS) return this.#add(value, "String");
    return `arrayStringConcat(${this.array(value.match(PIECES) ?? [])})`;
  }
  /** Names or ids, split into several parameters if necessary. */
  array(values, type = "String") {
    const parts = [];
    let part = [];
    let bytes = 0;
    for (const value of values) {
      const size = 2 * Buffer.byteLength(value) + 3;
      if (bytes + size > MAX_FIELD_BYTES && part.length > 0) {
        parts.push(this.#add(part, `Array(${type})`));
        part = [];
        bytes = 0;
      }
      part.push(value);
      bytes += size;
    }
    parts.push(this.#add(part, `Array(${type})`));
    return parts.length > 1 ? `arrayConcat(${parts.join(", ")})` : parts[0] ?? "[]";
  }
  number(value) {
    return this.#add(value, "Float64");
  }
  count(value) {
    return this.#add(value, "UInt64");
  }
  /** Numbers, split into several parameters if necessary. */
  numbers(values) {
    const parts = [];
    for (let i = 0; i === 0 || i < values.length; i += NUMBERS) {
      parts.push(this.#add(values.slice(i, i + NUMBERS), "Array(Float64)"));
    }
    return parts.length > 1 ? `arrayConcat(${parts.join(", ")})` : parts[0] ?? "[]";
  }
  #add(value, type) {
    const name = `v${this.#count++}`;
    this.parameters[name] = value;
    return `{${name}:${type}}`;
  }
};
var LARGE_QUERY = { max_query_size: String(64 * 1024 * 1024) };

// src/clickhouse/read-priority.ts
var NICE = { light: 15, heavy: 19 };
var LIGHT_MS = 1500;
var FADES_MS = 1e4;
var MAX_PROJECTS = 1e3;
var SETTING = "os_threads_nice_value_query";
var ReadPriority = class {
  #clickhouse;
  #now;
  #uses = /* @__PURE__ */ new Map();
  #isKnown;
  /** @param now ms of any clock that never goes back */
  constructor(clickhouse, now = () => performance.now()) {
    this.#clickhouse = clickhouse;
    this.#now = now;
  }
  /** Starts counting a query of a project. @returns a function that stops counting; call it once */
  begin(project) {
    const use = this.#update(project);
    use.running++;
    return () => {
      this.#update(project);
      use.running--;
    };
  }
  /** Settings for a query that begins now; none if the server cannot set priorities. @throws if it does not respond */
  async settings(project) {
    this.#isKnown ??= this.#find().catch((error) => {
      this.#isKnown = void 0;
      throw error;
    });
    if (!await this.#isKnown) return {};
    return { [SETTING]: this.isHeavy(project) ? NICE.heavy : NICE.light };
  }
  /** Whether the project has used the store a lot in the last seconds. */
  isHeavy(project) {
    return this.#uses.has(project) && this.#update(project).ms > LIGHT_MS;
  }
  #update(project) {
    const now = this.#now();
    let use = this.#uses.get(project);
    if (!use) {
      if (this.#uses.size >= MAX_PROJECTS) this.#forget();
      use = { ms: 0, at: now, running: 0 };
      this.#uses.set(project, use);
    }
    const kept = Math.exp((use.at - now) / FADES_MS);
    use.ms = use.ms * kept + use.running * FADES_MS * (1 - kept);
    use.at = now;
    return use;
  }
  #forget() {
    for (const [project, use] of this.#uses) {
      if (use.running === 0 && this.#update(project).ms < 1) this.#uses.delete(project);
    }
  }
  async #find() {
    const found = await this.#clickhouse.rows("SELECT 1 FROM system.settings WHERE name = {name:String}", {
      name: SETTING
    });
    return found.length > 0;
  }
};

// src/clickhouse/read-slots.ts
var BACKGROUND = "";
var LOOK_MS = 100;
var Slot = class {
  project;
  #release;
  #cutOff = null;
  #onFree = null;
  #isCut = false;
  #stalledAt = null;
  /** number of abandoned queries that ClickHouse has not ended yet */
  #left = 0;
  #isReleased = false;
  constructor(project, release) {
    this.project = project;
    this.#release = release;
  }
  /** @param cutOff aborts the result that uses the slot, which then releases it */
  onCutOff(cutOff) {
    this.#cutOff = cutOff;
  }
  /** @param run called once, when others can take the slot */
  onFree(run) {
    this.#onFree = run;
  }
  /** @param at when the client last read anything, `performance.now()`; null while it keeps up */
  stalled(at) {
    this.#stalledAt = at;
  }
  /** How long the client has read nothing, ms; -1 while it keeps up. */
  stalledMs(now) {
    return this.#stalledAt === null || this.#isCut ? -1 : now - this.#stalledAt;
  }
  get isCut() {
    return this.#isCut;
  }
  cutOff() {
    this.#isCut = true;
    this.#cutOff?.();
  }
  /** Keeps the slot in use until an abandoned query has ended. */
  holdUntil(ended) {
    this.#left++;
    const end = () => {
      this.#left--;
      this.#freeIfUnused();
    };
    ended.then(end, end);
  }
  /** Idempotent. Takes effect after everything passed to `holdUntil` has ended. */
  release() {
    this.#isReleased = true;
    this.#freeIfUnused();
  }
  #freeIfUnused() {
    if (!this.#isReleased || this.#left > 0) return;
    this.#release(this);
    this.#onFree?.();
    this.#onFree = null;
  }
};
var ReadSlots = class {
  #limits;
  #allow;
  #held = /* @__PURE__ */ new Set();
  #waiting = /* @__PURE__ */ new Set();
  #looking = null;
  /** @param allow how many slots a project may have for now; default: `perProject` */
  constructor(limits, allow = () => limits.perProject) {
    this.#limits = limits;
    this.#allow = allow;
  }
  /** @throws NoSlotError if none is free in time, or the signal aborts before that */
  take(project, signal) {
    if (this.#hasRoom(project)) return Promise.resolve(this.#grant(project));
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", refuse);
        this.#waiting.delete(waiting);
        if (this.#waiting.size === 0) this.#stopLooking();
      };
      const refuse = () => {
        end();
        reject(new NoSlotError(`no connection became free within ${this.#limits.waitMs} ms`));
      };
      const waiting = {
        project,
        grant: (slot) => {
          end();
          resolve(slot);
        }
      };
      const timer = setTimeout(refuse, this.#limits.waitMs);
      signal?.addEventListener("abort", refuse);
      this.#waiting.add(waiting);
      this.#looking ??= setInterval(() => this.#cutOffStalled(), LOOK_MS);
      this.#cutOffStalled();
      if (signal?.aborted) refuse();
    });
  }
  /** Number of slots in use by these projects. */
  countHeld(isCounted) {
    let count = 0;
    for (const { project } of this.#held) if (isCounted(project)) count++;
    return count;
  }
  #hasRoom(project) {
    return this.#held.size < this.#limits.slots && this.countHeld((other) => other === project) < this.#countAllowed(project);
  }
  #countAllowed(project) {
    return project === BACKGROUND ? Number.POSITIVE_INFINITY : this.#allow(project);
  }
  #grant(project) {
    const slot = new Slot(project, (released) => this.#release(released));
    this.#held.add(slot);
    return slot;
  }
  #release(slot) {
    if (!this.#held.delete(slot)) return;
    for (const waiting of this.#waiting) {
      if (this.#held.size >= this.#limits.slots) return;
      if (this.#hasRoom(waiting.project)) waiting.grant(this.#grant(waiting.project));
    }
  }
  /** Aborts one stalled result for each waiting read, minus those that are already being aborted. */
  #cutOffStalled() {
    const now = performance.now();
    const stalled = [...this.#held].filter((slot) => slot.stalledMs(now) >= this.#limits.stalledMs).sort((a, b) => b.stalledMs(now) - a.stalledMs(now));
    let ending = [...this.#held].filter(({ isCut }) => isCut).length;
    for (const { project } of this.#waiting) {
      if (ending-- > 0) continue;
      const hasShare = this.countHeld((other) => other === project) >= this.#countAllowed(project);
      const at = stalled.findIndex((slot) => !hasShare || slot.project === project);
      if (at >= 0) stalled.splice(at, 1)[0]?.cutOff();
    }
  }
  #stopLooking() {
    if (this.#looking) clearInterval(this.#looking);
    this.#looking = null;
  }
};

// src/clickhouse/replicas.ts
import { setTimeout as wait } from "node:timers/promises";
var buildWriteSettings = (replicas) => ({
  // Do not use 'auto': while the Keeper knows of only one replica, such an INSERT waits until its timeout (26.8).
  insert_quorum: String((replicas >> 1) + 1),
  insert_quorum_parallel: 0,
  // within the time that an INSERT has
  insert_quorum_timeout: 6e4,
  // A purge waits for the replicas that are up.
  alter_sync: "2",
  replication_wait_for_inactive_replica_timeout: "0",
  // An edit applies to everything that was acknowledged before, on any replica.
  update_sequential_consistency: 1
});
var READ_SETTINGS = { select_sequential_consistency: "1", load_balancing: "in_order" };
var PROBE_LIMIT_MS = 2e3;
var SYNC_LIMIT_MS = 1e4;
var ALL_LIMIT_MS = 1e3;
var BEAT_MS = 3e3;
var LATE_BEATS = 10;
var Replicas = class {
  #urls;
  #options;
  #current;
  #choosing = null;
  /** by URL: connections to the servers that are not in use */
  #peers = /* @__PURE__ */ new Map();
  #preparations = /* @__PURE__ */ new Map();
  /** by URL: the preparations that have run on the server */
  #prepared = /* @__PURE__ */ new Map();
  #timer;
  #beats = 0;
  #isBeating = false;
  #isClosed = false;
  /** @param urls at least one */
  constructor(urls, options = {}) {
    this.#urls = urls;
    this.#options = options;
    this.#current = this.#open(urls[0] ?? "");
    this.#timer = this.areSeveral ? setInterval(() => void this.#beat(), options.beatMs ?? BEAT_MS) : null;
    this.#timer?.unref();
  }
  get areSeveral() {
    return this.#urls.length > 1;
  }
  /** The server in use, even while another one is being chosen. */
  get current() {
    return this.#current;
  }
  /** Settles when the current choice is made; null if none is in progress. */
  get choosing() {
    return this.#choosing;
  }
  /** Call it when a request to the server in use failed: chooses another one if it no longer responds. */
  suspect(error) {
    if (isAboutServer(error)) this.#startChoosing();
  }
  /** @param isUnfit whether the server in use must be replaced although it responds */
  #startChoosing(isUnfit = false) {
    if (!this.areSeveral || this.#isClosed) return;
    this.#choosing ??= this.#choose(isUnfit).finally(() => {
      this.#choosing = null;
    });
  }
  /**
   * Prepares the server in use, then the others. One that is down is prepared when it responds, and not used before
   * that.
   * @throws the error of the server in use; errors of others only if a retry cannot help
   */
  async prepare(name, run) {
    await this.#choosing;
    const first = this.#current;
    try {
      await run(first, null);
    } catch (error) {
      if (!isFatal(error)) this.#startChoosing(true);
      throw error;
    }
    this.#preparations.set(name, run);
    this.#noteDone(first, run);
    for (const url of this.#urls) {
      if (url === first.url) continue;
      await this.#complete(this.#peer(url)).catch((error) => {
        if (isFatal(error)) throw error;
      });
    }
  }
  /** Makes a server, by default the one in use, fetch everything that other replicas have. */
  async catchUp(connection = this.#current) {
    const tables = await ask(
      connection,
      "SELECT table FROM system.replicas WHERE database = currentDatabase()"
    );
    await Promise.all(tables.map(({ table }) => sync(connection, table)));
  }
  /**
   * Resolves when all replicas have an edit that the server in use has executed, or after a second when a majority has
   * it. ClickHouse has a quorum for INSERTs, but not for edits.
   * @throws StoreUnreachableError if too few have it in time; the edit may then be lost
   */
  async confirm(table) {
    if (!this.areSeveral) return;
    const needed = this.#urls.length >> 1;
    let confirmed = 0;
    const noteDone = () => {
      confirmed++;
    };
    const others = this.#urls.filter((url) => url !== this.#current.url).map((url) => sync(this.#peer(url), table));
    const all = Promise.all(others.map((other) => other.then(noteDone, () => void 0)));
    await Promise.race([all, wait(ALL_LIMIT_MS, void 0, { ref: false })]);
    if (confirmed < needed) await all;
    if (confirmed >= needed) return;
    throw new StoreUnreachableError(`ClickHouse made the change, but only ${confirmed + 1} replicas have it.`);
  }
  async close() {
    this.#isClosed = true;
    if (this.#timer) clearInterval(this.#timer);
    await Promise.all([this.#current, ...this.#peers.values()].map((connection) => connection.close()));
  }
  async #choose(isUnfit) {
    const previous = this.#current;
    if (!isUnfit && await isUsable(previous)) return;
    for (const url of this.#urls) {
      if (url === previous.url || this.#isClosed) continue;
      const candidate = this.#peer(url);
      try {
        if (!await isUsable(candidate)) continue;
        await this.#complete(candidate, null);
        await this.catchUp(candidate);
      } catch {
        continue;
      }
      if (this.#peers.get(url) !== candidate || this.#isClosed) return;
      this.#peers.delete(url);
      this.#current = candidate;
      await previous.abandon().catch(() => void 0);
      this.#options.onSwitch?.(formatHost(previous), formatHost(candidate));
      return;
    }
  }
  /** Runs the preparations that have not run on a server yet. */
  async #complete(server, model = this.#current) {
    for (const run of this.#preparations.values()) {
      if (this.#prepared.get(server.url)?.has(run)) continue;
      await run(server, model);
      this.#noteDone(server, run);
    }
  }
  #noteDone({ url }, run) {
    this.#prepared.set(url, (this.#prepared.get(url) ?? /* @__PURE__ */ new Set()).add(run));
  }
  async #beat() {
    if (this.#choosing || this.#isBeating) return;
    this.#isBeating = true;
    try {
      await this.#probe();
    } finally {
      this.#isBeating = false;
    }
  }
  async #probe() {
    if (!await isUsable(this.#current)) return this.suspect(new StoreUnreachableError("a probe failed"));
    if (++this.#beats % LATE_BEATS !== 0) return;
    for (const url of this.#urls) {
      if (url === this.#current.url) continue;
      await this.#complete(this.#peer(url)).catch(() => void 0);
    }
  }
  #peer(url) {
    const peer = this.#peers.get(url) ?? this.#open(url);
    this.#peers.set(url, peer);
    return peer;
  }
  #open(url) {
    return new Connection(url, this.areSeveral ? { ...buildWriteSettings(this.#urls.length), ...READ_SETTINGS } : {});
  }
};
function isAboutServer(error) {
  return error instanceof StoreUnreachableError || isStoreError(error, "TABLE_IS_READ_ONLY", "KEEPER_EXCEPTION");
}
async function isUsable(connection) {
  try {
    const [found] = await ask(
      connection,
      `SELECT countIf(is_readonly OR is_session_expired) AS unusable FROM system.replicas
       WHERE database = currentDatabase()`
    );
    return Number(found?.unusable) === 0;
  } catch {
    return false;
  }
}
async function ask(connection, query2) {
  const { database } = connection;
  return await connection.run(
    PROBE_LIMIT_MS,
    (abort_signal) => connection.rows({
      query: query2.replaceAll("currentDatabase()", "{database:String}"),
      query_params: { database },
      clickhouse_settings: { database: "default", wait_end_of_query: 1 },
      abort_signal
    })
  );
}
async function sync(connection, table) {
  const limitS = SYNC_LIMIT_MS / 1e3;
  await connection.run(SYNC_LIMIT_MS, async (abort_signal) => {
    const { response_headers } = await connection.client.command({
      query: `SYSTEM SYNC REPLICA ${table} LIGHTWEIGHT`,
      clickhouse_settings: { wait_end_of_query: 1, receive_timeout: limitS },
      abort_signal
    });
    assertIsFromClickHouse(response_headers);
  });
}
function formatHost({ url }) {
  return new URL(url).host;
}

// src/clickhouse/spool.ts
import { Readable } from "node:stream";
var YIELD_MS = 10;
var SpoolMemory = class {
  limits;
  #held = 0;
  constructor(limits) {
    this.limits = limits;
  }
  /** Bytes in use. */
  get held() {
    return this.#held;
  }
  add(bytes) {
    this.#held += bytes;
  }
  hasRoomFor(answerBytes) {
    return answerBytes < this.limits.answerBytes && this.#held < this.limits.totalBytes;
  }
};
var Spool = class extends Readable {
  #source;
  #memory;
  #onStall;
  #yields;
  #counted = 0;
  /** whether the source is paused because the client does not keep up */
  #isPaused = false;
  /** timer of the pause in which others have the thread */
  #yielding = null;
  constructor(source, memory, { onStall, yields = () => false }) {
    super();
    this.#source = source;
    this.#memory = memory;
    this.#onStall = onStall;
    this.#yields = yields;
    source.on("data", (chunk) => this.#take(chunk));
    source.on("end", () => this.push(null));
    source.on("error", (error) => this.destroy(error));
    source.on("close", () => {
      if (!source.readableEnded) this.destroy(source.errored ?? new Error("the answer ended before it was complete"));
    });
  }
  _read() {
  }
  read(size) {
    const chunk = super.read(size);
    if (this.#counted === 0 || chunk === null) return chunk;
    this.#count(this.readableLength);
    if (!this.#isPaused) return chunk;
    const hasRoom = 2 * this.readableLength < this.#memory.limits.answerBytes && this.#memory.hasRoomFor(0);
    if (hasRoom || this.readableLength === 0) {
      this.#isPaused = false;
      this.#onStall(null);
      if (!this.#yielding) this.#source.resume();
    } else {
      this.#onStall(performance.now());
    }
    return chunk;
  }
  _destroy(error, done) {
    this.#count(0);
    if (this.#yielding) clearTimeout(this.#yielding);
    this.#source.destroy();
    done(error);
  }
  #take(chunk) {
    if (this.destroyed) return;
    this.push(chunk);
    if (!this.#yielding && this.#yields()) this.#yield();
    const held = this.readableLength;
    if (held === 0) return;
    this.#count(held);
    if (this.#memory.hasRoomFor(held)) return;
    this.#isPaused = true;
    this.#source.pause();
    this.#onStall(performance.now());
  }
  #yield() {
    this.#source.pause();
    this.#yielding = setTimeout(() => {
      this.#yielding = null;
      if (!this.#isPaused) this.#source.resume();
    }, YIELD_MS);
  }
  #count(held) {
    this.#memory.add(held - this.#counted);
    this.#counted = held;
  }
};

// src/clickhouse/client.ts
var QUERY_TIMEOUT_MS = 3e4;
var PING_TIMEOUT_MS = 2e3;
var MAX_QUERY_BYTES = String(512 * 1024 * 1024);
var MIB = 1024 * 1024;
var SLOT_LIMITS = { slots: CONNECTIONS, perProject: 4, waitMs: 2e4, stalledMs: 3e3 };
var SLOTS_BESIDE_OTHERS = 2;
var SPOOL_LIMITS = { answerBytes: 4 * MIB, totalBytes: 64 * MIB };
var READ = { readonly: "2", cancel_http_readonly_queries_on_client_close: 1 };
var TURN_MS = 100;
var MAX_TURNS = 50;
var FIRST_LOOK_MS = 20;
var MAX_LOOK_MS = 500;
var MAX_FAILED_LOOKS = 20;
var EDIT = /^\s*(?:UPDATE|DELETE\s+FROM)\s+(\w+)/i;
var ClickHouse = class _ClickHouse {
  #replicas;
  #slots;
  #spooled;
  #insertTimeoutMs;
  #load = new ThreadLoad();
  #priority;
  #owners;
  #hide;
  #onRead;
  #life;
  #project;
  database;
  constructor(options) {
    if ("of" in options) {
      const { of, project } = options;
      this.#owners = of.#owners;
      this.#hide = of.#hide;
      this.#onRead = of.#onRead;
      this.#slots = of.#slots;
      this.#spooled = of.#spooled;
      this.#insertTimeoutMs = of.#insertTimeoutMs;
      this.#replicas = of.#replicas;
      this.#priority = of.#priority;
      this.#life = of.#life;
      this.#project = project;
    } else {
      const { url, insertTimeoutMs, slotLimits, spoolLimits, owners, hide, onRead, ...replicas } = options;
      this.#owners = owners;
      this.#onRead = onRead;
      this.#hide = hide;
      const limits = slotLimits ?? SLOT_LIMITS;
      this.#slots = new ReadSlots(limits, (project) => this.#countAllowed(project, limits.perProject));
      this.#spooled = new SpoolMemory(spoolLimits ?? SPOOL_LIMITS);
      this.#insertTimeoutMs = insertTimeoutMs ?? INSERT_TIMEOUT_MS;
      this.#replicas = new Replicas(url.split(/\|(?=[a-z]+:\/\/)/), replicas);
      this.#priority = new ReadPriority(this);
      this.#life = { isClosed: false };
    }
    this.database = this.#replicas.current.database;
  }
  /** The same server, with all queries and statements counted as the project's: `ReadOptions.project`. */
  for(project) {
    return new _ClickHouse({ of: this, project });
  }
  /** Whether there are several servers, so that the tables must be replicated. */
  get hasReplicas() {
    return this.#replicas.areSeveral;
  }
  /**
   * Prepares every replica, for example by creating its tables: first the one in use, then the others. Replicas that
   * are down are prepared before they are used. A preparation replaces an earlier one with the same name.
   * @param run `model` is a replica that has been prepared already; null for the first
   * @throws the error of the replica in use; errors of others only if a retry cannot help
   */
  async prepare(name, run) {
    if (!this.hasReplicas) return await run(this, null);
    await this.#replicas.prepare(name, async (server, model) => {
      const parts = [server, model].map((one) => one && new _ClickHouse({ url: one.url }));
      try {
        await run(parts[0], parts[1] ?? null);
      } finally {
        await Promise.all(parts.map((part) => part?.close()));
      }
    });
  }
  /** Runs a statement without a result. Parameters go in the URL, so large values belong in the statement. */
  async command(query2, parameters = {}, settings2 = {}, limitMs = QUERY_TIMEOUT_MS) {
    const run = async (paced) => {
      await this.#write(
        (connection) => connection.run(limitMs, async (abort_signal) => {
          const { response_headers } = await connection.client.command({
            query: query2,
            query_params: parameters,
            clickhouse_settings: { ...paced, ...settings2, wait_end_of_query: 1, max_query_size: MAX_QUERY_BYTES },
            abort_signal
          });
          assertIsFromClickHouse(response_headers);
        })
      );
    };
    if (this.#project === void 0) await run({});
    else await this.#paced({ project: this.#project }, run);
    const edited = this.hasReplicas ? EDIT.exec(query2)?.[1] : void 0;
    if (edited) await this.#replicas.confirm(edited);
  }
  /** Runs a statement in the database `default`, to create ours. */
  async commandWithoutDatabase(query2) {
    await this.command(query2, {}, { database: "default" });
  }
  /**
   * The rows as objects; 64-bit integers are strings. Large parameters go in the body, or a long statement, but not
   * both. An abort cancels the query.
   * @throws StatementTooLargeError
   */
  async rows(query2, parameters = {}, settings2 = {}, reading = {}) {
    const { project = this.#project, slot, ...rest } = reading;
    if (project === void 0) return await this.#rows(query2, parameters, settings2, rest);
    return await this.#paced({ project, slot, signal: reading.signal }, async (paced, onLeft) => {
      const all = { ...paced, ...this.#hidden(project), ...settings2 };
      return await this.#rows(query2, parameters, all, { ...rest, onLeft });
    });
  }
  /** Runs a query of a project, within its slots and at its priority. */
  async #paced({ project, slot: held, signal }, run) {
    const slot = held ?? await this.#slots.take(project, signal).catch(throwUnreachable);
    const end = this.#begin(project);
    let left;
    try {
      const settings2 = { ...await this.#priority.settings(project), ...this.#threads(project) };
      return await run(settings2, (ended) => {
        left = ended;
        slot.holdUntil(ended);
      });
    } finally {
      if (left) left.then(end, end);
      else end();
      if (!held) slot.release();
    }
  }
  async #rows(query2, parameters, settings2, {
    signal,
    limitMs = QUERY_TIMEOUT_MS,
    onLeft,
    end = (id) => this.endQuery(id)
  }) {
    const query_id = randomUUID();
    const isLong = isLongStatement(query2, parameters);
    const long = isLong && { max_query_size: MAX_QUERY_BYTES };
    const all = {
      ...READ,
      ...settings2,
      ...long,
      wait_end_of_query: 1,
      output_format_json_quote_64bit_integers: 1
    };
    const read = (connection, abort_signal) => connection.rows({
      query: query2,
      query_params: parameters,
      use_multipart_params_auto: !isLong,
      clickhouse_settings: all,
      query_id,
      abort_signal
    });
    try {
      return await this.#read(
        (connection) => connection.run(limitMs, (abort) => read(connection, abort), signal),
        signal
      );
    } catch (error) {
      if (!(error instanceof StoreError)) onLeft?.(end(query_id));
      throw error;
    }
  }
  /**
   * Cancels a query, and resolves when the server no longer lists it or its queries on other servers. ClickHouse
   * notices a cancellation, or a closed connection, only between two blocks of rows. Also resolves if the server does
   * not respond. Never rejects.
   */
  async endQuery(queryId) {
    let failed = 0;
    for (let pause = FIRST_LOOK_MS; !this.#life.isClosed; pause = Math.min(2 * pause, MAX_LOOK_MS)) {
      try {
        if (!await this.#isListed(queryId)) return;
        failed = 0;
      } catch (error) {
        const isBusy = isTimeout(error) || error instanceof StoreError && !isStoreError(error, "ACCESS_DENIED");
        if (!isBusy || ++failed === MAX_FAILED_LOOKS) return;
      }
      await wait2(pause, void 0, { ref: false });
    }
  }
  async #isListed(queryId) {
    const limits = { limitMs: PING_TIMEOUT_MS };
    const listed2 = "initial_query_id = {id:String}";
    const found = await this.rows(`SELECT 1 FROM system.processes WHERE ${listed2} LIMIT 1`, { id: queryId }, {}, limits);
    if (found.length === 0) return false;
    await this.command(`KILL QUERY WHERE ${listed2} ASYNC`, { id: queryId }, {}, PING_TIMEOUT_MS);
    return true;
  }
  /**
   * The bytes of the result in the query's format. The server completes the result before it sends the first byte
   * (using its disk if memory is short), so an error in the middle is thrown here and never truncates the stream. With
   * `wait_end_of_query: 0`, the server sends rows immediately, and such an error breaks the stream: it is complete if,
   * and only if, it ends. `limitMs` limits the time until the first byte. Unread bytes are buffered in memory within
   * limits; beyond them, the stream is aborted if another query needs its connection.
   */
  async bytes(query2, parameters = {}, settings2 = {}, reading = {}) {
    const { signal, limitMs = QUERY_TIMEOUT_MS, project = this.#project, end = (id) => this.endQuery(id) } = reading;
    const queryId = randomUUID();
    const consistent = this.hasReplicas ? READ_SETTINGS : {};
    const priority = project !== void 0 && await this.#priority.settings(project);
    const slot = await this.#slots.take(project ?? BACKGROUND, signal).catch(throwUnreachable);
    if (project !== void 0) slot.onFree(this.#begin(project));
    const paced = { ...priority, ...project !== void 0 && { ...this.#threads(project), ...this.#hidden(project) } };
    const all = {
      database: this.database,
      wait_end_of_query: 1,
      ...READ,
      ...consistent,
      ...paced,
      ...settings2
    };
    const open = (connection) => {
      const named = { ...all, query_id: queryId };
      return connection.run(limitMs, (abort) => connection.streams.open(query2, parameters, named, abort), signal);
    };
    const answer2 = await this.#read(open, signal).catch((error) => {
      if (!(error instanceof StoreError)) slot.holdUntil(end(queryId));
      slot.release();
      throw error;
    });
    answer2.once("end", () => slot.release());
    answer2.once("close", () => {
      if (!answer2.readableEnded) slot.holdUntil(end(queryId));
      slot.release();
    });
    const tag = answer2.headers[EXCEPTION_TAG_HEADER_NAME];
    if (all.wait_end_of_query === 0 && typeof tag !== "string") {
      answer2.destroy();
      return await this.bytes(query2, parameters, { ...settings2, wait_end_of_query: 1 }, reading);
    }
    const rows = all.wait_end_of_query === 0 ? untilException(answer2, String(tag), toStoreError) : answer2;
    const stream = new Spool(rows, this.#spooled, {
      onStall: (since) => slot.stalled(since),
      yields: () => project !== void 0 && this.#yields(project)
    });
    slot.onCutOff(
      () => stream.destroy(new Error("the client did not read the result, and another one needed the connection"))
    );
    return signal ? addAbortSignal(signal, stream) : stream;
  }
  /** Sends rows unchanged, in the format that the INSERT names. Resolves when they are stored, throws when aborted. */
  async insert(query2, values, settings2, signal) {
    const insert = async (client, abort_signal) => {
      const { stream, response_headers } = await client.exec({
        query: query2,
        values,
        clickhouse_settings: { ...settings2, wait_end_of_query: 1 },
        abort_signal
      });
      for await (const _ of stream) ;
      assertIsFromClickHouse(response_headers);
    };
    await this.#onOne(
      (connection) => connection.run(this.#insertTimeoutMs, (abort) => insert(connection.client, abort), signal),
      signal
    );
  }
  /** @throws if ClickHouse does not respond to a query within 2 s, or refuses the login */
  async ping() {
    const ping = async (client, abort_signal) => {
      const { response_headers } = await client.command({ query: "SELECT 1", abort_signal });
      assertIsFromClickHouse(response_headers);
    };
    await this.#onOne((connection) => connection.run(PING_TIMEOUT_MS, (abort) => ping(connection.client, abort)));
  }
  async close() {
    this.#life.isClosed = true;
    await this.#replicas.close();
  }
  /**
   * Limits a project's read to one thread unless nothing else is running, so that a lone export is as fast as possible.
   * For a project that reads little, those that read a lot do not count: their queries have a lower priority.
   */
  #threads(project) {
    const isHeavy = this.#priority.isHeavy(project);
    const held = this.#slots.countHeld((other) => isHeavy || !this.#priority.isHeavy(other));
    return held > 1 || this.#load.isShort ? { max_threads: 1 } : {};
  }
  /** Counts a read from now on. @returns a function that ends it */
  #begin(name) {
    const began = performance.now();
    const end = this.#priority.begin(name);
    return () => {
      end();
      this.#onRead?.(toOwner(name), performance.now() - began);
    };
  }
  /** Nothing is hidden from an erasure. */
  #hidden(name) {
    return name.startsWith(ERASE) ? {} : this.#hide?.(toOwner(name)) ?? {};
  }
  /** How many slots a project may have: fewer if it reads a lot and there are others. */
  #countAllowed(project, most) {
    if (!this.#disturbsOthers(project)) return most;
    return Math.min(most, this.#load.isShort ? 1 : SLOTS_BESIDE_OTHERS);
  }
  /** Whether a project has to leave this busy thread to others. */
  #yields(project) {
    return this.#load.isShort && this.#disturbsOthers(project);
  }
  /** Whether a project reads a lot while others send requests. */
  #disturbsOthers(project) {
    return this.#priority.isHeavy(project) && this.#owners?.hasOthersThan(toOwner(project)) === true;
  }
  /** Runs a read. If the replica lacks a block that others have, it fetches that first. */
  async #read(read, signal) {
    try {
      return await this.#onOne(read, signal);
    } catch (error) {
      if (!isStoreError(error, "REPLICA_IS_NOT_IN_QUORUM")) throw error;
      await this.#replicas.catchUp();
      return await this.#onOne(read, signal);
    }
  }
  /**
   * Runs a statement. ClickHouse allows one INSERT with a quorum per table at a time and refuses another. Retrying that
   * one is safe: it has stored nothing, or has a token.
   */
  async #write(run) {
    for (let tries = 1; ; tries++) {
      try {
        await this.#onOne(run);
        return;
      } catch (error) {
        const isTaken = isStoreError(error, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE");
        if (!isTaken || tries === MAX_TURNS) throw error;
        await wait2(TURN_MS);
      }
    }
  }
  /**
   * Runs a request on the server in use. If it fails and there are replicas, checks whether another one must take over.
   */
  async #onOne(run, signal) {
    if (!this.hasReplicas) return await run(this.#replicas.current);
    await this.#replicas.choosing;
    try {
      return await run(this.#replicas.current);
    } catch (error) {
      if (!signal?.aborted) this.#replicas.suspect(error);
      throw error;
    }
  }
};
function nameShare(kind2, project) {
  return `${kind2}\0${project}`;
}
var ERASE = nameShare("erase", "");
function toOwner(name) {
  return name.slice(name.indexOf("\0") + 1);
}
function throwUnreachable(error) {
  throw new StoreUnreachableError(`The query was not sent to ClickHouse: ${error.message}`, { cause: error });
}

// src/contract/context.ts
var DEVICES = ["desktop", "mobile", "tablet", "tv", "console", "other"];
var CONTEXT_TEXTS = [
  "browser",
  "browser_version",
  "os",
  "os_version",
  "device",
  "country",
  "region",
  "city",
  "language"
];

// src/contract/page-fields.ts
var PAGE_FIELDS = {
  url: list("url $current_url current_url", "page.url", [
    "[Amplitude] Page URL",
    "[Amplitude] Page Location",
    "__path"
  ]),
  path: list("path $pathname current_url_path $screen_name", "page.path", ["[Amplitude] Page Path"]),
  title: list("title current_page_title", "page.title", ["[Amplitude] Page Title", "__title"]),
  referrer: list("referrer $referrer", "page.referrer", ["__referrer"]),
  source: list("utm_source utm.source", "campaign.source"),
  medium: list("utm_medium utm.medium", "campaign.medium"),
  campaign: list("utm_campaign utm.campaign", "campaign.name"),
  term: list("utm_term utm.term", "campaign.term"),
  content: list("utm_content utm.content", "campaign.content")
};
function list(names, inContext, others = []) {
  const all = [...names.split(" "), `context.${inContext}`, `$segment.context.${inContext}`, ...others];
  return all.map((name) => `properties.${name}`);
}
var PAGE_PLACES = Object.keys(PAGE_FIELDS);
var PAGE_NAMES = [
  ...["url", "host", "path", "title", "referrer", "source", "medium", "campaign", "term", "content", "channel"]
];
var CONTEXT_NAMES = [...CONTEXT_TEXTS, "bot"];

// src/contract/project-settings.ts
var KEEP = /^([1-9]\d{0,4})([dwmy])$/;
var KEEP_PATTERN = KEEP.source;

// src/store/json-sql.ts
var PAIR = "\u{10FFFB}";
var LONE = "\u{10FFFC}";
var INFINITE = "\u{10FFFD}";
function failIf(needsRepair) {
  return `throwIf(${needsRepair}, 'a text has to be repaired')`;
}
var PARTS = String.raw`"(?:[^"\\\\]|\\\\.)*"|-?[0-9][-+0-9.eE]*|[^"0-9-]+`;
var HIGH = "[dD][89abAB][0-9a-fA-F]{2}";
var LOW = "[dD][c-fC-F][0-9a-fA-F]{2}";
function repairText(text3) {
  const plain = String.raw`replaceAll(part, '\\\\', '\\u005c')`;
  const pairs = String.raw`replaceRegexpAll(${plain}, '\\\\u(${HIGH})\\\\u(${LOW})', '${PAIR}\\1\\2')`;
  const lone = String.raw`replaceRegexpAll(${pairs}, '\\\\u([dD][89a-fA-F][0-9a-fA-F]{2})', '${LONE}\\1')`;
  const string2 = String.raw`replaceRegexpAll(${lone}, '${PAIR}(.{4})(.{4})', '\\\\u\\1\\\\u\\2')`;
  const lowered = splitAtLone(
    string2,
    (rest) => `concat('${LONE}', lower(substring(${rest}, 1, 4)), substring(${rest}, 5))`
  );
  const infinite = `concat('"${INFINITE}', if(startsWith(part, '-'), '-', ''), '1e400"')`;
  const double = `concat(toString(toFloat64(part)), if(match(toString(toFloat64(part)), '[.e]'), '', '.0'))`;
  const number2 = `if(isInfinite(toFloat64(part)), ${infinite}, ${double})`;
  const isPlain = `length(part) < 19 AND NOT match(part, '[eE]')`;
  const repairedPart = `multiIf(startsWith(part, '"'), ${lowered}, NOT match(part, '^[-0-9]'), part, ${isPlain}, part, ${number2})`;
  return `arrayStringConcat(arrayMap(part -> ${repairedPart}, extractAll(${text3}, '${PARTS}')))`;
}
function unmarkToken(token) {
  return String.raw`replaceRegexpAll(${unmarkHalves(token)}, '(^|[^\\\\])"${INFINITE}(-?1e400)"', '\\1\\2')`;
}
function unmarkHalves(token) {
  return String.raw`replaceRegexpAll(${token}, '${LONE}(d[89a-f][0-9a-f]{2})', '\\\\u\\1')`;
}
function splitAtLone(text3, join) {
  const rest = `arrayStringConcat(arrayMap(piece -> ${join("piece")}, arraySlice(pieces, 2)))`;
  return `arrayMap(pieces -> concat(pieces[1], ${rest}), [splitByString('${LONE}', ${text3})])[1]`;
}
function markName(name) {
  return name.isWellFormed() ? name : name.replace(LONE_SURROGATE, (half) => `${LONE}${half.charCodeAt(0).toString(16)}`);
}
var MARKED_HALF = new RegExp(`${LONE}(d[89a-f][\\da-f]{2})`, "gu");
var LONE_SURROGATE = /\p{Surrogate}/gu;
function decodeText(token, mayBeRepaired) {
  const decoded = `JSONExtractString(${token})`;
  const bare = `substring(${token}, 2, length(${token}) - 2)`;
  const isEscaped = String.raw`position(${token}, '\\') > 0`;
  if (!mayBeRepaired) return `if(${isEscaped}, ${decoded}, ${bare})`;
  const plain = String.raw`replaceAll(${token}, '\\\\', '\\u005c')`;
  const marked = String.raw`replaceRegexpAll(${plain}, '\\\\u(d[89a-f][0-9a-f]{2})', '${LONE}\\1')`;
  const code = `reinterpretAsUInt16(reverse(unhex(substring(piece, 1, 4))))`;
  const bytes = `char(237, 128 + bitAnd(bitShiftRight(${code}, 6), 63), 128 + bitAnd(${code}, 63))`;
  const withHalves = splitAtLone(`JSONExtractString(${marked})`, () => `concat(${bytes}, substring(piece, 5))`);
  const hasHalves = String.raw`match(${token}, '[^\\\\](\\\\\\\\)*\\\\ud[89a-f]')`;
  return `multiIf(NOT ${isEscaped}, ${bare}, ${hasHalves}, ${withHalves}, ${decoded})`;
}
function isText(token) {
  return `startsWith(${token}, '"')`;
}
function isArray(token) {
  return `startsWith(${token}, '[')`;
}
function extractMembers(token, mayBeRepaired) {
  const members = `JSONExtractArrayRaw(${token})`;
  if (!mayBeRepaired) return members;
  const marked = `arrayMap(member -> ${unmarkToken("member")}, JSONExtractArrayRaw(${repairText(token)}))`;
  return `if(${token} != '[]' AND empty(${members}), ${marked}, ${members})`;
}
function parseNumber(token) {
  return `toFloat64OrNull(${token})`;
}
function formatNumber(number2) {
  const text3 = `toString(${number2} + 0)`;
  const isLarge = `position(${text3}, 'e') > 0 AND position(${text3}, 'e-') = 0`;
  return `multiIf(isInfinite(${number2}), if(${number2} < 0, '-1e400', '1e400'), ${isLarge}, replaceOne(${text3}, 'e', 'e+'), ${text3})`;
}
function formatJson(token, repairsTexts) {
  const isNumber = `${token} >= '-' AND ${token} < ':'`;
  const isLong = `length(${token}) > 15 OR ${token} = '-0' OR position(${token}, 'e') > 0`;
  const number2 = formatNumber(`toFloat64OrZero(${token})`);
  const isWithin = `(${isArray(token)} OR startsWith(${token}, '{')) AND match(${token}, '[0-9]{16}|[0-9]e|-0')`;
  const within = repairsTexts ? `${isWithin}, ${formatNumbersAsDoubles(token)}` : `${failIf(isWithin)}, ''`;
  return `multiIf(${token} = '', 'null', ${isNumber} AND (${isLong}), ${number2}, ${within}, ${token})`;
}
function formatNumbersAsDoubles(token) {
  const part = `if(match(part, '^[-0-9]'), ${formatNumber("toFloat64OrZero(part)")}, part)`;
  return `arrayStringConcat(arrayMap(part -> ${part}, extractAll(${token}, '${PARTS}')))`;
}
function toTextToken(text3) {
  return JSON.stringify(text3).replace(ESCAPE, (escaped) => {
    return escaped.length === 6 && escaped.startsWith("\\u00") ? `\\u00${escaped.slice(4).toUpperCase()}` : SEPARATORS[escaped] ?? escaped;
  });
}
function formatBreakdown(values) {
  return `[${values.map(formatValue).join(",")}]`;
}
function formatValue(value) {
  if (typeof value === "string") return toTextToken(value);
  if (typeof value === "number" && !Number.isFinite(value)) return value < 0 ? "-1e400" : "1e400";
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return formatBreakdown(value);
  return `{${Object.entries(value).map(([name, member]) => `${toTextToken(name)}:${formatValue(member)}`)}}`;
}
var ESCAPE = /\\u[\da-f]{4}|\\.|[\u2028\u2029]/g;
var SEPARATORS = { "\u2028": "\\u2028", "\u2029": "\\u2029" };
function encodeText(text3) {
  if (text3.isWellFormed()) return Buffer.from(text3);
  const parts = [];
  for (const character of text3) {
    const code = character.charCodeAt(0);
    const isHalf = character.length === 1 && code >= 55296 && code < 57344;
    parts.push(isHalf ? Buffer.from([237, 128 | code >> 6 & 63, 128 | code & 63]) : Buffer.from(character));
  }
  return Buffer.concat(parts);
}

// src/questions/event-order.ts
function packEvent(number2) {
  return `bitOr(bitOr(
    bitShiftLeft(toUInt256(reinterpretAsUInt64(timestamp + 0)), 192), bitShiftLeft(toUInt256(id), 64)), ${number2})`;
}
function extractTimes(events) {
  return `arrayMap(event -> reinterpretAsFloat64(toUInt64(bitShiftRight(event, 192))), ${events})`;
}
function extractNumbers(events) {
  return `arrayMap(event -> toUInt64(event), ${events})`;
}
function pickElements(array, positions) {
  return `arrayReduceInRanges('any', arrayMap(position -> (position, 1), ${positions}), ${array})`;
}

// src/questions/funnel-entries.ts
function selectFurthestEntries(course) {
  return course.order === "any" ? selectFurthestInAnyOrder(course) : selectFurthestInOrder(course);
}
function selectFurthestInOrder(course) {
  const { steps, window, to, hasBreakdown } = course;
  const second = steps[1];
  const later = second === void 0 ? `arrayMap(time -> ${NO_TIMES}, times)` : findLater(course, 1);
  const isEntry = `bitAnd(mask, ${toMask(steps.slice(0, 1))}) != 0 AND time < ${to}`;
  const since = `arrayPushFront(arrayFilter(ms -> ms <= ${window}, arrayMap(at -> at - time, later)), 0.)`;
  const entries = `arrayMap((time, mask, later) -> if(${isEntry}, ${since}, ${NO_TIMES}), times, masks, ${later})`;
  const goesOn = second === void 0 ? "1" : `bitAnd(seen, ${toMask([second])}) != 0`;
  const breakdown2 = `arrayFirst(entry -> entry.1 = if(goes_on, events[best], entry_min), entries).2`;
  return `(
    SELECT user, if(goes_on, reached[best], [0.]) AS since, ${hasBreakdown ? breakdown2 : `'[]'`} AS breakdown
    FROM (
      SELECT *, arrayMap(since -> length(since), reached) AS depths, indexOf(depths, arrayMax(depths)) AS best
      FROM (
        SELECT *, ${entries} AS reached
        FROM (
          SELECT *, ${extractTimes("events")} AS times, ${extractNumbers("events")} AS masks
          FROM (
            SELECT * EXCEPT packed, if(goes_on, arraySort(packed), arrayResize(packed, 0)) AS events
            FROM (SELECT *, ${goesOn} AS goes_on FROM (${selectPacked(course, steps.slice(0, 1))}))
          )
        )
      )
    ))`;
}
var NO_TIMES = `CAST([] AS Array(Float64))`;
function findLater(course, number2) {
  const { steps, excluded, order } = course;
  const step = steps[number2] ?? 0;
  const stops = [step, ...excluded[number2 - 1] ?? [], ...order === "strict" ? steps : []];
  const isLast = number2 === steps.length - 1;
  const isTaken = `bitAnd(mask, ${toMask([step])}) != 0`;
  const reached = isLast ? `arrayMap((time, mask) -> if(${isTaken}, [time], ${NO_TIMES}), times, masks)` : `arrayMap((time, mask, later) -> if(${isTaken}, arrayPushFront(later, time), ${NO_TIMES}), times, masks, ${findLater(course, number2 + 1)})`;
  const isStop = `bitAnd(mask, ${toMask(stops)}) != 0`;
  return `arrayPopFront(arrayReverseFill((times, mask) -> ${isStop}, arrayPushBack(${reached}, ${NO_TIMES}), arrayPushBack(masks, ${ALL})))`;
}
var ALL = `toUInt64(${2n ** 64n - 1n})`;
function selectFurthestInAnyOrder(course) {
  const { steps, window, hasBreakdown } = course;
  const all = listColumns("time", steps);
  const times = steps.map((_, k) => `${pickElements("times", `reached${k}`)} AS time${k}`);
  const depth = steps.map((_, k) => `(time${k} - time0 <= ${window})`).join(" + ");
  return `(
    SELECT user, arraySlice([${steps.map((_, k) => `time${k}[best] - time0[best]`)}], 1, depths[best]) AS since,
      ${hasBreakdown ? "arrayFirst(entry -> entry.1 = events[reached0[best]], entries).2" : `'[]'`} AS breakdown
    FROM (
      SELECT *, arrayMap((${all}) -> ${depth}, ${all}) AS depths, indexOf(depths, arrayMax(depths)) AS best
      FROM (SELECT *, ${times} FROM (${selectInAnyOrder(course)}))
    ))`;
}
function selectPacked({ events, to, hasBreakdown }, first) {
  const isEntry = `bitAnd(mask, ${toMask(first)}) != 0 AND timestamp < ${to}`;
  const entries = hasBreakdown ? ", groupArrayIf((event, breakdown), is_entry) AS entries, minIf(event, is_entry) AS entry_min" : "";
  return `SELECT user, groupArray(event) AS packed, groupBitOr(mask) AS seen${entries}
      FROM (SELECT *, ${packEvent("mask")} AS event, ${isEntry} AS is_entry FROM ${events})
      GROUP BY user HAVING max(is_entry)`;
}
function selectJourneys(course) {
  return `
    SELECT *, toUInt32(length(events) + 1) AS never, arrayPushBack(${extractTimes("events")}, inf) AS times,
      arrayPushBack(${extractNumbers("events")}, 0) AS masks, arrayEnumerate(masks) AS positions
    FROM (SELECT * EXCEPT packed, arraySort(packed) AS events FROM (${selectPacked(course, course.steps)}))`;
}
function selectEntries(array, steps, to) {
  return `arrayFilter((value, mask, time) -> bitAnd(mask, ${toMask(steps)}) != 0 AND time < ${to}, ${array}, masks, times)`;
}
function selectInAnyOrder(course) {
  const { steps, excluded, rivals, to } = course;
  let sql = `SELECT *, ${selectEntries("positions", steps, to)} AS reached0 FROM (${selectJourneys(course)})`;
  for (const [k, step] of steps.entries()) {
    const taken = (rivals[k] ?? []).map((rival) => `done${rival}`);
    const earlier = selectEntries("arrayMap((count, match) -> count - match, arrayCumSum(matches), matches)", steps, to);
    const following = `arrayReduceInRanges('groupArray', arrayMap(count -> (count + 1, ${taken.length + 1}), ${earlier}),
      arrayFilter((position, match) -> match, positions, matches))`;
    const free = taken.length > 0 ? `arrayFilter(position -> NOT has([${taken}], position), following)` : "following";
    sql = `
      SELECT * EXCEPT matches, arrayMap((${["following", ...taken]}) -> arrayMin(arrayPushBack(${free}, never)),
        ${[following, ...taken]}) AS done${k}
      FROM (SELECT *, arrayMap(mask -> bitAnd(mask, ${toMask([step])}) != 0, masks) AS matches FROM (${sql}))`;
  }
  const done = listColumns("done", steps);
  sql = `SELECT *, arrayMap((${done}) -> arraySort([${done}]), ${done}) AS done FROM (${sql})`;
  for (const k of steps.slice(1).keys()) {
    const ends = pickElements(findNext(excluded[k] ?? [], excluded[k] ?? []), `reached${k}`);
    sql = `
      SELECT *, arrayMap((reached, done, end) -> if(reached = never OR end < done[${k + 2}], never, done[${k + 2}]),
        reached${k}, done, ${ends}) AS reached${k + 1}
      FROM (${sql})`;
  }
  return sql;
}
function findNext(wanted, stops) {
  return `arrayShiftLeft(arrayReverseFill((position, mask) -> bitAnd(mask, ${toMask(stops)}) != 0,
      arrayMap((position, mask) -> if(bitAnd(mask, ${toMask(wanted)}) != 0, position, never), positions, masks), masks), 1, never)`;
}
function toMask(numbers) {
  return `toUInt64(${numbers.reduce((mask, number2) => mask | 1n << BigInt(number2), 0n)})`;
}
function listColumns(prefix, steps) {
  return steps.map((_, k) => `${prefix}${k}`).join(", ");
}

// src/contract/question-schemas.ts
import * as Type2 from "@sinclair/typebox";

// src/contract/fields.ts
import * as Type from "@sinclair/typebox";
var When = /* @__PURE__ */ Symbol("When");
var Refused = /* @__PURE__ */ Symbol("Refused");
function custom(kind2, schema) {
  return Type.Unsafe({ ...schema, [Type.Kind]: kind2 });
}
function anything() {
  return Type.Unknown();
}
function literal(value) {
  return Type.Literal(value, { message: `must be ${JSON.stringify(value)}` });
}
Type.TypeRegistry.Set("Choice", (schema, value) => schema.enum.includes(value));
function choice(...values) {
  const schema = custom("Choice", { type: "string", message: `must be one of ${values.join(", ")}` });
  return { ...schema, enum: values };
}
function wholeNumber(minimum = 0, maximum = Number.MAX_SAFE_INTEGER) {
  const message = `must be a whole number from ${minimum} to ${maximum}`;
  return Type.Integer({ minimum, maximum, message });
}
function number(minimum, maximum) {
  const message = `must be a number from ${minimum} to ${maximum}`;
  return Type.Number({ minimum, maximum, message });
}
function flag() {
  return Type.Boolean({ message: "must be true or false" });
}
function text(message = "must be a string") {
  return Type.String({ message });
}
function list2(what, items, minItems, maxItems) {
  const message = `must be an array of ${minItems} to ${maxItems} ${what}`;
  return Type.Array(items, { minItems, maxItems, message });
}
function object(fields, refused = {}) {
  return Type.Object(fields, { message: "must be an object", [Refused]: refused });
}
function shorthand(short, schema, message) {
  const union = Type.Union([short, schema], { message });
  return union;
}
function absent(schema, options) {
  return Type.Optional(Type.Union([schema, Type.Null()], { message: schema.message, ...options }));
}
function describe(schema, description) {
  return { ...schema, description };
}
function withDefault(schema, value, description) {
  return absent(schema, { default: value, ...description && { description } });
}
function orNull(schema, description) {
  return absent(schema, { default: null, description });
}
function computed(schema, description) {
  return absent(schema, { description });
}
function optional(schema, description) {
  return absent(schema, description ? { description } : {});
}
function when(condition, schema, options) {
  return { ...absent(schema, options), [When]: condition };
}

// src/contract/question-schemas.ts
var MAX_EVENTS = 1e3;
var FIELD_MESSAGE = "must be event, distinct_id, timestamp, properties.<name>, user.<name>, session.<name>, page.<name> or context.<name>";
var SESSION = "$session";
var NUMBER_METRICS = ["sum", "avg", "min", "max", "median", "percentile"];
var texts = { type: "array", items: { type: "string" } };
var Field = custom("Field", {
  anyOf: [{ type: "string" }, texts],
  message: FIELD_MESSAGE,
  description: "`event`, `distinct_id`, `timestamp`, `properties.<name>`, `user.<name>`, `session.<name>`, `page.<name>` or `context.<name>`; an array if a name contains a dot."
});
var Where = custom("Filter", {
  type: "array",
  items: {},
  message: 'must be a filter such as ["is", "properties.plan", ["pro"]]',
  description: 'An operator, then a field and a value, or filters: `["is", "properties.plan", ["pro"]]`.'
});
var EventNames = custom("EventNames", {
  anyOf: [{ type: "string" }, texts],
  message: `must be the name of an event, an array of 1 to ${MAX_EVENTS} names, or "*" for all`,
  description: "The name of an event, a list of names, `*` for all, or `$session` for sessions."
});
var Time = custom("Time", {
  anyOf: [{ type: "string" }, { type: "number" }],
  message: "must be a date (2026-04-24), an ISO time, or milliseconds since 1970"
});
var TimeZone = custom("TimeZone", {
  type: "string",
  message: "must be an IANA time zone, such as Europe/Vienna"
});
var Duration = custom("Duration", {
  type: "string",
  message: 'must be a whole number above 0 with a unit (ms, s, m, h, d, w), such as "7d", of at most 366d'
});
var Sessions = custom("Sessions", {
  anyOf: [
    { type: "string", enum: ["id"] },
    {
      type: "object",
      properties: { gap: { type: "string" }, where: { type: ["array", "null"], items: {} } },
      required: ["gap"]
    }
  ],
  message: 'must be "id", or an object such as {"gap": "30m"}'
});
var definition = {
  event: EventNames,
  where: orNull(Where, "A filter of these events.")
};
var Definition = object(definition);
var NameOrDefinition = shorthand(
  custom("Name", { type: "string", message: "must be the name of an event" }),
  Definition,
  'must be {"event": \u2026}, or the name of an event'
);
var range = {
  from: computed(
    Time,
    "The start of the range: a date, an ISO time or milliseconds since 1970 (default: 30 days before `to`)."
  ),
  to: computed(Time, "The end of the range, exclusive (default: the end of today)."),
  timezone: withDefault(
    TimeZone,
    "UTC",
    "The IANA time zone of dates and days, unless the project has set another default."
  ),
  week_start: withDefault(choice("monday", "sunday"), "monday", "The first day of a week."),
  where: orNull(Where, "A filter: only events that match count."),
  sessions: withDefault(
    Sessions,
    "id",
    "What a session is: the events of one `session_id` (`id`), or a user\u2019s events that are at most `gap` apart, unless the project has set another default."
  )
};
var Limit = wholeNumber(1, 1e3);
var split = {
  breakdown: withDefault(list2("fields", Field, 0, 2), [], "Fields to split the answer by."),
  limit: withDefault(Limit, 10, "How many values of the breakdown get a line of their own.")
};
var noBreakdown = { breakdown: "is only possible for series and funnel" };
var SeriesDefinition = object({
  ...definition,
  metric: withDefault(
    choice("events", "users", "events_per_user", ...NUMBER_METRICS),
    "events",
    "What to count, or to compute from the numbers in `property`."
  ),
  property: when({ field: "metric", values: NUMBER_METRICS }, Field, {
    description: "The field with the numbers for `sum` to `percentile`, such as `properties.price`.",
    message: "must be a field with numbers, such as properties.price"
  }),
  p: when({ field: "metric", values: ["percentile"] }, number(0, 100), {
    description: "Which percentile, in percent.",
    default: 95
  })
});
var Series = object({
  kind: literal("series"),
  ...range,
  interval: withDefault(
    choice("hour", "day", "week", "month", "none"),
    "day",
    "The length of a bucket; `none` for a single one."
  ),
  series: describe(list2("series", SeriesDefinition, 1, 10), "The series, one line each."),
  ...split,
  other: withDefault(flag(), true, "Whether the values beyond `limit` share a line."),
  approximate: withDefault(flag(), false, "Allows estimates of unique users, which are faster.")
});
var Exclusion = object({
  ...definition,
  after: describe(wholeNumber(1), "The step, from 1, after which such an event ends an entry.")
});
var Funnel = object({
  kind: literal("funnel"),
  ...range,
  steps: describe(list2("steps", Definition, 2, 20), "The steps."),
  window: withDefault(Duration, "7d", "How long a user has for all steps."),
  order: withDefault(
    choice("ordered", "strict", "any"),
    "ordered",
    "Steps one after another (`ordered`), with no other step in between (`strict`), or in `any` order."
  ),
  exclude: withDefault(
    list2("exclusions", Exclusion, 0, 20),
    [],
    "Events that end an entry if they occur between two steps."
  ),
  ...split
});
var Retention = object(
  {
    kind: literal("retention"),
    ...range,
    start: describe(NameOrDefinition, "The event that puts a user into a cohort."),
    return: describe(NameOrDefinition, "The event that counts as a return."),
    cohort: withDefault(
      choice("first", "recurring"),
      "first",
      "Whether users join with their first start event ever, or in every unit that has one."
    ),
    unit: withDefault(choice("day", "week", "month"), "day", "The length of cohorts and intervals."),
    mode: withDefault(
      choice("calendar", "rolling"),
      "calendar",
      "Whether intervals follow the calendar or begin at each user\u2019s own start."
    ),
    count: withDefault(
      choice("on", "on_or_after"),
      "on",
      "Whether a return counts in its own interval only, or in all earlier ones, too."
    ),
    intervals: withDefault(wholeNumber(1, 90), 8, "How many intervals are shown.")
  },
  noBreakdown
);
var Paths = object(
  {
    kind: literal("paths"),
    ...range,
    start: orNull(NameOrDefinition, "The event from which to follow paths."),
    end: orNull(NameOrDefinition, "The event to which paths lead, instead of `start`."),
    steps: withDefault(wholeNumber(1, 5), 3, "How many events to follow."),
    window: withDefault(Duration, "30m", "How long a path may take."),
    limit: withDefault(Limit, 10, "How many names per step get a node of their own.")
  },
  noBreakdown
);
var COUNTING = { series: Series, funnel: Funnel, retention: Retention, paths: Paths };
var breakdown = withDefault(list2("values", anything(), 0, 2), [], "The breakdown of a line of the answer.");
var CELLS = {
  series: object({
    series: withDefault(wholeNumber(), 0, "The number of the series, from 0."),
    breakdown,
    at: optional(text("must be the time of a point of the answer"), "`at` of a point; without it, the total.")
  }),
  funnel: object({
    step: describe(wholeNumber(1), "The number of a step, from 1."),
    breakdown,
    dropped: withDefault(flag(), false, "Users who reached the previous step but not this one.")
  }),
  retention: object({
    cohort: describe(text("must be the date of a cohort of the answer"), "The date of a cohort."),
    interval: optional(wholeNumber(), "The number of an interval, from 0; without it, the whole cohort.")
  }),
  paths: object({
    step: describe(wholeNumber(), "The number of a step, from 0."),
    event: optional(text(), "The event of a node."),
    from: optional(text(), "The event where a link begins."),
    to: optional(text(), "The event where a link ends.")
  })
};
var page = {
  limit: withDefault(Limit, 50, "Maximum number of users in a page."),
  page: withDefault(wholeNumber(1), 1, "Which page, from 1.")
};
var kind = literal("users");
var USERS = {
  series: object({ kind, of: Series, cell: CELLS.series, ...page }),
  funnel: object({ kind, of: Funnel, cell: CELLS.funnel, ...page }),
  retention: object({ kind, of: Retention, cell: CELLS.retention, ...page }),
  paths: object({ kind, of: Paths, cell: CELLS.paths, ...page })
};
var AnyQuestion = Type2.Union([...Object.values(COUNTING), ...Object.values(USERS)]);
var anyObject = (description) => describe(object({}), description);
var AnyQuestionBriefly = Type2.Union([
  ...Object.values(COUNTING),
  object({
    kind,
    of: anyObject("A question of one of the other kinds."),
    cell: anyObject("Which number of the answer; the fields depend on its kind."),
    ...page
  })
]);

// src/store/context-sql.ts
var CONTEXT_COLUMNS = [...CONTEXT_TEXTS, "bot"];
var CONTEXT_TYPES = {
  ...Object.fromEntries(CONTEXT_TEXTS.map((field) => [field, "String"])),
  bot: "UInt8"
};
var IS_EMPTY = [...CONTEXT_TEXTS.map((field) => `${field} = ''`), "bot = 0"].join(" AND ");
var MEMBERS = [
  ...CONTEXT_TEXTS.map((field) => `if(${field} = '', '', concat(',"${field}":', toJSONString(${field})))`),
  `if(bot = 0, '', ',"bot":true')`
].join(", ");
var OBJECT = `concat('{', substring(concat(${MEMBERS}), 2), '}')`;
var CONTEXT_JSON = `if(${IS_EMPTY}, '', ${OBJECT})`;
var CONTEXT_MEMBER = `if(${IS_EMPTY}, '', concat(',"context":', ${OBJECT}))`;

// src/store/fact-columns.ts
var FACT_COLUMNS = [
  ...["project_id", "event", "day", "user", "timestamp", "event_id", "distinct_id", "session", "session_id"],
  ...CONTEXT_COLUMNS,
  ...["properties", "refused", "step"]
];
function toDay(timestamp) {
  return `toDate32(fromUnixTimestamp64Milli(toInt64(${timestamp}), 'UTC'))`;
}
function hashName(name) {
  return `sipHash64(${name})`;
}
function hashSession(id) {
  return `if(${id} = '', 0, ${hashName(id)})`;
}

// src/contract/limits.ts
var MAX_NAME = 255;
var NAME_RULE = `must be a string of 1 to ${MAX_NAME} characters`;
var MAX_TIMESTAMP = 9999999999999;
var TIMESTAMP_RULE = `must be a number of milliseconds since 1970, from 0 to ${MAX_TIMESTAMP}`;
function isName(value) {
  if (typeof value !== "string" || value.length === 0 || !value.isWellFormed()) return false;
  return value.length <= MAX_NAME || value.length <= 2 * MAX_NAME && [...value].length <= MAX_NAME;
}
function isTimeZone(value) {
  if (typeof value !== "string" || /^[-+\d]/.test(value)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: value });
    return true;
  } catch {
    return false;
  }
}

// src/questions/field-name.ts
var MAX_NAME_LENGTH = 1e3;
var MAX_PATH = 64;
function splitField(field) {
  return typeof field === "string" ? field.split(".") : field;
}
function formatPath(source, names) {
  const field = toField(source, names);
  return typeof field === "string" ? field : JSON.stringify(field);
}
function toField(source, names) {
  return names.some((name) => name.includes(".")) ? [source, ...names] : [source, ...names].join(".");
}
var SESSION_NAMES = ["id", "start", "seconds", "events", "pages", "bounced", "state", "duration"];
var SESSION_EVENTS = ["first", "last", "entry", "exit"];
var FIELDS = [
  ...PAGE_NAMES.map((name) => `page.${name}`),
  ...CONTEXT_NAMES.map((name) => `context.${name}`),
  ...SESSION_NAMES.map((name) => `session.${name}`),
  ...SESSION_EVENTS.flatMap((event) => PAGE_NAMES.map((name) => `session.${event}.page.${name}`))
];
function findFieldFault(value) {
  const names = typeof value === "string" ? splitField(value) : value;
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === "string")) {
    return `${FIELD_MESSAGE}; write a name that contains a dot as an array: ["properties","a.b"]`;
  }
  const [source = "", ...rest] = names;
  switch (source) {
    case "event":
    case "distinct_id":
    case "timestamp":
      if (rest.length === 0) return void 0;
      break;
    case "properties":
    case "user":
      return findPathFault(source, rest);
    case "page":
      return findChoiceFault(source, rest, PAGE_NAMES);
    case "context":
      return findChoiceFault(source, rest, CONTEXT_NAMES);
    case "session":
      return findSessionFault(rest);
  }
  return names.includes("") ? FIELD_MESSAGE : `${FIELD_MESSAGE}, such as ${formatPath("properties", names)}`;
}
function findPathFault(source, path) {
  if (path.length === 0) return `must name a property: ${source}.<name>`;
  const isTooLong = path.length > MAX_PATH || path.some((name) => name.length > MAX_NAME_LENGTH);
  return isTooLong ? `must have at most ${MAX_PATH} names of at most ${MAX_NAME_LENGTH} characters` : void 0;
}
function findChoiceFault(source, [name, ...rest], names) {
  if (name !== void 0 && rest.length === 0 && names.includes(name)) return void 0;
  return `must be ${source}. and one of ${names.join(", ")}`;
}
function findSessionFault(path) {
  const [name = "", ...rest] = path;
  if (name === "properties") return findPathFault("session.properties", rest);
  if (SESSION_EVENTS.includes(name)) {
    if (rest.length === 0 || rest[0] === "session") return `must name a field of that event: session.${name}.<field>`;
    return findFieldFault(rest);
  }
  if (rest.length === 0 && SESSION_NAMES.includes(name)) return void 0;
  const events = SESSION_EVENTS.map((one) => `${one}.<field>`).join(", ");
  return `must be session. and one of ${SESSION_NAMES.join(", ")}, properties.<name>, ${events}`;
}

// src/questions/channels.ts
var KINDS = ["", "search", "social", "video", "email", "ai"];
var MEDIUMS = [
  ...[
    "",
    "cpm",
    "display",
    "paid",
    "social",
    "video",
    "email",
    "affiliate",
    "organic",
    "audio",
    "sms",
    "push",
    "referral"
  ],
  "other"
];
var SOURCES = ["", "site", "email", "sms", "other"];
var EMAIL = ["email", "e-mail", "e_mail", "e mail", "newsletter"];
var SOURCE_CLASSES = toTable({ email: EMAIL, sms: ["sms"] });
var MEDIUM_CLASSES = toTable({
  cpm: ["cpm"],
  display: ["display", "banner", "expandable", "interstitial"],
  paid: ["ppc", "retargeting"],
  social: ["social", "social-network", "social-media", "sm", "social network", "social media"],
  email: EMAIL,
  organic: ["organic"],
  audio: ["audio"],
  sms: ["sms"],
  referral: ["referral", "app", "link"]
});
var MEDIUM_PATTERNS = [
  ["[^\\t]*cp[^\\t]*|paid[^\\t]*", "paid"],
  ["[^\\t]*video[^\\t]*", "video"],
  ["affiliate[^\\t]*", "affiliate"],
  ["[^\\t]*(?:mobile|notification)[^\\t]*|[^\\t]*push", "push"],
  ["[^\\t]+", "other"]
];
var CHANNELS = listChannels();
function listChannels() {
  const [keys, values] = [[], []];
  for (const kind2 of KINDS) {
    for (const medium of MEDIUMS) {
      for (const source of SOURCES) {
        keys.push(`	${kind2}	${medium}	${source}`);
        values.push(chooseChannel(kind2, medium, source));
      }
    }
  }
  return { keys, values };
}
function chooseChannel(kind2, medium, source) {
  if (source === "" && medium === "") return "Direct";
  const isPaid = medium === "paid" || medium === "cpm";
  if (isPaid && kind2 === "search") return "Paid Search";
  if (isPaid && kind2 === "social") return "Paid Social";
  if (isPaid && kind2 === "video") return "Paid Video";
  if (medium === "display" || medium === "cpm") return "Display";
  if (isPaid) return "Paid Other";
  if (kind2 === "social" || medium === "social") return "Organic Social";
  if (kind2 === "video" || medium === "video") return "Organic Video";
  if (kind2 === "email" || medium === "email" || source === "email") return "Email";
  if (medium === "affiliate") return "Affiliates";
  if (kind2 === "search" || medium === "organic") return "Organic Search";
  if (kind2 === "ai") return "AI Assistants";
  if (medium === "audio") return "Audio";
  if (medium === "sms" || source === "sms") return "SMS";
  if (medium === "push") return "Mobile Push";
  return medium === "referral" || medium === "" && source === "site" ? "Referral" : "Unassigned";
}
function toTable(classes) {
  const pairs = Object.entries(classes).flatMap(([name, texts2]) => texts2.map((text3) => [text3, `	${name}`]));
  return { keys: pairs.map(([text3]) => text3), values: pairs.map(([, name]) => name) };
}

// src/questions/referrers.ts
var REFERRERS = {
  email: `
Gmail: mail.google.com com.google.android.gm
Yahoo! Mail: mail.yahoo.com mail.yahoo.co.jp
Outlook: outlook.live.com outlook.office.com outlook.office365.com mail.live.com
Proton Mail: mail.proton.me
iCloud Mail: mail.icloud.com
Fastmail: app.fastmail.com
Yandex Mail: mail.yandex.ru mail.yandex.com
Mail.ru: e.mail.ru
AOL Mail: mail.aol.com
`,
  ai: `
Baidu AI: yiyan.baidu.com ai.baidu.com
Chat+: *.chatplus.com *.chat-gpt.org
ChatGPT: *.chatgpt.com chat.openai.com labs.openai.com
Claude: *.claude.ai
Copilot: copilot.microsoft.com
ChatGLM: *.chatglm.cn
Deepseek: chat.deepseek.com
Duck.ai: *.duck.ai
Gemini: gemini.google.com bard.google.com
Grok: *.grok.com
iAsk: *.iask.ai
Jasper: app.jasper.ai
Le Chat: chat.mistral.ai
Meta AI: *.meta.ai
NotebookLM: notebooklm.google.com
Perplexity: *.perplexity.ai
Qwen: chat.qwen.ai
Writesonic: app.writesonic.com
You: *.you.com
`,
  video: `
bilibili: *.bilibili.com
Douyu: *.douyu.com
Niconico: *.nicovideo.jp
YouTube: *.youtube.com *.youtu.be
Vimeo: *.vimeo.com
Twitch: *.twitch.tv
Dailymotion: *.dailymotion.com
`,
  social: `
Badoo: *.badoo.com
Bebo: *.bebo.com
BlackPlanet: *.blackplanet.com
Bluesky: *.bsky.app *.skyfeed.app
Buzznet: *.buzznet.com
Classmates.com: *.classmates.com
Cyworld: global.cyworld.com
Discord: *.discord.com *.discord.gg *.discordapp.com
Douyin: *.douyin.com
Gaia Online: *.gaiaonline.com
Geni.com: *.geni.com
GitHub: *.github.com
Douban: *.douban.com
Dribbble: *.dribbble.com
Facebook: *.facebook.com *.fb.me m.facebook.com l.facebook.com com.facebook.katana
Fetlife: *.fetlife.com
Flickr: *.flickr.com
Flixster: *.flixster.com
Fotolog: *.fotolog.com
Foursquare: *.foursquare.com
Friends Reunited: *.friendsreunited.com
Friendster: *.friendster.com
gree: *.gree.jp
Haboo: *.habbo.com
Hacker News: news.ycombinator.com
hi5: *.hi5.com
Huya: *.huya.com
Hyves: *.hyves.nl
identi.ca: *.identi.ca
Instagram: *.instagram.com l.instagram.com
lang-8: *.lang-8.com
Last.fm: *.last.fm *.lastfm.ru *.lastfm.de *.lastfm.es *.lastfm.fr *.lastfm.it *.lastfm.jp *.lastfm.pl *.lastfm.com.br
  *.lastfm.se *.lastfm.com.tr
LinkedIn: *.linkedin.com *.lnkd.in *.linkedin.android com.linkedin.android
LiveJournal: *.livejournal.ru *.livejournal.com
Mastodon: *.mastodon.social *.mastodon.cloud *.mastodon.technology *.mastodon.xyz *.mastodon.at *.mastodon.art
  *.mamot.fr *.pawoo.net *.mstdn.io *.mstdn.jp *.friends.nico ro-mastodon.puyo.jp *.quey.org *.botsin.space
  social.tchncs.de *.knzk.me *.mastodont.cat *.bitcoinhackers.org *.fosstodon.org *.chaos.social *.cybre.space
  *.vis.social *.typo.social *.front-end.social *.hachyderm.io *.mastodon.online *.newsie.social *.mstdn.social
  *.indieweb.social *.sfba.social *.mas.to *.mstdn.party *.c.im *.mastodonapp.uk *.universeodon.com social.vivaldi.net
  *.ohai.social *.toot.community *.masto.ai *.mastodon.scot *.mastodon.world *.mastodon.nz *.graphics.social
  org.joinmastodon.android *.mastodon.eus mastodon.jalgi.eus *.tkm.eus
MeinVZ: *.meinvz.net
MissEvan: *.missevan.com
Mixi: *.mixi.jp
MoiKrug.ru: *.moikrug.ru
Multiply: *.multiply.com
my.mail.ru: my.mail.ru
MyHeritage: *.myheritage.com
MyLife: *.mylife.ru
Myspace: *.myspace.com
myYearbook: *.myyearbook.com
Nasza-klasa.pl: *.nk.pl
Netlog: *.netlog.com
Odnoklassniki: *.odnoklassniki.ru
Orkut: *.orkut.com
Ozone: qzone.qq.com
Peepeth: *.peepeth.com
Pinterest: *.pinterest.com *.pinterest.ca *.pinterest.ch *.pinterest.co.uk *.pinterest.com.au *.pinterest.de
  *.pinterest.dk *.pinterest.es *.pinterest.fr *.pinterest.ie *.pinterest.info *.pinterest.jp *.pinterest.nz
  *.pinterest.pt *.pinterest.se at.pinterest.com ch.pinterest.com cl.pinterest.com co.pinterest.com dk.pinterest.com
  es.pinterest.com hu.pinterest.com id.pinterest.com ie.pinterest.com in.pinterest.com it.pinterest.com
  kr.pinterest.com mx.pinterest.com nl.pinterest.com nz.pinterest.com ph.pinterest.com pt.pinterest.com
  ru.pinterest.com se.pinterest.com
Pixelfed: *.pixelfed.social *.pixelfed.de *.pxlmo.com *.metapixl.com pix.toot.wales *.pixelfed.uno *.pixey.org
Plaxo: *.plaxo.com
Renren: *.renren.com
Skyrock: *.skyrock.com
Snapchat: *.snapchat.com com.snapchat.android
Sonico.com: *.sonico.com
SoundCloud: *.soundcloud.com *.gate.sc
StackOverflow: *.stackoverflow.com
StudiVZ: *.studivz.net
Tagged: login.tagged.com
Taringa!: *.taringa.net
Telegram: web.telegram.org org.telegram.messenger
Threads: *.threads.net l.threads.net *.threads.com l.threads.com
TikTok: *.tiktok.com
Tuenti: *.tuenti.com
tumblr: *.tumblr.com t.umblr.com
Twitcast: *.twitcasting.tv
Twitter: *.twitter.com *.t.co *.x.com
Sourceforge: *.sourceforge.net
StumbleUpon: *.stumbleupon.com
Vkontakte: *.vk.com *.vkontakte.ru
V2EX: *.v2ex.com
Viadeo: *.viadeo.com
vkrugudruzei.ru: *.vkrugudruzei.ru
WAYN: *.wayn.com
WeChat: *.wechat.com mp.weixin.qq.com open.weixin.qq.com channels.weixin.qq.com
Weibo: *.weibo.com *.t.cn
WeeWorld: *.weeworld.com
Windows Live Spaces: login.live.com
Workplace: *.workplace.com l.workplace.com lm.workplace.com
Xanga: *.xanga.com
XING: *.xing.com
Reddit: *.reddit.com np.reddit.com pay.reddit.com com.reddit.frontpage
`,
  search: `
1.cz: 1.cz
118 700: 118700.se foretag.118700.se webben.118700.se
123people: 123people.com 123people.{}
360search: so.360.cn so.com m.so.com sou.com
Abacho: abacho.de abacho.com abacho.co.uk se.abacho.com tr.abacho.com abacho.at abacho.fr abacho.es abacho.ch
  abacho.it
ABCs\xF8k: abcsok.no verden.abcsok.no
Acoon: acoon.de
Aguea: chercherfr.aguea.com
Allaverksamheter: allaverksamheter.se
Alexa: alexa.com search.toolbars.alexa.com
Alice Adsl: rechercher.aliceadsl.fr
All.by: all.by
Allesklar: allesklar.de allesklar.at allesklar.ch
AllTheInternet: alltheinternet.com
AllTheWeb: alltheweb.com
AlohaFind: alohafind.com
AltaVista: altavista.com search.altavista.com listings.altavista.com altavista.de altavista.fr {}.altavista.com
  be-nl.altavista.com be-fr.altavista.com
AOL: search.aol.com search.aol.it aolsearch.aol.com aolrecherche.aol.fr aolrecherches.aol.fr aolimages.aol.fr
  aim.search.aol.com recherche.aol.fr find.web.aol.com recherche.aol.ca aolsearch.aol.co.uk search.aol.co.uk
  sucheaol.aol.de suche.aol.de o2suche.aol.de suche.aolsvc.de aolbusqueda.aol.com.mx alicesuche.aol.de
  alicesuchet.aol.de suchet2.aol.de search.hp.my.aol.com.au search.hp.my.aol.de search.hp.my.aol.it
  search-intl.netscape.com de.aolsearch.com
Apollo7: apollo7.de
Aport: sm.aport.ru
Arama: arama.com
Arcor: arcor.de
Arianna: arianna.libero.it arianna.com
Ask: ask.com web.ask.com int.ask.com mws.ask.com images.ask.com ask.reference.com askkids.com iwon.ask.com ask.co.uk
  {}.ask.com qbyrd.com {}.qbyrd.com search-results.com www1.search-results.com int.search-results.com
  {}.search-results.com search.ask.com {}.search.ask.com avira-int.ask.com searchqu.com search.tb.ask.com
  nortonsafe.search.ask.com avira.search.ask.com int.search.tb.ask.com
Avira SafeSearch: search.avira.com search.avira.net safesearch.avira.com
Atlas: searchatlas.centrum.cz
auone: search.auone.jp sp-search.auone.jp sp-web.search.auone.jp
auone Images: sp-image.search.auone.jp
Austronaut: www2.austronaut.at www1.austronaut.at
Babylon: search.babylon.com searchassist.babylon.com
Baidu: baidu.com www1.baidu.com m.baidu.com baidu.co.th zhidao.baidu.com tieba.baidu.com news.baidu.com
Biglobe: cgi.search.biglobe.ne.jp
Biglobe Images: images.search.biglobe.ne.jp
Bing: bing.com {}.bing.com global.bing.com msnbc.msn.com dizionario.it.msn.com enciclopedia.it.msn.com cc.bingj.com
blekko: blekko.com
Blogdigger: blogdigger.com
Blogpulse: blogpulse.com
Bluewin: search.bluewin.ch
Brave: search.brave.com
Canoe.ca: web.canoe.ca
Centrum: search.centrum.cz morfeo.centrum.cz
Charter: charter.net
Claro Search: claro-search.com
Clix: pesquisa.clix.pt
C\u1ED1c C\u1ED1c: coccoc.com
Comcast: search.comcast.net
Compuserve.com (Enhanced by Google): websearch.cs.com
Conduit.com: search.conduit.com images.search.conduit.com
Crawler: crawler.com
Cuil: cuil.com
Daemon search: daemon-search.com my.daemon-search.com
DasOertliche: dasoertliche.de www2.dasoertliche.de
DasTelefonbuch: www1.dastelefonbuch.de
Daum: search.daum.net
Delfi EE: otsing.delfi.ee
Delfi lv: smart.delfi.lv
Digg: digg.com
dir.com: fr.dir.com
DisconnectSearch: search.disconnect.me
dmoz: dmoz.org editors.dmoz.org
DuckDuckGo: duckduckgo.com r.duckduckgo.com duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion
Earthlink: search.earthlink.net
Ecosia: ecosia.org
El Mundo: ariadna.elmundo.es
Eniro: eniro.se
Entireweb: entireweb.com
eo: eo.st
EpicSearch.in: epicsearch.in
Eurip: eurip.com
Euroseek: euroseek.com
Everyclick: everyclick.com
Exalead: exalead.fr exalead.com
Excite: search.excite.it search.excite.fr search.excite.de search.excite.co.uk search.excite.es search.excite.nl
  msxml.excite.com excite.co.jp
Fast Browser Search: fastbrowsersearch.com
Findhurtig: findhurtig.dk
Fireball: fireball.de fireball.com
Firstsfind: firstsfind.com
Fixsuche: fixsuche.de
Flix.de: flix.de
Fooooo: search.fooooo.com
Forestle: forestle.org {}.forestle.org forestle.mobi
Francite: recherche.francite.com
Free: search.free.fr search1-2.free.fr search1-1.free.fr
FreeCause: search.freecause.com
Freenet: suche.freenet.de
Freespoke: freespoke.com
FriendFeed: friendfeed.com
Frontier: search.frontier.com
GAIS: gais.cs.ccu.edu.tw
Genieo: search.genieo.com
Geona: geona.net
Gibiru: gibiru.com
Gigablast: gigablast.com
Gigablast (Directory): dir.gigablast.com
Gnadenmeer: gnadenmeer.de
Gomeo: gomeo.com
goo: search.goo.ne.jp ocnsearch.goo.ne.jp
Google: google.com google.{} encrypted.google.com www2.google.com ipv6.google.com go.google.com wwwgoogle.com
  wwwgoogle.{} gogole.com gogole.{} gppgle.com gppgle.{} googel.com googel.{} search.avg.com isearch.avg.com
  com.google.android.googlequicksearchbox search.chedot.com darkoogle.com search.darkoogle.com search.foxtab.com
  gooofullsearch.com search.hiyo.com search.incredimail.com search1.incredimail.com search2.incredimail.com
  search3.incredimail.com search4.incredimail.com search.sweetim.com fastweb.it search.juno.com search.zum.com
  find.tdc.dk it.luna.tv searchresults.verizon.com search.walla.co.il search.alot.com suche.gmx.net search.gmx.com
  search.incredibar.com delta-search.com www1.delta-search.com search.1und1.de suche.1und1.de search.zonealarm.com
  start.lenovo.com wow.com {}.wow.com search.leonardo.it optuszoo.com.au search.dolphin-browser.jp netlavis.azione.jp
  search.nan.so cgi2.nintendo.co.jp search.smt.docomo.ne.jp image.search.smt.docomo.ne.jp gfsoso.com
  searches.safehomepage.com searches.f-secure.com search.f-secure.com webcache.googleusercontent.com
  monumentbrowser.com search.bt.com startab.me search.abv.bg search.xfinity.com kadaza.com
Google Blogsearch: blogsearch.google.com blogsearch.google.{}
Google Custom Search: cse.google.com cse.google.{}
Google Images: images.google.com images.google.{}
Google Maps: maps.google.com maps.google.{}
Google News: news.google.com news.google.{}
Google Scholar: scholar.google.com scholar.google.{}
Google syndicated search: googlesyndicatedsearch.com
Google Translations: translate.google.com
Google Video: video.google.com
GoYellow.de: goyellow.de
Gule Sider: gulesider.no
Haosou: haosou.com
HighBeam: highbeam.com
Hit-Parade: req.hit-parade.com class.hit-parade.com hit-parade.com
Holmes: holmes.ge
Hooseek: hooseek.com
Hotbot: hotbot.com
I-play: start.iplay.com
Icerocket: blogs.icerocket.com
ICQ: icq.com search.icq.com
Ilse NL: ilse.nl
iMesh: search.imesh.com
Inbox: www2.inbox.com
info.com: info.com
InfoSpace: infospace.com dogpile.com tattoodle.com metacrawler.com webfetch.com webcrawler.com search.kiwee.com
  searches.vi-view.com search.webssearches.com search.fbdownloader.com searches3.globososo.com wsdsold.infospace.com
  search.avast.com isearch.babylon.com start.facemoods.com start.funmoods.com search.magentic.com
  search.searchcompletion.com searchmobileonline.com isearch.glarysoft.com search.chatzum.com home.speedbit.com
  search.b1.org searchya.com search.handycafe.com search.v9.com search.iminent.com utorrent.inspsearch.com
  govome.inspsearch.com
Interia: google.interia.pl
Isodelen: isodelen.se
IxQuick: ixquick.com eu.ixquick.com ixquick.de us.ixquick.com s1.us.ixquick.com s2.us.ixquick.com s3.us.ixquick.com
  s4.us.ixquick.com s5.us.ixquick.com s8-eu.ixquick.com s1-eu.ixquick.de s2-eu4.ixquick.com s5-eu4.ixquick.com
Jungle Key: junglekey.com junglekey.fr
Jungle Spider: jungle-spider.de
Junior Safe Search: juniorsafesearch.com
Jyxo: jyxo.1188.cz
K9 Safe Search: k9safesearch.com
Kagi: kagi.com
KARMA: karmasearch.org
Kataweb: kataweb.it
Kensaq: kensaq.com
Kvasir: kvasir.no
La Toile Du Qu\xE9bec (Google): toile.com web.toile.com
Laban: laban.vn
Latne: latne.lv
Lilo: search.lilo.org
Lo.st: lo.st
Local Moxie: localmoxie.com
LookAny: lookany.com
Lookseek: search.lookseek.com
Looksmart: looksmart.com
Lycos: search.lycos.com lycos.{}
maailm.com: maailm.com
Mailru: go.mail.ru
Mamma: mamma.com mamma75.mamma.com
Meinestadt.de: meinestadt.de
Meta.ua: meta.ua
MetaCrawler DE: s1.metacrawler.de s2.metacrawler.de s3.metacrawler.de
Metager: meta.rrzn.uni-hannover.de metager.de
Metager2: metager2.de
Mister Wong: mister-wong.com mister-wong.de
Mojeek: mojeek.com
Monstercrawler: monstercrawler.com
mozbot: mozbot.fr mozbot.co.uk mozbot.com
MyPrivateSearch: myprivatesearch.com
MySpace: searchservice.myspace.com
MyWebSearch: mysearch.com ms114.mysearch.com ms146.mysearch.com kf.mysearch.myway.com ki.mysearch.myway.com
  search.myway.com search.mywebsearch.com
Najdi.si: najdi.si
Nate: search.nate.com
Naver: search.naver.com
Needtofind: ko.search.need2find.com
Neti: neti.ee
Nifty: search.nifty.com search.azby.fmworld.net
Nifty Videos: videosearch.nifty.com
Nigma: nigma.ru
OceanHero: oceanhero.today
Onet.pl: szukaj.onet.pl
Online.no: online.no
OnlySearch: only-search.com
Opplysningen 1881: 1881.no
Orange: busca.orange.es lemoteur.ke.voila.fr lemoteur.orange.fr
Paperball: paperball.de
PeopleCheck: extern.peoplecheck.de
PeoplePC: search.peoplepc.com
Picsearch: picsearch.com
Plazoo: plazoo.com
PlusNetwork: plusnetwork.com
Poisk.Ru: poisk.ru
Presearch: presearch.com
PrivacyWall: privacywall.org
qip.ru: search.qip.ru
Qualigo: qualigo.at qualigo.ch qualigo.de qualigo.nl
Quendu: quendu.com
Qwant: qwant.com lite.qwant.com
Rakuten: websearch.rakuten.co.jp
Rambler: nova.rambler.ru
Riksdelen: riksdelen.se
Road Runner: search.rr.com
rpmfind: rpmfind.net fr2.rpmfind.net
Sapo: pesquisa.sapo.pt
Scour.com: scour.com
Search.ch: search.ch
Search.com: search.com
Searchalot: searchalot.com
SearchCanvas: searchcanvas.com
SearchLock: searchlock.com results.searchlock.com
Searchy: searchy.co.uk
SeeSaa: search.seesaa.jp
Setooz: bg.setooz.com da.setooz.com el.setooz.com fa.setooz.com ur.setooz.com {}.setooz.com
Seznam: search.seznam.cz
Seznam Videa: videa.seznam.cz
Sharelook: sharelook.fr
Skynet: skynet.be
sm.cn: m.sm.cn so.m.sm.cn m.sp.sm.cn yz.m.sm.cn quark.sm.cn
sm.de: sm.de
SmartAddressbar: search.smartaddressbar.com
SmartShopping: search.smartshopping.com
Snap.do: search.snap.do
So-net: so-net.ne.jp
So-net Videos: video.so-net.ne.jp
Softonic: search.softonic.com
Sogou: sogou.com m.sogou.com wap.sogou.com english.sogou.com
Soso: soso.com
Sputnik: sputnik.ru
StartPage: startpage.com classic.startpage.com eu.startpage.com s6-eu5.ixquick.com s2-eu4.startpage.com
  s6-eu4.startpage.com s7-eu4.startpage.com s1-eu5.startpage.com s2-eu5.startpage.com s4-eu5.startpage.com
  s5-eu5.startpage.com s6-eu5.startpage.com s7-eu5.startpage.com s8-eu5.startpage.com s10-eu5.startpage.com
  s11-eu5.startpage.com s12-eu5.startpage.com s13-eu5.startpage.com s14-eu5.startpage.com
  startpagel6srwcjlue4zgq3zevrujfaow726kjytqbbjyrswwmjzcqd.onion
Startpagina (Google): startgoogle.startpagina.nl
Startsiden: startsiden.no
Stract: stract.com
Suche.info: suche.info
Suchmaschine.com: suchmaschine.com
Suchnase: suchnase.de
Surf Canyon: surfcanyon.com
Swiggle: swiggle.org.uk
Swisscows: swisscows.com
T-Online: suche.t-online.de brisbane.t-online.de navigationshilfe.t-online.de
talimba: talimba.com
TalkTalk: talktalk.co.uk
Tarmot: tarmot.com
Technorati: technorati.com
Teoma: teoma.com
Terra: buscador.terra.es buscador.terra.cl buscador.terra.com.br
Tiscali: search.tiscali.it search-dyn.tiscali.it hledani.tiscali.cz
Tixuma: tixuma.de
Toolbarhome: toolbarhome.com vshare.toolbarhome.com
Toppreise.ch: toppreise.ch fr.toppreise.ch de.toppreise.ch en.toppreise.ch
Torry: torry.io
TUSK Search: tusksearch.com
Trouvez.com: trouvez.com
TrovaRapido: trovarapido.com
Trusted Search: trusted-search.com
Trustnav: search.trustnav.com
Twingly: twingly.com
uol.com.br: busca.uol.com.br
URL.ORGanzier: url.org
Vinden: vinden.nl
Vindex: vindex.nl search.vindex.nl
Virgilio: ricerca.virgilio.it ricercaimmagini.virgilio.it ricercavideo.virgilio.it ricercanews.virgilio.it
  mobile.virgilio.it
Voila: search.ke.voila.fr lemoteur.fr
Volny: web.volny.cz
Vuhuv: vuhuv.com
Walhello: walhello.info walhello.com walhello.de walhello.nl
Web.de: suche.web.de m.suche.web.de
Web.nl: web.nl
weborama: weborama.fr
WebSearch: websearch.com
Wedoo: fr.wedoo.com en.wedoo.com es.wedoo.com
Winamp: search.winamp.com
Wirtualna Polska: szukaj.wp.pl
Witch: witch.de
Woopie: woopie.jp
www v\xE4rav: search.www.ee
X-Recherche: x-recherche.com
Yahoo!: search.yahoo.com malaysia.search.yahoo.com {}.search.yahoo.com cade.yahoo.com espanol.search.yahoo.com
  qc.search.yahoo.com one.cn.yahoo.com r.search.yahoo.com cercato.it search.offerbox.com benefind.de ys.mirostart.com
Yahoo! Images: images.search.yahoo.com {}.images.yahoo.com cade.images.yahoo.com espanol.images.yahoo.com
  qc.images.yahoo.com
Yahoo! Japan: search.yahoo.co.jp jp.hao123.com home.kingsoft.jp jwsearch.jword.jp
Yahoo! Japan Images: image.search.yahoo.co.jp
Yahoo! Japan Videos: video.search.yahoo.co.jp
Yam: search.yam.com
Yandex: yandex.ru yandex.com yandex.{} clck.yandex.{} m.yandex.{} ya.ru yabs.yandex.{}
Yandex Images: images.yandex.ru images.yandex.com images.yandex.{}
Yasni: yasni.de yasni.com yasni.co.uk yasni.ch yasni.at
Yatedo: yatedo.com yatedo.fr
Yellowmap: yellowmap.de
Yep: yep.com
Yippy: search.yippy.com
Yongzin: yongzin.com
YouGoo: yougoo.fr
ZapMeta: zapmeta.com zapmeta.{} {}.zapmeta.com zapmetasearch.{}
Zhongsou: p.zhongsou.com
Zoek: www3.zoek.nl
Zoeken: zoeken.nl
Zoohoo: zoohoo.cz
Zoznam: zoznam.sk
Zxuso: zxuso.com
\uBB3B\uC9C0\uB9C8 \uAC80\uC0C9: kwzf.net
`
};

// src/questions/sites.ts
var SITES = readSites();
function readSites() {
  const [hosts, domains, names] = [/* @__PURE__ */ new Map(), /* @__PURE__ */ new Map(), /* @__PURE__ */ new Map()];
  for (const [kind2, text3] of Object.entries(REFERRERS)) {
    for (const line of text3.trim().replaceAll("\n  ", " ").split("\n")) {
      const [name = "", list3 = ""] = line.split(": ");
      const site = `${kind2}	${name}`;
      add(names, name.toLowerCase(), site);
      for (const host of list3.split(" ")) {
        if (host.startsWith("*.")) add(domains, host.slice(2), site);
        else add(hosts, host, site);
      }
    }
  }
  const all = [...hosts.keys()];
  return {
    hosts: toTable2(hosts),
    domains: toTable2(domains),
    names: toTable2(names),
    before: joinTexts(all.filter((host) => host.endsWith(".{}")).map((host) => host.slice(0, -3))),
    after: joinTexts(all.filter((host) => host.startsWith("{}.")).map((host) => host.slice(3)))
  };
}
function add(sites, key, site) {
  if (!sites.has(key)) sites.set(key, site);
}
function toTable2(sites) {
  return { keys: [...sites.keys()], values: [...sites.values()] };
}
function joinTexts(texts2) {
  return texts2.map((text3) => text3.replaceAll(".", "[.]")).join("|");
}

// src/questions/page-columns.ts
function isPageView(statement) {
  return `event IN ${statement.texts(statement.context.pages.page_views)}`;
}
var PLACES_OF = {
  url: ["url"],
  host: ["url"],
  path: ["url", "path"],
  title: ["title"],
  referrer: ["url", "referrer"],
  source: ["url", "referrer", "source"],
  medium: ["url", "medium"],
  campaign: ["url", "campaign"],
  term: ["url", "term"],
  content: ["url", "content"],
  channel: ["url", "path", "title", "referrer", "source", "medium", "campaign"]
};
var PARAMETERS = ["source", "medium", "campaign", "term", "content"];
var PageColumns = class {
  #statement;
  #names = /* @__PURE__ */ new Set();
  constructor(statement) {
    this.#statement = statement;
  }
  get isEmpty() {
    return this.#names.size === 0;
  }
  /** The column with the token of a field. */
  column(name) {
    this.#names.add(name);
    return `page_${name}`;
  }
  /** Columns with the results of the parser. */
  get raws() {
    return this.isEmpty ? [] : [`${this.#parse("properties")} AS page_raw`];
  }
  /**
   * Operand of FROM. Columns build upon each other in several steps, because ClickHouse would analyze an expression
   * again for each use.
   * @param rows with the columns `properties` and `raws`
   * @param isPage SQL for whether a row is a page view
   */
  select(rows, isPage = isPageView(this.#statement)) {
    if (this.isEmpty) return rows;
    const steps = [
      ...this.#selectTexts(),
      this.#selectHosts(),
      [...this.#selectParameters(), ...this.#selectReferrer()],
      ...this.#selectSites(),
      this.#computeTexts(isPage),
      this.#tokens()
    ];
    return steps.filter((columns) => columns.length > 0).reduce((from, columns) => `(SELECT *, ${columns.join(", ")} FROM ${from})`, rows);
  }
  /** The text of each place; empty if none has one. */
  #selectTexts() {
    const leaves = this.#leaves();
    const first = (raw, json, name) => [...leaves].map(([place, found]) => {
      return `${chooseFirst(found.map(({ take }) => take(raw, json)))} AS ${name}_${place}`;
    });
    const hasNone = [...leaves.keys()].map((place) => `first_${place} = ''`).join(" AND ");
    const isRefused = `${hasNone} AND properties != '{}' AND NOT isValidJSON(properties)`;
    if (!this.#statement.context.repairsTexts) {
      const refused = `${failIf(isRefused)} AS page_refused`;
      const checked = [...leaves.keys()].map((place) => `if(page_refused, '', first_${place}) AS found_${place}`);
      return [first("page_raw", "properties", "first"), [refused], checked, this.#checkTexts(leaves, "properties")];
    }
    return [
      first("page_raw", "properties", "first"),
      [`if(${isRefused}, ${repairText("properties")}, properties) AS page_json`],
      [`${this.#parse("page_json")} AS page_read`],
      first("page_read", "page_json", "found"),
      this.#checkTexts(leaves, "page_json")
    ];
  }
  /**
   * The parser returns other values as texts, too, and takes what is within an object from an array by position. Where
   * the first one may not be a text of its name, each is looked at.
   */
  #checkTexts(leaves, json) {
    return [...leaves].map(([place, found]) => {
      if (found.length === 0) return `'' AS text_${place}`;
      const tokens = found.map(({ path }) => `JSONExtractRaw(${json}, ${this.#formatPath(path)})`);
      const text3 = `JSONExtractString(arrayFirst(token -> ${IS_TEXT}, [${tokens.join(", ")}]))`;
      const isWithin = found.some(({ path }) => path.length > 1);
      const mayBeInArray = isWithin ? ` OR (found_${place} != '' AND position(${json}, '[') > 0)` : "";
      return `if(match(found_${place}, '${MAY_BE_OTHER}')${mayBeInArray}, ${text3}, found_${place}) AS text_${place}`;
    });
  }
  /** The hosts of the page and of where the visitor came from, the path, and the parameters in the page's URL. */
  #selectHosts() {
    const places = this.#places().filter((place) => place === "url" || place === "referrer");
    const hosts = places.map((place) => `${computeHost(`text_${place}`)} AS host_${place}`);
    const path = computePath(`if(text_url = '', text_path, text_url)`);
    return [
      ...hosts,
      ...this.#names.has("path") ? [`${path} AS bare_path`] : [],
      ...this.#parameters().map((place) => `${findParameter("text_url", `utm_${place}`)} AS given_${place}`)
    ];
  }
  /** The parameters of campaigns: from their own places, or else from the URL. */
  #selectParameters() {
    return this.#parameters().map((place) => {
      const decoded = `decodeURLFormComponent(given_${place})`;
      return `multiIf(text_${place} != '', text_${place}, isValidUTF8(${decoded}), ${decoded}, given_${place}) AS utm_${place}`;
    });
  }
  /** The host that the visitor came from, unless it is the page's own. */
  #selectReferrer() {
    if (!this.#places().includes("referrer")) return [];
    const [own2, other] = ["host_url", "host_referrer"].map(withoutWww);
    return [`${toDictionary(`if(${other} = ${own2}, '', ${other})`)} AS referrer`];
  }
  /**
   * The name of the referrer's site, and the kind of the site that decides on the channel, that of the source if there
   * is one.
   */
  #selectSites() {
    const name = this.#names.has("source") ? this.#findSites("referrer", `extract(site, '	(.*)$') AS site_name`) : [];
    if (!this.#names.has("channel")) return name;
    return [
      ...name,
      [
        ...["source", "medium"].map((place) => {
          return `${toDictionary(`replaceAll(lower(utm_${place}), '	', ' ')`)} AS small_${place}`;
        })
      ],
      [`${this.#find("small_source", SITES.names)} AS named_source`],
      [`${toDictionary(`if(small_source = '', referrer, ${withoutWww("named_source")})`)} AS origin`],
      ...this.#findSites("origin", `extract(site, '^(.*)	') AS site_kind`),
      [
        `${this.#find("small_source", SOURCE_CLASSES)} AS source_found`,
        `${this.#find("small_medium", MEDIUM_CLASSES)} AS medium_found`
      ],
      [
        `replaceRegexpOne(source_found, '^[^	]+$', '	other') AS source_class`,
        `${MEDIUM_PATTERNS.reduce((text3, [pattern, name2]) => `replaceRegexpOne(${text3}, '^(?:${pattern})$', '	${name2}')`, "medium_found")} AS medium_class`
      ],
      [
        `concat('	', site_kind, if(medium_class = '', '	', medium_class),
          multiIf(source_class != '', source_class, referrer = '', '	', '	site')) AS channel_key`
      ],
      [`${toDictionary("channel_key")} AS channel_entry`]
    ];
  }
  /**
   * Each step leaves what an earlier one has found, which has a tab, as it is, so that all run on the dictionary only.
   * They are separate, because ClickHouse's plans repeat the lists in the name of everything that contains them.
   */
  #findSites(host, result) {
    const ofCountry = `'^(${SITES.before})[.](?:(?:com|org|net|co|it|edu)[.])?[a-z]{2}$', '${FIRST}.{}'`;
    const inCountry = `'^[a-z]{2}[.](${SITES.after})$', '{}.${FIRST}'`;
    const domain = `'^[^	]*?([^.	]+[.](?:(?:com|org|net|co|it|edu)[.][a-z]{2}|[^.	]+))$', '${FIRST}'`;
    const steps = [
      (site) => this.#find(site, SITES.hosts),
      (site) => `replaceRegexpOne(replaceRegexpOne(${site}, ${ofCountry}), ${inCountry})`,
      (site) => this.#find(site, SITES.hosts),
      (site) => `replaceRegexpOne(${site}, ${domain})`,
      (site) => this.#find(site, SITES.domains)
    ];
    const column = (step) => step < 0 ? host : `${host}_site${step}`;
    const found = steps.map((step, i) => [`${step(column(i - 1))} AS ${column(i)}`]);
    return [...found, [result.replace("site", column(steps.length - 1))]];
  }
  /** The value of a key, or else the key. */
  #find(key, { keys, values }) {
    return `transform(${key}, (SELECT ${this.#statement.texts(keys)}), (SELECT ${this.#statement.texts(values)}))`;
  }
  /** Columns with the tokens of the fields. */
  #tokens() {
    const { repairsTexts } = this.#statement.context;
    return [...this.#names].map((name) => {
      const text3 = this.#findText(name);
      const written = repairsTexts ? unmarkHalves(`toJSONString(${text3})`) : `toJSONString(${text3})`;
      return `if(${text3} = '', '', ${written}) AS page_${name}`;
    });
  }
  /** Columns with the texts of the fields that are computed from others. */
  #computeTexts(isPage) {
    return [...this.#names].flatMap((name) => {
      const column = this.#findText(name);
      return column.startsWith("value_") ? [`${this.#compute(name, isPage)} AS ${column}`] : [];
    });
  }
  /** The column with the text of a field. */
  #findText(name) {
    if (name === "host") return "host_url";
    if (name === "referrer") return "referrer";
    if (name === "path" || name === "source" || name === "channel") return `value_${name}`;
    return name === "url" || name === "title" ? `text_${name}` : `utm_${name}`;
  }
  #places() {
    return [...new Set([...this.#names].flatMap((name) => PLACES_OF[name]))];
  }
  #parameters() {
    return PARAMETERS.filter((name) => this.#places().includes(name));
  }
  /** The properties of each place, in their order. */
  #listFound() {
    const { page_fields } = this.#statement.context.pages;
    return this.#places().flatMap(
      (place) => page_fields[place].map((field, rank) => ({ place, rank, path: splitField(field).slice(1) }))
    );
  }
  #tree() {
    const root = { children: /* @__PURE__ */ new Map(), leaves: [] };
    for (const { place, rank, path } of this.#listFound()) {
      if (path.some(isUnsafe)) continue;
      let at = root;
      for (const part of path) {
        const next = at.children.get(part) ?? { children: /* @__PURE__ */ new Map(), leaves: [] };
        at.children.set(part, next);
        at = next;
      }
      at.leaves.push({ place, rank });
    }
    return root;
  }
  #parse(json) {
    return `JSONExtract(${json}, ${this.#statement.text(formatType(this.#tree()))})`;
  }
  #formatPath(path) {
    return path.map((name) => this.#statement.text(name)).join(", ");
  }
  /** By place, the values in their order. */
  #leaves() {
    const byPlace = new Map(this.#places().map((place) => [place, []]));
    for (const { place, rank, path } of this.#listFound()) {
      const take = (_, json) => `JSONExtract(${json}, ${this.#formatPath(path)}, 'String')`;
      byPlace.get(place)?.splice(rank, 1, { take, path });
    }
    const visit = ({ children }, sql) => {
      for (const [i, child] of [...children.values()].entries()) {
        const within = `${sql}.${i + 1}`;
        if (child.children.size > 0) visit(child, within);
        else {
          for (const { place, rank } of child.leaves) {
            const found = byPlace.get(place)?.[rank];
            if (found) found.take = (raw) => `${raw}${within}`;
          }
        }
      }
    };
    visit(this.#tree(), "");
    return byPlace;
  }
  /** SQL for the text of a field that is computed. */
  #compute(name, isPage) {
    if (name === "channel") return this.#computeChannel(isPage);
    if (name === "path") return `multiIf(text_url = '' AND text_path = '', '', bare_path = '', '/', bare_path)`;
    return `multiIf(utm_source != '', utm_source, site_name != '', site_name, referrer)`;
  }
  #computeChannel(isPage) {
    const places = ["url", "path", "title", "referrer", "campaign"].map((place) => `text_${place}`);
    const hasPage = `notEmpty(concat(${places.join(", ")})) OR ${isPage}`;
    return `if(channel_key != '			' OR ${hasPage}, ${this.#find("channel_entry", CHANNELS)}, '')`;
  }
};
var MAY_BE_OTHER = "^(?:[-0-9{[]|true$|false$|\u{10FFFD})";
var IS_TEXT = `startsWith(token, '"') AND token != '""' AND NOT startsWith(token, '"\u{10FFFD}')`;
var FIRST = String.raw`\\1`;
var ORIGIN = "(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//";
function toDictionary(text3) {
  return `toLowCardinality(${text3})`;
}
function computeHost(url) {
  const authority = `extract(${toDictionary(url)}, '^${ORIGIN}([^/?#	]*)')`;
  return `lower(replaceRegexpOne(replaceRegexpOne(${authority}, '(?s)^.*@', ''), ':[0-9]*$', ''))`;
}
function computePath(url) {
  return `replaceRegexpOne(replaceRegexpOne(${toDictionary(url)}, '^${ORIGIN}[^/?#]*', ''), '(?s)[?#].*$', '')`;
}
function findParameter(url, name) {
  return `extract(${toDictionary(url)}, '^[^?#]*[?](?:[^#]*?&)??${name}=([^&#]+)')`;
}
function withoutWww(host) {
  return String.raw`replaceRegexpOne(${host}, '^www\\.', '')`;
}
function chooseFirst(texts2) {
  const [only] = texts2;
  if (only === void 0) return `''`;
  return texts2.length === 1 ? only : `firstNonDefault(${texts2.join(", ")})`;
}
function formatType({ children }) {
  if (children.size === 0) return "String";
  const members = [...children].map(([name, child]) => `${quoteName(name)} ${formatType(child)}`);
  return `Tuple(${members.join(", ")})`;
}
function isUnsafe(name) {
  return /^(?:[0-9]+|null|true|false|nan|inf)$/i.test(name);
}
function quoteName(name) {
  return `\`${name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}

// src/questions/property-paths.ts
var Paths2 = class {
  #prefix;
  #columns = /* @__PURE__ */ new Map();
  constructor(prefix) {
    this.#prefix = prefix;
  }
  get size() {
    return this.#columns.size;
  }
  get isEmpty() {
    return this.size === 0;
  }
  get names() {
    return [...this.#columns.values()].map(({ name }) => name);
  }
  column(path) {
    const key = JSON.stringify(path);
    const known = this.#columns.get(key);
    if (known) return known.name;
    const name = `${this.#prefix}${this.#columns.size}`;
    this.#columns.set(key, { name, path });
    return name;
  }
  /**
   * Columns with the raw results of the parser.
   * @param kept null: nothing is known of the rows but the text
   */
  raws(statement, json, kept = null) {
    return this.#each(({ name, path }) => {
      const raw = `JSONExtractRaw(${json}, ${toKeys(statement, path)})`;
      const column = kept?.find(path);
      if (!column) return `${raw} AS raw_${name}`;
      return `${kept?.isThere ? column : `toLowCardinality(${raw})`} AS raw_${name}`;
    });
  }
  /**
   * Columns with the tokens, including those of texts that the parser rejects. The repaired text is a column of its
   * own, because ClickHouse would compute a shared expression for every row. Without repair, every token depends on the
   * check that fails for a rejected text, so that such a row is never evaluated.
   * @param kept if given, the column `refused` says what the parser rejects; without repair, there are no such rows
   */
  tokens(statement, json, kept = null) {
    const isRefused = kept ? "refused" : [...this.#each(({ name }) => `raw_${name} = ''`), `NOT isValidJSON(${json})`].join(" AND ");
    if (statement.context.repairsTexts) {
      const tokens = this.#each(({ name, path }) => {
        const found = unmarkToken(`JSONExtractRaw(repaired, ${toKeys(statement, path)})`);
        return `multiIf(is_refused, replaceRegexpOne(${found}, '^null$', ''), raw_${name} = 'null', '', raw_${name}) AS ${name}`;
      });
      return [`${isRefused} AS is_refused`, `if(is_refused, ${repairText(json)}, '') AS repaired`, ...tokens];
    }
    if (!kept) {
      const taken = this.#each(({ name }) => `if(is_refused OR raw_${name} = 'null', '', raw_${name}) AS ${name}`);
      return [`${failIf(isRefused)} AS is_refused`, ...taken];
    }
    return this.#each(({ name, path }) => {
      const token = kept.find(path) ? `replaceRegexpOne(raw_${name}, '^null$', '')` : `if(raw_${name} = 'null', '', raw_${name})`;
      return `${token} AS ${name}`;
    });
  }
  /** For a subquery over profiles, which needs only tokens. */
  select(statement) {
    return { raws: this.raws(statement, "properties"), tokens: this.tokens(statement, "properties"), names: this.names };
  }
  #each(of) {
    return [...this.#columns.values()].map(of);
  }
};
function toKeys(statement, path) {
  return path.map((name) => statement.text(markName(name))).join(", ");
}

// src/model/user-names.ts
var ANONYMOUS = "$anonymous";
var GROUP_PREFIX = "$group:";
var DAILY_VISITOR_PREFIX = "$visitor:";
var DAILY_VISITOR_REASON = `must not begin with ${DAILY_VISITOR_PREFIX}, which the service makes for visitor=daily`;
var RESERVED_PREFIXES = [GROUP_PREFIX, DAILY_VISITOR_PREFIX];
function reservedSql(column) {
  const prefixes = RESERVED_PREFIXES.map((prefix) => `startsWith(${column}, '${prefix}')`);
  return `(${[`${column} = '${ANONYMOUS}'`, ...prefixes].join(" OR ")})`;
}
var LONGEST = 255 * 2;

// src/store/insert.ts
import { Readable as Readable2 } from "node:stream";
var versionedRows = ({ position }) => ({ head: `{"version":${position},"rows":[`, tail: "]}\n" });
var READ_VERBATIM = {
  input_format_json_read_objects_as_strings: 1,
  input_format_json_throw_on_bad_escape_sequence: 0,
  // Fractions must come back exact to the last bit.
  precise_float_parsing: 1,
  input_format_skip_unknown_fields: 1,
  input_format_json_ignore_unknown_keys_in_named_tuple: 1,
  input_format_json_defaults_for_missing_elements_in_named_tuple: 1,
  // One thread takes 0.53 µs of CPU per event where several took 0.80 (chdb 26.7, 2 cores, blocks of 150 000 events).
  input_format_parallel_parsing: 0
};
var ONE_PIECE = {
  max_insert_threads: "1",
  min_insert_block_size_rows: "1000000000",
  min_insert_block_size_bytes: String(64 * 1024 ** 3)
};
var VIEWS_APART = { materialized_views_ignore_errors: 1 };
var PIECE_BYTES = 32 * 1024;
var SLICE_MS = 1;
async function insertEntries(clickhouse, query2, entries, toLine2, signal, settings2 = {}) {
  const values = Readable2.from(pieces(entries, toLine2), { objectMode: false });
  await clickhouse.insert(query2, values, { ...READ_VERBATIM, ...ONE_PIECE, ...VIEWS_APART, ...settings2 }, signal);
}
async function* pieces(entries, toLine2) {
  let small = [];
  let bytes = 0;
  let sliceEnd = performance.now() + SLICE_MS;
  const add2 = (part) => {
    small.push(part);
    bytes += part.length;
  };
  const joined = () => {
    const piece = Buffer.concat(small, bytes);
    small = [];
    bytes = 0;
    return piece;
  };
  let tail = "";
  for (const entry of entries) {
    const line = toLine2(entry);
    add2(Buffer.from(tail + line.head));
    tail = line.tail;
    if (entry.body.length < PIECE_BYTES) add2(entry.body);
    if (bytes >= PIECE_BYTES || entry.body.length >= PIECE_BYTES) yield joined();
    if (entry.body.length >= PIECE_BYTES) yield entry.body;
    if (performance.now() < sliceEnd) continue;
    await new Promise((resolve) => setImmediate(resolve));
    sliceEnd = performance.now() + SLICE_MS;
  }
  add2(Buffer.from(tail));
  yield joined();
}

// src/store/newest-rows.ts
var VERSIONED_TABLES = {
  profiles: {
    key: "distinct_id",
    columns: ["properties", "created_at", "updated_at", "is_identified", "is_derived", "times"]
  },
  sessions: {
    key: "session_id",
    columns: [
      ...["distinct_id", "state", "properties", "duration", "started_at", "updated_at", "ended_at"],
      ...CONTEXT_COLUMNS
    ]
  },
  aliases: {
    key: "alias",
    columns: ["distinct_id", "said", "created_at", "given_to", "given", "is_pending", "step_at"]
  }
};
function allVersions(shards, name) {
  return shards.areSeveral ? `${name}_rows` : name;
}
function newestRows(shards, name, { alias = "", keys = "1", columns = VERSIONED_TABLES[name].columns } = {}) {
  const as = alias && ` AS ${alias}`;
  if (!shards.areSeveral) return `${name}${as} FINAL`;
  const { key } = VERSIONED_TABLES[name];
  const row = [...columns, "is_deleted"].map((column) => `${name}_rows.${column}`).join(", ");
  const taken = columns.map((column, i) => `newest_row.${i + 1} AS ${column}, `).join("");
  return `(
      SELECT project_id, ${key}, ${taken}version FROM (
        SELECT project_id, ${key}, argMax(tuple(${row}), ${name}_rows.version) AS newest_row, max(${name}_rows.version) AS version
        FROM ${name}_rows WHERE ${keys} GROUP BY project_id, ${key} SETTINGS final = 0
      ) WHERE newest_row.${columns.length + 1} = 0
    )${as}`;
}

// src/json/tokens.ts
var BACKSLASH = 92;
var QUOTE = 34;
var PLAIN = Uint8Array.from(
  { length: 256 },
  (_, byte) => Number(byte >= 32 && byte !== QUOTE && byte !== BACKSLASH)
);
var TRUE_TEXT = Buffer.from("true");
var FALSE_TEXT = Buffer.from("false");
var NULL_TEXT = Buffer.from("null");
var ESCAPES2 = [...Buffer.from('"\\/bfnrt')];

// src/json/complexity.ts
var MAX_WEIGHT = 8 * 25e3;
var MAX_STATE_WEIGHT = 8 * 1e4;
var MAX_BATCH_WEIGHT = 8 * 2e5;

// src/json/value.ts
var SLOT_SIZE = 4;
var FIRST_VALUES = 4096;
var KEPT_VALUES = 64 * 1024;
var scratch = new Int32Array(FIRST_VALUES * SLOT_SIZE);

// src/store/state-shard.ts
var ESCAPES3 = [
  ["\\", "\\\\"],
  ['"', '\\"'],
  ...Array.from({ length: 32 }, (_, code) => {
    const character = String.fromCharCode(code);
    return [character, JSON.stringify(character).slice(1, -1)];
  })
];
function stateKeySql(kind2) {
  return `SHA256(concat('["${kind2}",', ${jsonText("project_id")}, ',', ${jsonText(VERSIONED_TABLES[kind2].key)}, ']'))`;
}
function jsonText(column) {
  const bytes = (text3) => `unhex('${Buffer.from(text3).toString("hex")}')`;
  const escaped = ESCAPES3.reduce((sql, [from, to]) => `replaceAll(${sql}, ${bytes(from)}, ${bytes(to)})`, column);
  return `concat('"', if(match(${column}, '[\\\\x00-\\\\x1f"\\\\\\\\]'), ${escaped}, ${column}), '"')`;
}

// src/store/versioned-table.ts
var KEY_END_BYTES = 16;
var BY_KEY = { max_threads: 1, optimize_move_to_prewhere_if_final: 1 };
var IN_BACKGROUND = { max_threads: 1, wait_end_of_query: 0 };
function createStoredKeys(kind2) {
  return {
    async count(shards) {
      const [row] = await shards.rows(`SELECT count() AS count FROM ${allVersions(shards, kind2)}`);
      return Number(row?.count);
    },
    stateKeys: (shards, after, signal) => shards.bytes(
      `SELECT toFixedString(right(${stateKeySql(kind2)}, ${KEY_END_BYTES}), ${KEY_END_BYTES})
         FROM ${allVersions(shards, kind2)} WHERE version > {after:UInt64} FORMAT RowBinary`,
      { after },
      IN_BACKGROUND,
      { signal }
    )
  };
}
function buildInsert(table, columns) {
  const names = Object.keys(columns);
  const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
  return `
    INSERT INTO ${table} (${names.join(", ")}, version)
    SELECT ${names.map((name) => `r.${name}`).join(", ")}, version
    FROM input('version UInt64, rows Array(Tuple(${types.join(", ")}))')
    ARRAY JOIN rows AS r
    FORMAT JSONEachRow`;
}

// src/store/aliases.ts
var INSERT = buildInsert("aliases", {
  project_id: "String",
  alias: "String",
  distinct_id: "String",
  said: "String",
  created_at: "Int64",
  given_to: "String",
  given: "Array(String)",
  is_pending: "UInt8",
  step_at: "Int64",
  is_deleted: "UInt8"
});
var ARE_LINKS = `distinct_id != '' AND NOT ${reservedSql("alias")} AND NOT ${reservedSql("distinct_id")}`;
var ALIASES = {
  kind: "aliases",
  ...createStoredKeys("aliases"),
  row: (projectId, alias, value) => JSON.stringify({
    project_id: projectId,
    alias,
    distinct_id: value?.distinctId ?? "",
    said: value?.said ?? "",
    created_at: value?.createdAt ?? 0,
    given_to: value?.givenTo ?? "",
    given: value?.given ?? [],
    is_pending: value?.isPending ? 1 : 0,
    step_at: value?.stepAt ?? 0,
    is_deleted: value ? 0 : 1
  }),
  insert: (clickhouse, entries, signal) => insertEntries(clickhouse, INSERT, entries, versionedRows, signal),
  async read(shards, projectId, names) {
    const fields = new QueryParameters();
    const keys = `project_id = ${fields.text(projectId)} AND alias IN ${fields.array(names)}`;
    const rows = await shards.rows(
      `SELECT alias, distinct_id, said, created_at, given_to, given, is_pending, step_at, version
       FROM ${newestRows(shards, "aliases", { keys })} WHERE ${keys}`,
      fields.parameters,
      BY_KEY
    );
    return new Map(rows.map((row) => [row.alias, { version: BigInt(row.version), bytes: 0, value: toAlias(row) }]));
  }
};
function toAlias({ distinct_id, said, created_at, given_to, given, is_pending, step_at }) {
  return {
    distinctId: distinct_id,
    said,
    createdAt: Number(created_at),
    givenTo: given_to,
    given,
    isPending: is_pending === 1,
    stepAt: Number(step_at)
  };
}
function stepsSql(shards, project) {
  const found = `SELECT alias FROM ${allVersions(shards, "aliases")} WHERE project_id = ${project} AND step_at > 0`;
  const keys = `project_id = ${project} AND alias GLOBAL IN (${found})`;
  const newest = newestRows(shards, "aliases", { keys, columns: ["distinct_id", "created_at", "step_at"] });
  return `SELECT alias, distinct_id, created_at, step_at FROM ${newest} WHERE ${keys} AND step_at > 0 AND ${ARE_LINKS}`;
}

// src/questions/users-join.ts
var NOBODY = ANONYMOUS;
function userSql({ context: asked }) {
  return asked.hasAliases ? `if(a.user = '', e.distinct_id, a.user)` : "e.distinct_id";
}
var NOBODY_HASH = hashName(`'${ANONYMOUS}'`);
function userHashSql({ context: asked }, own2) {
  return asked.hasAliases ? `if(a.user_hash = 0, ${own2}, a.user_hash)` : own2;
}
function joinUserHashes(statement, own2) {
  if (!statement.context.hasAliases) return "";
  const hashes = `SELECT ${hashName("alias")} AS alias_hash, ${hashName("user")} AS user_hash FROM (${selectAliasEnds(statement)})`;
  return `${statement.global}ANY LEFT JOIN (${hashes}) AS a ON a.alias_hash = ${own2}`;
}
function joinUsers(statement, profile, events) {
  const { context: asked, global } = statement;
  const aliases = asked.hasAliases ? `${global}ANY LEFT JOIN (${selectAliasEnds(statement)}) AS a ON a.alias = e.distinct_id` : "";
  if (!profile) return aliases;
  const users3 = events && `SELECT ${userSql(statement)} FROM ${events} AS e ${aliases}`;
  return `${aliases} ${joinProfiles(statement, profile, userSql(statement), users3)}`;
}
function joinProfiles(statement, profile, user, users3) {
  const { context: asked, global } = statement;
  const keys = `project_id = ${statement.project}${users3 === null ? "" : ` AND distinct_id ${global}IN (${users3})`}`;
  const newest = newestRows(asked.shards, "profiles", { keys, columns: ["properties"] });
  const raws = `SELECT distinct_id AS name, properties, ${profile.raws.join(", ")} FROM ${newest} WHERE ${keys}`;
  const tokens = `SELECT name, ${profile.tokens.join(", ")} FROM (${raws})`;
  const profiles = `SELECT name, ${profile.names.join(", ")} FROM (${tokens})`;
  return `${global}ANY LEFT JOIN (${profiles}) AS u ON u.name = ${user}`;
}
function selectAliasEnds(statement) {
  const { context: asked, project, global } = statement;
  const { shards } = asked;
  const keys = `project_id = ${project}`;
  const links = `SELECT alias, distinct_id FROM ${newestRows(shards, "aliases", { keys, columns: ["distinct_id"] })}
    WHERE ${keys} AND ${ARE_LINKS}`;
  const steps = stepsSql(shards, project);
  return `WITH RECURSIVE ways AS (
      SELECT alias, distinct_id AS user, (created_at, alias) AS latest, toUInt64(1) AS length, count() OVER () AS all_steps
      FROM (${steps})
      UNION ALL
      SELECT
        w.alias,
        multiIf(n.alias = '', w.user, w.length >= w.all_steps, n.latest.2, n.user),
        if(n.alias != '' AND n.latest > w.latest, n.latest, w.latest),
        2 * w.length,
        w.all_steps
      FROM ways AS w LEFT JOIN ways AS n ON n.alias = w.user
      WHERE w.length < 2 * w.all_steps
    )
    SELECT l.alias AS alias, if(e.alias = '', l.distinct_id, e.user) AS user
    FROM (${links}) AS l
    ${global}ANY LEFT JOIN (SELECT alias, argMax(user, length) AS user FROM ways GROUP BY alias) AS e
      ON e.alias = l.distinct_id`;
}

// src/questions/event-rows.ts
var MAX_PATHS = 32;
var DAY_MS = 864e5;
var EVENTS = {
  columns: {
    id: "toUInt128(event_id) AS id",
    day: `${toDay("timestamp")} AS day`,
    session: `${hashSession("session_id")} AS session`,
    json: "properties AS json"
  },
  own: hashName("e.distinct_id")
};
var FACTS = {
  columns: { ...EVENTS.columns, session: "session", day: "day" },
  own: "e.user"
};
var EventRows = class {
  statement;
  #properties = new Paths2("p");
  #profile = new Paths2("u");
  #page;
  #context = /* @__PURE__ */ new Set();
  #sessions;
  #sessionKey = "";
  #hasUser = false;
  #hasUserHash = false;
  /** @param sessions needed for fields of the session */
  constructor(statement, sessions) {
    this.statement = statement;
    this.#page = new PageColumns(statement);
    this.#sessions = sessions;
  }
  /** @throws StatementTooLargeError if there are more than MAX_PATHS properties */
  field(name) {
    const found = this.#resolveField(name);
    if (this.#properties.size + this.#profile.size <= MAX_PATHS) return found;
    throw new StatementTooLargeError(`there are more than ${MAX_PATHS} different properties`);
  }
  #resolveField(name) {
    const [source, ...path] = splitField(name);
    switch (source) {
      case "event":
      case "distinct_id":
        return { type: "text", sql: source };
      case "timestamp":
        return { type: "number", sql: "timestamp" };
      case "user":
        return { type: "json", sql: this.#profile.column(path) };
      case "page":
        return { type: "json", sql: this.#page.column(path[0]) };
      case "context":
        this.#context.add(path[0] ?? "");
        return { type: "json", sql: `context_${path[0]}` };
      case "session":
        return { type: "json", sql: this.#joinSessions().field(path) };
      default:
        return { type: "json", sql: this.#properties.column(path) };
    }
  }
  sessionHas(events) {
    return this.#joinSessions().has(events);
  }
  /** The column of the user, the same for all aliases. */
  user() {
    this.#hasUser = true;
    return "person";
  }
  userHash() {
    this.#hasUserHash = true;
    return "person_hash";
  }
  /** Operand of FROM. @param narrow conditions on columns other than `properties` and the user */
  sql(range2, narrow, columns) {
    if (!this.#sessions || this.#sessionKey === "") return this.#read(range2, narrow, columns);
    const events = this.#read(range2, narrow, [...columns, ...this.#sessions.keyColumns]);
    const fields = this.#sessions.names.map((name) => `s.${name} AS ${name}`).join(", ");
    return `(SELECT e.*, ${fields} FROM (SELECT *, ${this.#sessionKey} AS session_key FROM ${events}) AS e
      ASOF LEFT JOIN ${this.#sessions.sql()} AS s ON s.session_key = e.session_key AND s.session_start <= e.timestamp)`;
  }
  /** Reads facts, and the events that are not among them yet. */
  #read(range2, narrow, columns) {
    const { statement } = this;
    const { shards, facts } = statement.context;
    const project = `project_id = ${statement.project}`;
    const selectEvents3 = (kept2, more) => {
      const conditions2 = [project, ...selectRange(statement, range2), ...narrow];
      conditions2.push(...range2.hasSession ? [`session_id != ''`] : [], ...more);
      return this.#selectRaw(columns, { ...EVENTS, table: shards.table("events"), kept: kept2 }, conditions2);
    };
    if (!facts) return this.#select(`(${selectEvents3(null, [])})`, null);
    const conditions = [project, ...selectDays(statement, range2), ...narrow];
    if (range2.hasSession) conditions.push("session != 0");
    if (facts.step !== null) conditions.push(`step <= ${statement.ofShard(facts.step, "UInt32")}`);
    const kept = { find: facts.findColumn, isThere: true };
    const copied = this.#selectRaw(columns, { ...FACTS, table: shards.table("event_facts"), kept }, conditions);
    const parts = [copied];
    if (facts.hasLater) {
      const isLater = `toUInt128(event_id) > ${statement.ofShard(facts.hi, "UInt128")}`;
      parts.push(selectEvents3({ ...kept, isThere: false }, [isLater]));
    }
    const rows = `(${parts.join(" UNION ALL ")})`;
    const isRepaired = !this.#hasJson || statement.context.repairsTexts;
    return this.#select(isRepaired ? rows : `(SELECT * FROM ${rows} WHERE ${failIf("refused")} = 0)`, kept);
  }
  /** The columns of the user. @param own SQL for the hash of `distinct_id` */
  #users(own2) {
    const { statement } = this;
    if (this.#needsName) {
      const hash = this.#hasUserHash ? [`${hashName("person")} AS person_hash`] : [];
      return [`${userSql(statement)} AS person`, ...hash];
    }
    return this.#hasUserHash ? [`${userHashSql(statement, own2)} AS person_hash`] : [];
  }
  get #contexts() {
    return [...this.#context].map((name) => `${formatContext(name, name)} AS context_${name}`);
  }
  get #needsName() {
    return this.#hasUser || !this.#profile.isEmpty;
  }
  #joinSessions() {
    const sessions = this.#sessions;
    if (!sessions) throw new Error("these rows have no sessions");
    if (this.#sessionKey === "") this.#sessionKey = sessions.key(this);
    return sessions;
  }
  /** Operand of FROM. @param events a subquery with few rows and the columns that are needed */
  of(events, columns) {
    return this.#select(`(${this.#selectRaw(columns, { ...EVENTS, table: events, areFew: true }, [])})`, null);
  }
  /**
   * Operand of FROM, for filters of users.
   * @param users a subquery in which each user is one row, with the name as `distinct_id`
   * @param areAll whether most users of the project are among them
   */
  ofUsers(users3, columns, areAll) {
    if (this.#profile.isEmpty) return users3;
    const profile = this.#profile.select(this.statement);
    const names = areAll ? null : `SELECT distinct_id FROM ${users3}`;
    const all = [...columns, ...this.#profile.names];
    return `(SELECT ${all.join(", ")} FROM ${users3} AS e ${joinProfiles(this.statement, profile, "e.distinct_id", names)})`;
  }
  #joins({ table, own: own2, areFew = false }) {
    if (!this.#needsName) return this.#hasUserHash ? joinUserHashes(this.statement, own2) : "";
    const profile = this.#profile.isEmpty ? null : this.#profile.select(this.statement);
    return joinUsers(this.statement, profile, areFew ? table : null);
  }
  /** SELECT of what is read of a source, from which `#select` computes the other columns. */
  #selectRaw(columns, source, conditions) {
    const all = [
      ...columns.map((name) => source.columns[name] ?? name),
      ...this.#users(source.own),
      ...this.#profile.names,
      ...this.#contexts,
      ...this.#properties.raws(this.statement, "properties", source.kept),
      ...this.#page.raws,
      ...this.#hasJson ? ["properties"] : [],
      ...this.#hasJson && source.kept ? [source.kept.isThere ? "refused" : "NOT isValidJSON(properties) AS refused"] : []
    ];
    const prewhere = conditions.length > 0 ? `PREWHERE ${conditions.join(" AND ")}` : "";
    return `SELECT ${all.join(", ")} FROM ${source.table} AS e ${this.#joins(source)} ${prewhere}`;
  }
  #select(rows, kept) {
    const { statement } = this;
    const properties = this.#properties;
    if (properties.isEmpty) return this.#page.select(rows);
    return this.#page.select(`(SELECT *, ${properties.tokens(statement, "properties", kept).join(", ")} FROM ${rows})`);
  }
  get #hasJson() {
    return !this.#properties.isEmpty || !this.#page.isEmpty;
  }
};
function selectRange(statement, { from, to }) {
  const lower = from === void 0 ? [] : [`timestamp >= ${statement.number(from)}`];
  return [...lower, `timestamp < ${statement.number(to)}`];
}
function selectDays(statement, { from, to }) {
  const lower = from === void 0 ? [] : [`day >= ${toDay(statement.number(Math.max(from, 0)))}`];
  if (from !== void 0 && !isDay(from)) lower.push(`timestamp >= ${statement.number(from)}`);
  if (isDay(to)) return [...lower, `day < ${toDay(statement.number(to))}`];
  const last = toDay(statement.number(Math.min(Math.max(to, 0), MAX_TIMESTAMP)));
  return [...lower, `day <= ${last}`, `timestamp < ${statement.number(to)}`];
}
function isDay(time) {
  return time % DAY_MS === 0 && time >= 0 && time <= MAX_TIMESTAMP;
}
function formatContext(name, column) {
  return name === "bot" ? `if(${column} = 1, 'true', '')` : `if(${column} = '', '', toJSONString(toString(${column})))`;
}
function formatFieldJson({ type, sql }, { repairsTexts }) {
  if (type === "text") return `toJSONString(${sql})`;
  return type === "number" ? formatNumber(sql) : formatJson(sql, repairsTexts);
}

// src/questions/field-sql.ts
function getFieldType(name) {
  const [source] = splitField(name);
  if (source === "timestamp") return "number";
  return source === "event" || source === "distinct_id" ? "text" : "json";
}

// src/questions/pattern-syntax.ts
var WIDE = 12;
var GROUP = 2;
var UNICODE_CLASS = 700;
var REPETITION = /\{(\d{1,4})(,(\d{0,4}))?\}/y;
var GROUP_HEAD = /\?(?:P?<[^>)]*>|[a-zA-Z-]*:?)/y;
var CLASS_NAME = /\[:\^?[a-z]+:\]/y;
var ESCAPE2 = /\\(?:[pP](?:\{[^}]*\}|.)|x\{[^}]*\}|.)/suy;
var PatternReader = class {
  #text;
  #at = 0;
  #part = "";
  /** sizes of the groups around the current one */
  #outer = [];
  #size = 0;
  /** size of the last item, which a repetition would repeat */
  #last = 0;
  constructor(text3) {
    this.#text = text3;
  }
  read() {
    while (this.#at < this.#text.length) {
      if (!this.#step()) return { size: this.#total, part: null };
    }
    return { size: this.#total, part: this.#outer.length > 0 ? null : this.#part };
  }
  get #total() {
    return this.#outer.reduce((sum, size) => sum + size, this.#size);
  }
  /** @returns false if the brackets do not match */
  #step() {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0);
    switch (character) {
      case "\\":
        return this.#escape();
      case "[":
        return this.#class();
      case "(":
        return this.#open();
      case ")":
        return this.#close();
      case "{":
        return this.#repetition();
      case "|":
        this.#last = 0;
        this.#size += 1;
        return this.#take(character);
      case "*":
      case "+":
      case "?":
        this.#size += 1;
        return this.#take(character);
      default:
        return this.#atom(character, character === "." ? WIDE : Buffer.byteLength(character));
    }
  }
  #take(text3) {
    this.#part += text3;
    this.#at += text3.length;
    return true;
  }
  #atom(text3, size) {
    this.#size += size;
    this.#last = size;
    return this.#take(text3);
  }
  #match(pattern) {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text);
  }
  #escape() {
    if (this.#text.startsWith("\\Q", this.#at)) return this.#quotation();
    const [found] = this.#match(ESCAPE2) ?? [];
    return found !== void 0 && this.#atom(found, estimateEscape(found));
  }
  /** Escapes the characters of a quotation, because one without an end would include everything after it. */
  #quotation() {
    this.#size += 1;
    const start = this.#at + 2;
    const found = this.#text.indexOf("\\E", start);
    const quoted = this.#text.slice(start, found < 0 ? void 0 : found);
    for (const character of quoted) {
      this.#last = Buffer.byteLength(character);
      this.#size += this.#last;
    }
    this.#part += quoted.replace(/[!-/:-@[-`{-~]/g, "\\$&");
    this.#at = found < 0 ? this.#text.length : found + 2;
    return true;
  }
  #class() {
    const start = this.#at;
    let end = start + 1;
    let size = 2;
    if (this.#text[end] === "^") {
      end++;
      size = WIDE;
    }
    if (this.#text[end] === "]") end++;
    while (this.#text[end] !== "]") {
      const character = this.#text[end];
      if (character === void 0) return false;
      const special = character === "\\" ? ESCAPE2 : CLASS_NAME;
      special.lastIndex = end;
      const [item] = special.exec(this.#text) ?? [character];
      if (character === "\\") size = Math.max(size, estimateEscape(item));
      if (character > "\x7F") size = Math.max(size, WIDE);
      end += item.length;
    }
    return this.#atom(this.#text.slice(start, end + 1), size);
  }
  #open() {
    this.#outer.push(this.#size + GROUP);
    this.#size = 0;
    this.#last = 0;
    this.#take("(");
    const [head] = this.#match(GROUP_HEAD) ?? [];
    return head === void 0 || this.#take(head);
  }
  #close() {
    const outer = this.#outer.pop();
    if (outer === void 0) return false;
    this.#last = this.#size + GROUP;
    this.#size += outer;
    return this.#take(")");
  }
  #repetition() {
    const found = this.#match(REPETITION);
    if (!found) return this.#atom("{", 1);
    const [text3, least, isRange, most] = found;
    const times = Math.max(1, Number(least), most ? Number(most) : isRange ? Number(least) + 1 : 0);
    const each = this.#last + (isRange ? 1 : 0);
    this.#size += each * times - this.#last;
    this.#last = each * times;
    return this.#take(text3);
  }
};
function estimateEscape(text3) {
  if (/^\\[pP]/.test(text3)) return UNICODE_CLASS;
  if (/^\\[DWS]/.test(text3)) return WIDE;
  return text3.startsWith("\\x{") ? 4 : 1;
}
function parsePattern(pattern) {
  return new PatternReader(pattern).read();
}

// src/questions/patterns.ts
var FLAGS = "(?-s)";
var BLOCK_WORK = 2 ** 30;
var MAX_BLOCK_BYTES = 2 ** 20;
var MIN_BLOCK_BYTES = 16 * 1024;
function joinPatterns(patterns) {
  if (patterns.length <= 1) return patterns.map((pattern) => FLAGS + pattern);
  const parts = /* @__PURE__ */ new Set();
  const odd = /* @__PURE__ */ new Set();
  const alone = /* @__PURE__ */ new Set();
  for (const pattern of patterns) {
    const { part } = parsePattern(pattern);
    if (part === null) alone.add(pattern);
    else (part.isWellFormed() ? parts : odd).add(`(?:${part})`);
  }
  return [[...parts].join("|"), [...odd].join("|"), ...alone].filter((text3) => text3 !== "").map((text3) => FLAGS + text3);
}

// src/questions/time.ts
import { Temporal } from "temporal-polyfill";
var DAY_MS2 = 864e5;
var DATE = /^\d{4}-\d\d-\d\d$/;
var TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d(?::?\d\d)?|[+-]\d\d:\d\d:\d\d)?$/i;
function parseInstant(text3, timezone) {
  if (typeof text3 === "number") return text3;
  try {
    if (DATE.test(text3)) return Temporal.PlainDate.from(text3).toZonedDateTime(timezone).epochMilliseconds;
    const time = TIME.exec(text3);
    if (!time) return null;
    const instant = time[1] ? Temporal.Instant.from(text3) : Temporal.PlainDateTime.from(text3).toZonedDateTime(timezone).toInstant();
    const ms = instant.epochMilliseconds;
    return ms + Number(instant.epochNanoseconds - BigInt(ms) * 1000000n) / 1e6;
  } catch {
    return null;
  }
}
function parseRange({ from, to, timezone }) {
  return { from: parseInstant(from, timezone) ?? 0, to: parseInstant(to, timezone) ?? 0 };
}
function parseSessions(question) {
  return { definition: question.sessions, ...parseRange(question) };
}
function formatInstant(ms, timezone) {
  return formatLocal(ms, toZoned(ms, timezone).offsetNanoseconds / 1e6);
}
function formatLocal(ms, offset) {
  const local = new Date(Math.floor(ms) + offset).toISOString().replace(/(\.000)?Z$/, "");
  const seconds = Math.abs(offset) / 1e3;
  const parts = [seconds / 3600, seconds / 60 % 60, ...seconds % 60 === 0 ? [] : [seconds % 60]];
  const text3 = parts.map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
  return `${local}${offset < 0 ? "-" : "+"}${text3}`;
}
var UNITS = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: DAY_MS2, w: 7 * DAY_MS2 };
function parseDuration(text3) {
  const [, count, unit = ""] = /^(\d{1,12})(ms|s|m|h|d|w)$/.exec(text3) ?? [];
  return count === void 0 ? null : Number(count) * (UNITS[unit] ?? 0);
}
var LEAST_MS = {
  hour: 36e5,
  day: DAY_MS2,
  week: 7 * DAY_MS2,
  month: 28 * DAY_MS2
};
var MOST_MS = {
  hour: 3 * DAY_MS2,
  day: 4 * DAY_MS2,
  week: 10 * DAY_MS2,
  month: 35 * DAY_MS2
};
function splitIntoBuckets({ from, to }, unit, timezone, weekStart) {
  const pieces2 = splitIntoPieces({ from: from - MOST_MS[unit], to: to + MOST_MS[unit] }, unit, timezone, weekStart);
  const byKey = /* @__PURE__ */ new Map();
  for (const [i, piece] of pieces2.entries()) {
    const key = unit === "hour" ? i : piece.key;
    const known = byKey.get(key);
    if (known) known.push(piece);
    else byKey.set(key, [piece]);
  }
  const touched = [...byKey.values()].filter((pieces3) => pieces3.some((piece) => piece.from < to && piece.to > from));
  const buckets = touched.flatMap((pieces3) => {
    const [first, last] = [pieces3[0], pieces3.at(-1)];
    if (!first || !last) return [];
    const at = formatLocal(first.from, first.offset);
    return { at, date: at.slice(0, 10), from: first.from, to: last.to };
  });
  const starts = touched.flatMap((pieces3, number2) => pieces3.map((piece) => ({ at: piece.from, number: number2 }))).sort((a, b) => a.at - b.at).filter(({ number: number2 }, i, all) => all[i - 1]?.number !== number2);
  return { buckets, starts: starts.map(({ at }) => at), numbers: starts.map(({ number: number2 }) => number2) };
}
function splitIntoPieces(range2, unit, timezone, weekStart) {
  const pieces2 = [];
  for (const { from, to, offset } of findOffsets(range2, timezone)) {
    for (let at = from; at < to; ) {
      const key = countUnits(at + offset, unit, weekStart);
      const end = Math.min(findUnitStart(key + 1, unit, weekStart) - offset, to);
      pieces2.push({ from: at, to: end, key, offset });
      at = end;
    }
  }
  return pieces2;
}
function countUnits(local, unit, weekStart) {
  switch (unit) {
    case "hour":
      return Math.floor(local / 36e5);
    case "day":
      return Math.floor(local / DAY_MS2);
    case "week":
      return Math.floor((Math.floor(local / DAY_MS2) + countWeekShift(weekStart)) / 7);
    case "month": {
      const date = new Date(local);
      return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
    }
  }
}
function findUnitStart(key, unit, weekStart) {
  switch (unit) {
    case "hour":
      return key * 36e5;
    case "day":
      return key * DAY_MS2;
    case "week":
      return (key * 7 - countWeekShift(weekStart)) * DAY_MS2;
    case "month":
      return Date.UTC(1970 + Math.floor(key / 12), (key % 12 + 12) % 12);
  }
}
function countWeekShift(weekStart) {
  return weekStart === "monday" ? 3 : 4;
}
function findOffsets({ from, to }, timezone) {
  const found = [];
  let start = toZoned(from, timezone);
  for (let at = from; at < to; ) {
    const next = start.getTimeZoneTransition("next");
    const end = Math.min(next?.epochMilliseconds ?? to, to);
    found.push({ from: at, to: end, offset: start.offsetNanoseconds / 1e6 });
    at = end;
    if (next) start = next;
  }
  return found;
}
function toZoned(ms, timezone) {
  return Temporal.Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(timezone);
}

// src/questions/filter.ts
var FALSE = "0";
function buildCondition(context, filter) {
  switch (filter[0]) {
    case "and":
      return joinConditions(context, filter[1], "AND", "1");
    case "or":
      return joinConditions(context, filter[1], "OR", FALSE);
    case "not":
      return `NOT (${buildCondition(context, filter[1])})`;
    case "session_has":
      return context.rows.sessionHas(filter[1]);
    case "is":
      return buildIsOneOf(context, filter[1], filter[2]);
    case "is_not":
      return `NOT (${buildIsOneOf(context, filter[1], filter[2])})`;
    case "contains":
    case "starts_with":
    case "ends_with":
    case "matches":
      return hasText(context, filter[0], filter[1], filter[2]);
    case "not_contains":
      return `NOT (${hasText(context, "contains", filter[1], filter[2])})`;
    case "set":
      return isSet(context, filter[1]);
    case "not_set":
      return `NOT (${isSet(context, filter[1])})`;
    default:
      return isOrdered(context, filter[0], filter[1], filter[2]);
  }
}
function isNarrow(filter) {
  if (filter[0] === "and" || filter[0] === "or") return filter[1].every(isNarrow);
  if (filter[0] === "not") return isNarrow(filter[1]);
  if (filter[0] === "session_has") return false;
  const [source = ""] = splitField(filter[1]);
  return ["event", "distinct_id", "timestamp"].includes(source);
}
function joinConditions(context, filters, word, none) {
  if (filters.length === 0) return none;
  return `(${filters.map((one) => buildCondition(context, one)).join(` ${word} `)})`;
}
function isSet({ rows }, name) {
  const { type, sql } = rows.field(name);
  return type === "json" ? `${sql} != ''` : "1";
}
function buildIsOneOf({ rows }, name, values) {
  const { statement } = rows;
  const { type, sql } = rows.field(name);
  const texts2 = values.filter((value) => typeof value === "string");
  const numbers = values.filter((value) => typeof value === "number");
  if (type === "text") return texts2.length > 0 ? `${sql} IN ${statement.texts(texts2)}` : FALSE;
  if (type === "number") return numbers.length > 0 ? `${sql} IN ${statement.numbers(numbers)}` : FALSE;
  const tokens = values.flatMap((value) => typeof value === "number" || value === null ? [] : toToken(value));
  const tests = (token) => [
    ...tokens.length > 0 ? [`${token} IN ${statement.texts(tokens)}`] : [],
    ...numbers.length > 0 ? [`ifNull(${parseNumber(token)} IN ${statement.numbers(numbers)}, 0)`] : []
  ];
  const hasNull = values.includes(null);
  const own2 = [...tests(sql), ...hasNull ? [`${sql} = ''`] : []];
  const ofMember = [...tests("member"), ...hasNull ? [`member = 'null'`] : []];
  if (own2.length === 0) return FALSE;
  const members = extractMembers(sql, statement.context.repairsTexts);
  return `if(${isArray(sql)}, arrayExists(member -> ${ofMember.join(" OR ")}, ${members}), ${own2.join(" OR ")})`;
}
function toToken(value) {
  return typeof value === "string" ? toTextToken(value) : String(value);
}
function hasText({ rows }, operator, name, given) {
  const { type, sql } = rows.field(name);
  const values = typeof given === "string" ? [given] : given;
  const texts2 = operator === "matches" ? joinPatterns(values) : values;
  const test = buildTest(rows.statement, operator, texts2);
  const check = operator === "matches" && texts2.length > 0 ? [`NOT ignore(${test("''")})`] : [];
  return `(${[...check, hasAnyText({ type, sql }, operator, test, rows.statement.context)].join(" AND ")})`;
}
var FEW_TEXTS = 10;
function buildTest(statement, operator, texts2) {
  if (texts2.length > FEW_TEXTS) {
    const array = statement.anyTexts(texts2);
    return (text3) => `arrayExists(wanted -> ${TESTS[operator](text3, "wanted")}, ${array})`;
  }
  const parameters = texts2.map((value) => statement.text(value));
  return (text3) => `(${parameters.map((value) => TESTS[operator](text3, value)).join(" OR ") || FALSE})`;
}
function hasAnyText({ type, sql }, operator, test, { repairsTexts }) {
  if (type === "number") return FALSE;
  if (type === "text") return test(sql);
  const own2 = `${isText(sql)} AND ${test(decodeText(sql, repairsTexts))}`;
  if (operator !== "contains") return `(${own2})`;
  const ofMember = `${isText("member")} AND ${test(decodeText("member", repairsTexts))}`;
  return `(${own2} OR (${isArray(sql)} AND arrayExists(member -> ${ofMember}, ${extractMembers(sql, repairsTexts)})))`;
}
var TESTS = {
  contains: (text3, value) => `position(${text3}, ${value}) > 0`,
  starts_with: (text3, value) => `startsWith(${text3}, ${value})`,
  ends_with: (text3, value) => `endsWith(${text3}, ${value})`,
  matches: (text3, value) => `match(${text3}, ${value})`
};
var OPERATORS = { gt: ">", gte: ">=", lt: "<", lte: "<=" };
function isOrdered({ rows, timezone }, operator, name, value) {
  const { statement } = rows;
  const { type, sql } = rows.field(name);
  const compare = OPERATORS[operator];
  if (type === "number") {
    const instant = parseInstant(value, timezone);
    return instant === null ? FALSE : `${sql} ${compare} ${statement.number(instant)}`;
  }
  if (typeof value === "number") return isNumberOrdered(sql, type, compare, statement.number(value));
  const text3 = statement.text(value);
  return type === "text" ? `${sql} ${compare} ${text3}` : `(${isText(sql)} AND ${decodeText(sql, statement.context.repairsTexts)} ${compare} ${text3})`;
}
function isNumberOrdered(sql, type, compare, number2) {
  return type === "text" ? FALSE : `ifNull(${parseNumber(sql)} ${compare} ${number2}, 0)`;
}

// src/questions/session-rows.ts
var SessionRows = class {
  statement;
  #sessions;
  #profile = new Paths2("u");
  constructor(statement, sessions) {
    this.statement = statement;
    this.#sessions = sessions;
  }
  field(name) {
    const [source, ...path] = splitField(name);
    switch (source) {
      case "event":
        return { type: "text", sql: "event" };
      case "distinct_id":
        return { type: "text", sql: this.user() };
      case "timestamp":
        return { type: "number", sql: "timestamp" };
      case "user":
        return { type: "json", sql: this.#profile.column(path) };
      case "page":
        return { type: "json", sql: this.#sessions.field(["entry", "page", ...path]) };
      case "context":
        return { type: "json", sql: this.#sessions.context(path[0] ?? "") };
      case "session":
        return { type: "json", sql: this.#sessions.field(path) };
      default:
        return { type: "json", sql: `''` };
    }
  }
  sessionHas(events) {
    return this.#sessions.has(events);
  }
  user() {
    return this.#sessions.user();
  }
  userHash() {
    return this.#sessions.userHash();
  }
  /** Operand of FROM. Columns: `event`, `timestamp`, `id` and those that were asked for. */
  sql() {
    const hasProfile = !this.#profile.isEmpty;
    const user = hasProfile ? this.user() : "";
    const rows = `(SELECT *, '${SESSION}' AS event, session_start AS timestamp, session_order AS id FROM ${this.#sessions.sql()})`;
    if (!hasProfile) return rows;
    const joined = joinProfiles(this.statement, this.#profile.select(this.statement), `e.${user}`, null);
    return `(SELECT e.*, ${this.#profile.names.join(", ")} FROM ${rows} AS e ${joined})`;
  }
};

// src/questions/sessions.ts
var DAY_MS3 = 864e5;
var CHOSEN = {
  first: ["argMinIf", "is_event"],
  last: ["argMaxIf", "is_event"],
  entry: ["argMinIf", "is_page"],
  exit: ["argMaxIf", "is_page"]
};
var Sessions2 = class _Sessions {
  scope;
  #statement;
  #events;
  #calls = new Paths2("q");
  #moments = [];
  /** the columns of a session by what they are */
  #columns = /* @__PURE__ */ new Map();
  #pages = /* @__PURE__ */ new Map();
  #hasContext = false;
  #hasUser = false;
  constructor(statement, scope) {
    this.#statement = statement;
    this.scope = scope;
    this.#events = new EventRows(statement);
  }
  get names() {
    const ofPages = [...this.#pages.values()].flatMap(({ names }) => [...names.values()]);
    return [...[...this.#columns.values()].map(({ name }) => name), ...ofPages];
  }
  /** The column with the token of a field. @param path what follows `session` */
  field([name = "", ...path]) {
    switch (name) {
      case "first":
      case "last":
      case "entry":
      case "exit": {
        if (path[0] === "page") return this.#page(name, path[1]);
        const [find, condition] = CHOSEN[name];
        return this.#column(
          `${name} ${JSON.stringify(path)}`,
          () => `${find}(${this.#take(path)}, place, ${condition})`
        );
      }
      case "properties":
        return this.#column(`properties ${JSON.stringify(path)}`, () => {
          const column = this.#calls.column(path);
          return `max(${this.#moment(column, `''`, column)})`;
        });
      case "state":
        return this.#column(name, () => `max(${this.#moment("call_state", `''`, "toJSONString(state)")})`);
      case "duration": {
        const duration = "ifNull(duration, toFloat64(updated_at - started_at) / 1000)";
        return this.#column(name, () => `max(${this.#moment("call_duration", `''`, formatNumber(duration))})`);
      }
      default:
        return this.#column(name, () => this.#compute(name));
    }
  }
  /** The column with the token of a session's context: that of the calls, or of the first event that has one. */
  context(name) {
    return this.#column(`context ${name}`, () => {
      this.#hasContext = true;
      const value = this.#moment(`sent_${name}`, name, name);
      const hasContext = this.#moment("has_context", HAS_CONTEXT, HAS_CONTEXT);
      return formatContext(name, `argMinIf(${value}, place, ${hasContext})`);
    });
  }
  /** The column that says whether a session has such an event. */
  has({ event, where }) {
    return this.#column(`has ${JSON.stringify([event, where ?? null])}`, () => {
      const context = { rows: this.#events, timezone: this.scope.timezone };
      if (event === SESSION) return "toUInt8(0)";
      const tests = event === "*" ? ["1"] : [`event IN ${this.#statement.texts([event].flat())}`];
      if (where) tests.push(buildCondition(context, where));
      const name = this.#moment(`is_had${this.#moments.length}`, `toUInt8(${tests.join(" AND ")})`, "toUInt8(0)");
      return `max(${name})`;
    });
  }
  /** The column with a session's user. */
  user() {
    this.#hasUser = true;
    return this.#column("user", () => `argMax(${this.#moment("person", this.#events.user(), "person")}, place)`);
  }
  /** The column with the hash of a session's user. */
  userHash() {
    this.#hasUser = true;
    const hash = () => this.#moment("person_hash", this.#events.userHash(), hashName("person"));
    return this.#column("user hash", () => `argMax(${hash()}, place)`);
  }
  /**
   * SQL for the key of the session of an event row that has the columns `timestamp`, `session_id` and, by gap, those of
   * the filter; 0 for an event without a session.
   */
  key(rows) {
    return `if(${this.#belongs(rows)}, ${this.#hash(rows)}, 0)`;
  }
  /** The columns that `key` needs from the table of events. */
  get keyColumns() {
    return this.#isById ? ["session"] : [];
  }
  /** Operand of FROM. Columns: `session_key`, `session_start` (epoch ms), `session_order` and those of the fields. */
  sql() {
    const pages = [...this.#pages];
    const known = [
      "session_key",
      "session_start",
      "session_order",
      ...[...this.#columns.values()].map(({ name }) => name)
    ];
    return pages.reduce((rows, [chosen, page2], i) => {
      const left = pages.slice(i + 1).flatMap(([other]) => [`${other}_json`, `${other}_is_page`]);
      const from = selectPage(rows, chosen, page2);
      const columns = [...page2.names].map(([name, column]) => `page_${name} AS ${column}`);
      const sql = `(SELECT ${[...known, ...columns, ...left].join(", ")} FROM ${from})`;
      known.push(...page2.names.values());
      return sql;
    }, this.#selectSessions());
  }
  /** Operand of FROM: the sessions with the properties of the events whose page fields are needed. */
  #selectSessions() {
    const pages = [...this.#pages.keys()].flatMap((chosen) => this.#takePage(chosen));
    const moments = this.#selectMoments();
    const columns = [...[...this.#columns.values()].map(({ name, sql }) => `${sql} AS ${name}`), ...pages];
    const order = this.#isById ? `toUInt128(reinterpretAsUInt64(reverse(substring(MD5(any(session_id)), 1, 8))))` : "toUInt128(0)";
    const all = [`${order} AS session_order`, ...columns];
    const placed = `(SELECT *, ${PLACE} AS place FROM ${moments})`;
    if (this.#isById && !this.#statement.context.repairsTexts) {
      const isWhole = `throwIf(max(at) - min(at) > ${DAY_MS3}, 'a session may have to be cut')`;
      return `(SELECT key AS session_key, min(at) + ${isWhole} AS session_start, ${all.join(", ")} FROM ${placed} GROUP BY key)`;
    }
    return `(SELECT moments.key AS session_key, min(at) AS session_start, ${all.join(", ")}
      FROM ${placed} AS moments ANY LEFT JOIN ${this.#selectCuts()} AS cuts ON cuts.key = moments.key
      GROUP BY moments.key, arrayCount(start -> start <= at, cuts.starts))`;
  }
  /** Columns with the properties of an event, empty without one, and whether it is a page view. */
  #takePage(chosen) {
    const [find, condition] = CHOSEN[chosen];
    const take = (column) => `${find}(${column}, place, ${condition})`;
    return [`${take(this.#moment("json", "json", `''`))} AS ${chosen}_json`, `${take("is_page")} AS ${chosen}_is_page`];
  }
  get #isById() {
    return this.scope.definition === "id";
  }
  #belongs(rows) {
    const { definition: definition2, timezone } = this.scope;
    const tests = [...this.#bounds("timestamp")];
    if (definition2 === "id") tests.push("session != 0");
    else {
      tests.push(`${rows.userHash()} != ${NOBODY_HASH}`);
      if (definition2.where) tests.push(buildCondition({ rows, timezone }, definition2.where));
    }
    return tests.join(" AND ");
  }
  #hash(rows) {
    return this.#isById ? "session" : rows.userHash();
  }
  #bounds(instant) {
    const { from, to } = this.scope;
    const upper = `${instant} < ${this.#statement.number(to + DAY_MS3)}`;
    return from === void 0 ? [upper] : [`${instant} >= ${this.#statement.number(from - DAY_MS3)}`, upper];
  }
  #page(chosen, name) {
    const page2 = this.#pages.get(chosen) ?? { fields: new PageColumns(this.#statement), names: /* @__PURE__ */ new Map() };
    this.#pages.set(chosen, page2);
    const column = `${chosen}_${page2.fields.column(name)}`;
    page2.names.set(name, column);
    return column;
  }
  #column(key, build) {
    const known = this.#columns.get(key);
    if (known) return known.name;
    const name = `session_${this.#columns.size}`;
    const column = { name, sql: "" };
    this.#columns.set(key, column);
    column.sql = build();
    return name;
  }
  #moment(name, ofEvent, ofCall) {
    if (!this.#moments.some((one) => one.name === name)) this.#moments.push({ name, ofEvent, ofCall });
    return name;
  }
  /** A column with the token of a field of events. */
  #take(path) {
    const field = this.#events.field(path);
    const token = toToken2(field, this.#statement);
    const known = this.#moments.find(({ ofEvent }) => ofEvent === token);
    return known?.name ?? this.#moment(`taken${this.#moments.length}`, token, `''`);
  }
  #compute(name) {
    const seconds = "(max(until) - min(at)) / 1000";
    switch (name) {
      case "id":
        return this.#isById ? "toJSONString(any(session_id))" : `any('')`;
      case "start":
        return formatNumber("min(at)");
      case "seconds":
        return formatNumber(seconds);
      case "events":
        return "toString(sum(is_event))";
      case "pages":
        return "toString(sum(is_page))";
      default:
        return `multiIf(sum(is_page) = 0, '', sum(is_page) = 1 AND sum(is_event) = 1, 'true', 'false')`;
    }
  }
  /** Operand of FROM: the moments of all sessions. */
  #selectMoments() {
    const rows = this.#events;
    const all = [
      { name: "key", ofEvent: this.#hash(rows), ofCall: hashName("session_id") },
      { name: "at", ofEvent: "timestamp", ofCall: "toFloat64(started_at)" },
      { name: "until", ofEvent: "timestamp", ofCall: "toFloat64(ifNull(ended_at, updated_at))" },
      { name: "id", ofEvent: "id", ofCall: "toUInt128(0)" },
      { name: "is_event", ofEvent: "toUInt8(1)", ofCall: "toUInt8(0)" },
      { name: "is_page", ofEvent: isPageView(this.#statement), ofCall: "toUInt8(0)" },
      ...this.#isById ? [{ name: "session_id", ofEvent: "session_id", ofCall: "session_id" }] : [],
      ...this.#moments
    ];
    const belongs = this.#belongs(rows);
    const columns = ["event", "distinct_id", "timestamp", "id"];
    if (this.#isById) columns.push("session_id", "session");
    if (this.#hasContext) columns.push(...CONTEXT_NAMES);
    if (this.#pages.size > 0) columns.push("json");
    const { from, to } = this.scope;
    const range2 = { ...from !== void 0 && { from: from - DAY_MS3 }, to: to + DAY_MS3, hasSession: this.#isById };
    const list3 = (side) => all.map((one) => `${one[side]} AS ${one.name}`).join(", ");
    const events = `SELECT ${list3("ofEvent")} FROM ${rows.sql(range2, [], columns)} AS rows WHERE ${belongs}`;
    if (!this.#isById) return `(${events})`;
    return `(${events} UNION ALL SELECT ${list3("ofCall")} FROM ${this.#selectCalls()})`;
  }
  /** Operand of FROM: the sessions of the calls that started in the window. */
  #selectCalls() {
    const { context: asked, project } = this.#statement;
    const columns = ["distinct_id", "state", "properties", "duration", "started_at", "updated_at", "ended_at"];
    const keys = `project_id = ${project}`;
    const newest = newestRows(asked.shards, "sessions", { keys, columns: [...columns, ...CONTEXT_NAMES] });
    const where = `WHERE ${[keys, ...this.#bounds("toFloat64(started_at)")].join(" AND ")}`;
    const taken = ["session_id", ...columns, ...CONTEXT_NAMES];
    const user = asked.hasAliases ? `if(a.user = '', e.distinct_id, a.user)` : "e.distinct_id";
    const aliases = asked.hasAliases ? `${this.#statement.global}ANY LEFT JOIN (${selectAliasEnds(this.#statement)}) AS a ON a.alias = e.distinct_id` : "";
    const rows = `(SELECT ${taken.join(", ")} FROM ${newest} ${where})`;
    const people = this.#hasUser ? `(SELECT ${taken.map((name) => `e.${name} AS ${name}`).join(", ")}, ${user} AS person FROM ${rows} AS e ${aliases})` : rows;
    if (this.#calls.isEmpty) return people;
    const raws = this.#calls.raws(this.#statement, "properties").join(", ");
    const tokens = this.#calls.tokens(this.#statement, "properties").join(", ");
    return `(SELECT *, ${tokens} FROM (SELECT *, ${raws} FROM ${people}))`;
  }
  /** Operand of FROM: by key, the instants at which another session begins. */
  #selectCuts() {
    const { definition: definition2 } = this.scope;
    const gap = definition2 === "id" ? DAY_MS3 : parseDuration(definition2.gap) ?? 0;
    const least = new _Sessions(this.#statement, this.scope);
    const far = this.#statement.number(gap);
    return `(SELECT key, starts FROM (
        SELECT key, arraySort(groupArray(at)) AS ats, arrayFilter((at, since) -> since > ${far}, ats, arrayDifference(ats)) AS starts
        FROM ${least.#selectMoments()} GROUP BY key
      ) WHERE notEmpty(starts))`;
  }
};
var PLACE = "bitOr(bitShiftLeft(toUInt256(reinterpretAsUInt64(at + 0)), 128), toUInt256(id))";
var HAS_CONTEXT = `toUInt8(bot = 1 OR ${CONTEXT_TEXTS.map((name) => `${name} != ''`).join(" OR ")})`;
function selectPage(sessions, chosen, { fields }) {
  const json = `if(${chosen}_json = '', '{}', ${chosen}_json) AS properties`;
  const rows = `(SELECT *, ${fields.raws.join(", ")} FROM (SELECT *, ${json} FROM ${sessions}))`;
  return fields.select(rows, `${chosen}_is_page`);
}
function toToken2(field, { context }) {
  return field.type === "json" ? field.sql : formatFieldJson(field, context);
}

// src/questions/matching-events.ts
function selectMatchingEvents(statement, matching) {
  const numbered = matching.definitions.map((definition2, bit) => ({ definition: definition2, bit }));
  const ofSessions = numbered.filter(({ definition: { event } }) => event === SESSION);
  const ofEvents = numbered.filter(({ definition: { event } }) => event !== SESSION);
  if (ofSessions.length === 0) return selectFromEvents(statement, matching, ofEvents);
  if (ofEvents.length === 0) return selectFromSessions(statement, matching, ofSessions);
  return `(SELECT * FROM ${selectFromEvents(statement, matching, ofEvents)}
    UNION ALL SELECT * FROM ${selectFromSessions(statement, matching, ofSessions)})`;
}
function selectFromEvents(statement, matching, numbered) {
  const { where, timezone, columns = [] } = matching;
  const rows = new EventRows(statement, createSessions(statement, matching));
  const context = { rows, timezone };
  const narrow = buildNarrowConditions(context, matching, numbered);
  const { selected, conditions } = selectColumns(context, matching, numbered);
  if (where !== null && !isNarrow(where)) conditions.push(buildCondition(context, where));
  const more = columns.filter((name) => name !== "event");
  const base = ["event", "distinct_id", "timestamp", ...more];
  return select(selected, rows.sql(matching, narrow, base), conditions);
}
function selectFromSessions(statement, matching, numbered) {
  const { where, timezone } = matching;
  const rows = new SessionRows(statement, createSessions(statement, matching));
  const context = { rows, timezone };
  const { selected, conditions } = selectColumns(context, matching, numbered);
  const all = [...buildRange(statement, matching), ...conditions];
  if (where !== null) all.push(buildCondition(context, where));
  return select(selected, rows.sql(), all);
}
function select(columns, rows, conditions) {
  return `(SELECT ${columns.join(", ")} FROM ${rows} AS rows
    ${conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : ""})`;
}
function createSessions(statement, { sessions, timezone }) {
  return new Sessions2(statement, { ...sessions, timezone });
}
function selectColumns(context, matching, numbered) {
  const { breakdown: breakdown2, split: split2 = [], values = [], user, columns = [] } = matching;
  const { rows } = context;
  const { namesUsers } = rows.statement;
  const mask = buildMask(context, numbered);
  const conditions = mask.condition === null ? [] : [mask.condition];
  const selected = ["timestamp", `${mask.sql} AS mask`];
  if (user === "known") {
    conditions.push(namesUsers ? `${rows.user()} != '${NOBODY}'` : `${rows.userHash()} != ${NOBODY_HASH}`);
    selected.push(`${namesUsers ? rows.user() : rows.userHash()} AS user`);
  }
  if (user === "all") selected.push(`if(${rows.userHash()} = ${NOBODY_HASH}, 0, ${rows.userHash()}) AS user`);
  if (breakdown2) selected.push(`${buildList(rows, breakdown2)} AS breakdown`);
  selected.push(...split2.map((name, i) => `${rows.field(name).sql} AS b${i}`));
  selected.push(...values.map((name, i) => `${buildNumber(rows, name)} AS v${i}`));
  if (columns.includes("id")) selected.push("id");
  if (columns.includes("event")) selected.push("event");
  if (columns.includes("day")) selected.push(isOfSessions(numbered) ? `${toDay("timestamp")} AS day` : "day");
  return { selected, conditions };
}
function buildRange(statement, { from, to }) {
  const lower = from === void 0 ? [] : [`timestamp >= ${statement.number(from)}`];
  return [...lower, `timestamp < ${statement.number(to)}`];
}
function buildNarrowConditions(context, matching, numbered) {
  const { statement } = context.rows;
  const { where } = matching;
  const conditions = [];
  if (numbered.every(({ definition: { event } }) => event !== "*")) {
    const names = new Set(numbered.flatMap(({ definition: { event } }) => event));
    conditions.push(`event IN ${statement.texts([...names])}`);
  }
  if (where !== null && isNarrow(where)) conditions.push(buildCondition(context, where));
  return conditions;
}
function isOfSessions(numbered) {
  return numbered.some(({ definition: { event } }) => event === SESSION);
}
function buildMask(context, numbered) {
  const [first] = numbered;
  if (first && numbered.length === 1) {
    const { where } = first.definition;
    return { sql: `toUInt64(${1n << BigInt(first.bit)})`, condition: where && buildCondition(context, where) };
  }
  const plain = numbered.filter(({ definition: { where } }) => where === null);
  const filtered = numbered.filter(({ definition: { where } }) => where !== null);
  const bits = filtered.map(({ definition: { event, where }, bit }) => {
    const tests = isAny(event) ? [] : [`event IN ${context.rows.statement.texts([event].flat())}`];
    if (where) tests.push(buildCondition(context, where));
    return `bitShiftLeft(toUInt64(${tests.join(" AND ")}), ${bit})`;
  });
  if (plain.length > 0) bits.push(buildMaskOfNames(context.rows.statement, plain));
  return { sql: bits.reduce((all, bit) => `bitOr(${all}, ${bit})`), condition: filtered.length > 0 ? "mask != 0" : null };
}
function buildMaskOfNames(statement, numbered) {
  let ofAny = 0n;
  const byName = /* @__PURE__ */ new Map();
  for (const { definition: definition2, bit } of numbered) {
    const mask = 1n << BigInt(bit);
    if (isAny(definition2.event)) ofAny |= mask;
    else for (const name of [definition2.event].flat()) byName.set(name, (byName.get(name) ?? 0n) | mask);
  }
  if (byName.size === 0) return `toUInt64(${ofAny})`;
  const masks = [...byName.values()].map((mask) => mask | ofAny);
  return `toUInt64(transform(event, ${statement.texts([...byName.keys()])}, CAST([${masks}], 'Array(UInt64)'), toUInt64(${ofAny})))`;
}
function isAny(event) {
  return event === "*" || event === SESSION;
}
function formatValues(fields, context) {
  return joinValues(fields.map((name, i) => formatFieldJson({ type: getFieldType(name), sql: `b${i}` }, context)));
}
function buildList(rows, fields) {
  if (fields.length === 0) return `'[]'`;
  return joinValues(fields.map((name) => formatFieldJson(rows.field(name), rows.statement.context)));
}
function joinValues(parts) {
  return `concat('[', ${parts.join(`, ',', `)}, ']')`;
}
function buildNumber(rows, name) {
  const { type, sql } = rows.field(name);
  if (type === "number") return `toNullable(${sql})`;
  return type === "text" ? "CAST(NULL AS Nullable(Float64))" : parseNumber(sql);
}

// src/questions/statement.ts
var Statement = class {
  context;
  project;
  namesUsers;
  #fields = new QueryParameters();
  /** placeholders by type and value: a question repeats values, and ClickHouse accepts only 1000 parameters */
  #known = /* @__PURE__ */ new Map();
  /** @param options `namesUsers`: whether rows have the names of users, and not hashes; default: hashes */
  constructor(context, { namesUsers = false } = {}) {
    this.context = context;
    this.namesUsers = namesUsers;
    this.project = this.#fields.text(context.projectId);
  }
  get parameters() {
    return this.#fields.parameters;
  }
  /** A text from the caller; one with an unpaired surrogate becomes the bytes that `decodeText` returns. */
  text(value) {
    const isWhole = value.isWellFormed();
    const text3 = isWhole ? value : encodeText(value).toString("hex");
    const placeholder = this.#once("text", text3, () => this.#fields.text(text3));
    return isWhole ? placeholder : `unhex(${placeholder})`;
  }
  /** An array of texts from the caller, which may have unpaired surrogates; see `text`. */
  anyTexts(values) {
    if (values.every((value) => value.isWellFormed())) return this.texts(values);
    return `arrayMap(digits -> unhex(digits), ${this.texts(values.map((value) => encodeText(value).toString("hex")))})`;
  }
  texts(values) {
    return this.#once("texts", values, () => this.#fields.array([...values]));
  }
  number(value) {
    return this.#once("number", String(value), () => this.#fields.number(value));
  }
  /** A non-negative integer, for example for LIMIT. */
  count(value) {
    return this.#once("count", value, () => this.#fields.count(value));
  }
  /** A whole number of either sign. */
  integer(value) {
    return `toInt32(${this.number(value)})`;
  }
  numbers(values) {
    return this.#once("numbers", values.map(String), () => this.#fields.numbers(values));
  }
  /** Whole numbers of which each shard gets its own. @param type that of ClickHouse */
  ofShard(values, type) {
    const numbers = values.map((value) => `to${type}(${this.text(String(value))})`);
    return numbers.length === 1 ? numbers[0] ?? "0" : `arrayElement([${numbers.join(", ")}], shardNum())`;
  }
  #once(type, value, add2) {
    const key = JSON.stringify([type, value]);
    const placeholder = this.#known.get(key) ?? add2();
    this.#known.set(key, placeholder);
    return placeholder;
  }
  /** The prefix GLOBAL for JOIN, and for IN with a subquery, over several shards; empty with one. */
  get global() {
    return this.context.shards.areSeveral ? "GLOBAL " : "";
  }
};
var DAY_MS4 = 864e5;
var MAX_LISTED_DAYS = 4e4;
function areDays({ starts }) {
  return starts.every((start) => start >= 0 && start % DAY_MS4 === 0);
}
function findBucketOfDay(statement, day, { starts, numbers, buckets }) {
  const days = starts.map((start) => start / DAY_MS4);
  const [first = 0, second] = days;
  if (second === void 0) return "toUInt32(0)";
  const end = Math.ceil((buckets.at(-1)?.to ?? 0) / DAY_MS4);
  if (end - first > MAX_LISTED_DAYS) {
    return findBucketNumber(statement, `toInt32(${day}) * ${DAY_MS4}.`, { starts, numbers, buckets });
  }
  const listed2 = days.flatMap((from, i) => Array((days[i + 1] ?? end) - from).fill(numbers[i] ?? 0));
  return `CAST(${statement.numbers(listed2)}, 'Array(UInt32)')[toInt32(${day}) - ${statement.integer(first - 1)}]`;
}
function findBucketNumber(statement, instant, { starts, numbers }) {
  const [first = 0, second] = starts;
  if (second === void 0) return "toUInt32(0)";
  const width = second - first;
  const isRegular = starts.every((start, i) => start === first + i * width && numbers[i] === i);
  if (isRegular) {
    const number2 = `floor((${instant} - ${statement.number(first)}) / ${statement.number(width)})`;
    return `toUInt32(least(${number2}, ${statement.number(starts.length - 1)}))`;
  }
  const piece = `roundDown(${instant}, ${statement.numbers(starts)})`;
  return `transform(${piece}, ${statement.numbers(starts)}, ${statement.numbers(numbers)}, 0)::UInt32`;
}

// src/questions/funnel.ts
var REST = "$other";
var NO_USERS = { line: "[]", users: [], medians: [], means: [] };
var funnel = {
  query(question, asked) {
    const statement = new Statement(asked);
    return { sql: selectLines(statement, question), parameters: statement.parameters };
  },
  answer(question, rows, { now }) {
    const isComplete = parseRange(question).to + parseWindow(question) <= now;
    const isSplit = question.breakdown.length > 0;
    const lines = rows.length > 0 || isSplit ? rows : [NO_USERS];
    return { results: lines.map((row) => toLine(question, row, isComplete)) };
  },
  users(question, { step, breakdown: breakdown2, dropped }, statement) {
    const reached = dropped ? `= ${statement.number(step - 1)}` : `>= ${statement.number(step)}`;
    const isInLine = matchLine(statement, question, breakdown2);
    return `SELECT user FROM ${selectFunnelUsers(statement, question)} WHERE length(since) ${reached} AND ${isInLine}`;
  }
};
function matchLine(statement, question, values) {
  if (question.breakdown.length === 0) return "true";
  if (values.length !== 1 || values[0] !== REST) return `breakdown = ${statement.text(formatBreakdown(values))}`;
  const first = `SELECT breakdown FROM ${selectFunnelUsers(statement, question)}
    GROUP BY breakdown ORDER BY count() DESC, breakdown LIMIT ${statement.count(question.limit)}`;
  return `breakdown ${statement.global}NOT IN (${first})`;
}
function selectFunnelUsers(statement, question) {
  const { steps, exclude, where, timezone, breakdown: breakdown2, order } = question;
  const { from, to } = parseRange(question);
  const definitions = new Map([...steps, ...exclude].map((definition2) => [toDefinitionKey(definition2), definition2]));
  const bits = new Map([...definitions.keys()].map((key, bit) => [key, bit]));
  const findBit = (definition2) => bits.get(toDefinitionKey(definition2)) ?? 0;
  const course = {
    events: selectMatchingEvents(statement, {
      definitions: [...definitions.values()].map(({ event, where: where2 }) => ({ event, where: where2 })),
      where,
      timezone,
      from,
      to: to + parseWindow(question),
      sessions: parseSessions(question),
      user: "known",
      columns: ["id"],
      ...breakdown2.length > 0 && { breakdown: breakdown2 }
    }),
    steps: steps.map(findBit),
    excluded: steps.map((_, k) => exclude.filter(({ after }) => after === k + 1).map(findBit)),
    rivals: steps.map(
      (step, k) => [...steps.keys()].slice(0, k).filter((earlier) => mayMatchBoth(step, steps[earlier]))
    ),
    order,
    window: statement.number(parseWindow(question)),
    to: statement.number(to),
    hasBreakdown: breakdown2.length > 0
  };
  return selectFurthestEntries(course);
}
function selectLines(statement, question) {
  return `
    SELECT if(place > ${statement.number(question.limit)}, NULL, breakdown) AS line, countForEachMerge(counts) AS users,
      quantileExactInclusiveForEachMerge(0.5)(quantiles) AS medians, avgForEachMerge(averages) AS means
    FROM (
      SELECT *, row_number() OVER (ORDER BY entered DESC, breakdown) AS place
      FROM (
        SELECT breakdown, count() AS entered, countForEachState(since) AS counts,
          quantileExactInclusiveForEachState(0.5)(since) AS quantiles, avgForEachState(since) AS averages
        FROM ${selectFunnelUsers(statement, question)}
        GROUP BY breakdown
      )
    )
    GROUP BY line
    ORDER BY min(place)`;
}
function toLine(question, row, complete) {
  const users3 = question.steps.map((_, k) => Number(row.users[k] ?? 0));
  const steps = users3.map((count, k) => {
    const isReached = k > 0 && count > 0;
    return {
      users: count,
      of_first: k === 0 ? 1 : computeShare(count, users3[0]),
      of_previous: k === 0 ? 1 : computeShare(count, users3[k - 1]),
      median_ms: isReached ? row.medians[k] ?? null : null,
      mean_ms: isReached ? row.means[k] ?? null : null
    };
  });
  return { breakdown: row.line === null ? [REST] : JSON.parse(row.line), steps, complete };
}
function computeShare(count, of = 0) {
  return of === 0 ? 0 : count / of;
}
function parseWindow({ window }) {
  return parseDuration(window) ?? 0;
}
function toDefinitionKey({ event, where }) {
  return JSON.stringify([event, where]);
}
function mayMatchBoth(one, other) {
  if (!other || one.event === "*" || other.event === "*") return true;
  const names = new Set([one.event].flat());
  return [other.event].flat().some((name) => names.has(name));
}

// src/questions/paths-links.ts
var CODE_BITS = 29;
var MASK = 2 ** CODE_BITS - 1;
var CODE = `bitAnd(bitShiftRight(link, ${CODE_BITS}), ${MASK})`;
var PARTS2 = `bitShiftRight(link, ${2 * CODE_BITS}) AS step, ${CODE} AS code, bitAnd(link, ${MASK}) AS next`;
var OTHER = "$other";
function selectUserLinks({ events, steps, window, from, to, isBack }) {
  const all = Array.from({ length: steps + 1 }, (_, k) => k);
  const [shift, never, elapsed] = isBack ? ["arrayShiftRight", "-inf", "first - time"] : ["arrayShiftLeft", "inf", "time - first"];
  const isFirst = `bitAnd(number, 1) != 0 AND time >= ${from} AND time < ${to}`;
  const selectFirst = (array) => `arrayFilter((value, number, time) -> ${isFirst}, ${array}, numbers, times)`;
  const codes = all.map((k) => {
    const arrays = [selectFirst(`${shift}(numbers, ${k}, 0)`), selectFirst(`${shift}(times, ${k}, ${never})`), "firsts"];
    return `arrayMap((number, time, first) -> if(${elapsed} <= ${window}, bitShiftRight(number, 1), 0), ${arrays}) AS codes${k}`;
  });
  const links = all.map((k) => {
    const next = k < steps ? `codes${k + 1}` : "arrayResize([0], length(firsts), 0)";
    const step = BigInt(k) << BigInt(2 * CODE_BITS);
    return `arrayMap((code, next) -> bitOr(bitOr(bitShiftLeft(code, ${CODE_BITS}), next), ${step}), codes${k}, ${next})`;
  });
  return `(
    SELECT user, arrayFilter(link -> ${CODE} != 0, arrayDistinct(arrayConcat(${links}))) AS links
    FROM (
      SELECT *, ${selectFirst("times")} AS firsts, ${codes}
      FROM (
        SELECT user, ${extractTimes("events")} AS times, ${extractNumbers("events")} AS numbers
        FROM (
          SELECT user, arraySort(groupArray(${packEvent("bitOr(bitShiftLeft(toUInt64(code), 1), bitAnd(mask, 1))")})) AS events
          FROM ${events}
          GROUP BY user HAVING max(bitAnd(mask, 1) AND timestamp >= ${from} AND timestamp < ${to})
        )
      )
    ))`;
}
function selectEachLink(query2) {
  return `(SELECT user, ${PARTS2} FROM ${selectUserLinks(query2)} ARRAY JOIN links AS link)`;
}
function selectCountedLinks(query2) {
  const links = `
    SELECT ${PARTS2}, takers
    FROM (
      SELECT link, groupBitmapState(user_number) AS takers
      FROM (SELECT toUInt32(rowNumberInAllBlocks()) AS user_number, links FROM ${selectUserLinks(query2)})
      ARRAY JOIN links AS link
      GROUP BY link
    )`;
  const placed = `
    SELECT *, dense_rank() OVER (PARTITION BY step ORDER BY users DESC, code) AS place,
      dense_rank() OVER (PARTITION BY step ORDER BY next = 0, users_of_next DESC, next) AS place_of_next
    FROM (
      SELECT *, groupBitmapMerge(takers) OVER (PARTITION BY step, code) AS users,
        groupBitmapMerge(takers) OVER (PARTITION BY step, next) AS users_of_next
      FROM (${links})
    )`;
  const chooseName = (code, place) => `if(${place} > ${query2.limit}, '${OTHER}', ${query2.names}[${code}])`;
  const [from, to] = query2.isBack ? ["next_event", "event"] : ["event", "next_event"];
  return `
    SELECT step, event, next_event, groupBitmapMerge(takers) AS users
    FROM (
      SELECT step, takers, ${chooseName("code", "place")} AS event,
        arrayJoin(if(next = 0, [NULL], [NULL, ${chooseName("next", "place_of_next")}])) AS next_event
      FROM (${placed})
    )
    GROUP BY step, event, next_event
    ORDER BY step, event = '${OTHER}' OR ifNull(next_event = '${OTHER}', false), users DESC, ${from}, ${to}`;
}
function selectTakers(query2, statement, step, event, next) {
  const isCalled = (code, name, step2) => {
    const isSame = `${query2.names}[${code}] = ${statement.text(name)}`;
    if (name !== OTHER) return isSame;
    const first = `SELECT code FROM (SELECT DISTINCT user, code FROM ${selectEachLink(query2)} WHERE step = ${statement.number(step2)})
      GROUP BY code ORDER BY count() DESC, code LIMIT ${query2.limit}`;
    return `(${isSame} OR ${code} NOT IN (${first}))`;
  };
  const isNext = next === void 0 ? "true" : `next != 0 AND ${isCalled("next", next, step + 1)}`;
  return `
    SELECT user FROM ${selectEachLink(query2)}
    WHERE step = ${statement.number(step)} AND ${isCalled("code", event, step)} AND ${isNext}`;
}

// src/questions/paths.ts
var paths = {
  query(question, asked) {
    const statement = new Statement(asked);
    const sql = `WITH ${selectNames(statement, question)} AS names ${selectCountedLinks(buildPathQuery(statement, question))}`;
    return { sql, parameters: statement.parameters };
  },
  answer({ end }, rows) {
    const results = { nodes: [], links: [] };
    for (const row of rows) {
      const { event, next_event: next } = row;
      const [step, users3] = [Number(row.step), Number(row.users)];
      if (next === null) results.nodes.push({ step, event, users: users3 });
      else if (end) results.links.push({ step, from: next, to: event, users: users3 });
      else results.links.push({ step, from: event, to: next, users: users3 });
    }
    return { results };
  },
  users(question, cell, statement) {
    const { step, from, to } = cell;
    const [event = "", next] = cell.event === void 0 ? question.end ? [to, from] : [from, to] : [cell.event];
    const takers = selectTakers(buildPathQuery(statement, question), statement, step, event, next);
    return `WITH ${selectNames(statement, question)} AS names ${takers}`;
  }
};
function widenRange(question) {
  const { from, to } = parseRange(question);
  const window = parseDuration(question.window) ?? 0;
  return question.end ? { from: from - window, to } : { from, to: to + window };
}
var ANY = { event: "*", where: null };
function selectNames(statement, question) {
  const { timezone, start, end } = question;
  const isOfSessions2 = (start ?? end)?.event === SESSION;
  const events = selectMatchingEvents(statement, {
    definitions: isOfSessions2 ? [ANY, { event: SESSION, where: null }] : [ANY],
    where: null,
    timezone,
    ...widenRange(question),
    sessions: parseSessions(question),
    user: "none",
    columns: ["event"]
  });
  return `(SELECT arraySort(groupUniqArray(event)) FROM ${events})`;
}
function buildPathQuery(statement, question) {
  const { start, end, steps, window, where, timezone } = question;
  const { from, to } = parseRange(question);
  const first = start ?? end ?? ANY;
  const known = { where, timezone, sessions: parseSessions(question), user: "known" };
  const beginners = selectMatchingEvents(statement, { ...known, definitions: [first], from, to });
  const events = selectMatchingEvents(statement, {
    ...known,
    definitions: [first, ANY],
    ...widenRange(question),
    columns: ["id", "event"]
  });
  return {
    // Skip events with unknown names, which were stored after the names were read.
    events: `(SELECT *, transform(event, names, arrayEnumerate(names), 0) AS code FROM ${events}
      WHERE user ${statement.global}IN (SELECT user FROM ${beginners}) AND code != 0)`,
    names: "names",
    steps,
    window: statement.number(parseDuration(window) ?? 0),
    from: statement.number(from),
    to: statement.number(to),
    isBack: end !== null,
    limit: statement.count(question.limit)
  };
}

// src/questions/retention.ts
var DAY_MS5 = 864e5;
var PERIOD_MS = { day: DAY_MS5, week: 7 * DAY_MS5, month: 30 * DAY_MS5 };
var MEMBER = -1;
var retention = {
  query(question, asked) {
    const statement = new Statement(asked);
    const sql = `SELECT cohort, arrayJoin(arrayPushFront(returned, ${MEMBER})) AS interval, count() AS users
      FROM (${selectMembers(statement, question)}) GROUP BY cohort, interval`;
    return { sql, parameters: statement.parameters };
  },
  answer(question, rows, { now }) {
    const counts = new Map(
      rows.map(({ cohort, interval, users: users3 }) => [`${cohort} ${interval}`, Number(users3)])
    );
    const range2 = parseRange(question);
    const ends = findCellEnds(question, range2);
    const last = Math.min(range2.to, now);
    const results = buildUnits(question, range2).buckets.map(({ date }, cohort) => {
      const cells = Array.from({ length: question.intervals }, (_, interval) => ({
        interval,
        users: counts.get(`${cohort} ${interval}`) ?? 0,
        complete: ends(cohort, interval) <= last
      }));
      return { cohort: date, size: counts.get(`${cohort} ${MEMBER}`) ?? 0, cells };
    });
    return { results, averages: computeAverages(question, results) };
  },
  users(question, { cohort, interval = MEMBER }, statement) {
    const number2 = buildUnits(question, parseRange(question)).buckets.findIndex(({ date }) => date === cohort);
    return `SELECT user FROM (${selectMembers(statement, question)})
      WHERE cohort = ${statement.number(number2)} AND has(arrayPushFront(returned, ${MEMBER}), ${statement.number(interval)})`;
  }
};
function selectMembers(statement, question) {
  const { mode, count, cohort, intervals } = question;
  const isCalendar = mode === "calendar";
  const perUnit = `SELECT user, unit, countIf(is_start) > 0 AS has_start, minIf(at, is_start) AS start,
        countIf(is_return) > 0 AS has_return, ${isCalendar ? "maxIf(at, is_return)" : "groupArrayIf(at, is_return)"} AS unit_returns
      FROM (${selectEvents(statement, question)}) GROUP BY user, unit`;
  const starts = "groupArrayIf((unit, start), has_start)";
  const cohorts = cohort === "first" ? `arraySlice(arraySort(s -> s.2, ${starts}), 1, 1)` : starts;
  const returns = isCalendar ? "groupArrayIf((unit, unit_returns), has_return)" : "groupArrayArray(unit_returns)";
  const perUser = `SELECT user, arrayFilter(s -> s.1 >= 0, ${cohorts}) AS cohorts, ${returns} AS returns
      FROM (${perUnit}) GROUP BY user`;
  const period = statement.number(PERIOD_MS[question.unit]);
  const interval = isCalendar ? "if(r.2 > started.2, r.1 - started.1, -1)" : `if(r > started.2, toInt64(floor((r.1 - started.2.1) / ${period})), -1)`;
  const later = `arrayMap(r -> ${interval}, returns)`;
  const most = `toInt64(${statement.number(intervals)})`;
  const returned = count === "on" ? `arrayDistinct(arrayFilter(i -> i >= 0 AND i < ${most}, ${later}))` : `range(toUInt64(least(arrayMax(arrayPushBack(${later}, -1)) + 1, ${most})))`;
  return `SELECT user, started.1 AS cohort, arrayMap(i -> toInt32(i), ${returned}) AS returned
      FROM (${perUser}) ARRAY JOIN cohorts AS started`;
}
function selectEvents(statement, question) {
  const { start, return: back, where, timezone, cohort } = question;
  const range2 = parseRange(question);
  const from = statement.number(range2.from);
  const events = selectMatchingEvents(statement, {
    definitions: [start, back],
    where,
    timezone,
    ...cohort === "recurring" && { from: range2.from },
    to: range2.to,
    // Who was first ever is a question about all sessions.
    sessions: cohort === "recurring" ? parseSessions(question) : { definition: question.sessions, to: range2.to },
    user: "known",
    columns: ["id"]
  });
  const unit = findBucketNumber(statement, "timestamp", buildUnits(question, range2));
  return `SELECT user, (timestamp, id) AS at, if(timestamp < ${from}, -1, toInt64(${unit})) AS unit,
        bitTest(mask, 0) AS is_start, bitTest(mask, 1) AND timestamp >= ${from} AS is_return
      FROM ${events} WHERE is_start OR is_return`;
}
function buildUnits({ unit, timezone, week_start }, range2) {
  return splitIntoBuckets(range2, unit, timezone, week_start);
}
function findCellEnds(question, range2) {
  const { buckets } = buildUnits(question, range2);
  if (question.mode === "calendar") {
    return (cohort, interval) => buckets[cohort + interval]?.to ?? Number.POSITIVE_INFINITY;
  }
  return (cohort, interval) => {
    const lastStart = Math.min(buckets[cohort]?.to ?? range2.to, range2.to);
    return lastStart + (interval + 1) * PERIOD_MS[question.unit];
  };
}
function computeAverages({ intervals }, cohorts) {
  return Array.from({ length: intervals }, (_, interval) => {
    let size = 0;
    let users3 = 0;
    for (const cohort of cohorts) {
      const cell = cohort.cells[interval];
      if (!cell?.complete) continue;
      size += cohort.size;
      users3 += cell.users;
    }
    return { interval, share: size === 0 ? null : users3 / size };
  });
}

// src/questions/series.ts
var ZERO = ["events", "users", "events_per_user", "sum"];
var OF_USERS = ["users", "events_per_user"];
var REST2 = "$other";
var series = { query, answer, users };
var MAX_GROUPS = 5e5;
function query(question, asked) {
  const statement = new Statement(asked);
  const isRanked = question.breakdown.length > 0 && !asked.hasManyValues;
  const select2 = isRanked ? selectRanked : selectCounts;
  const sql = splitSeries(question).map((part) => select2(statement, question, part)).join(" UNION ALL ");
  const limit = isRanked && { max_rows_to_group_by: String(MAX_GROUPS) };
  return { sql, parameters: statement.parameters, settings: { output_format_json_quote_denormals: 1, ...limit } };
}
function splitSeries({ series: series2, breakdown: breakdown2 }) {
  const all = series2.map((definition2, number2) => ({ definition: definition2, number: number2 }));
  const split2 = (isOfSessions2) => all.filter(({ definition: { event } }) => event === SESSION === isOfSessions2);
  const parts = breakdown2.length > 0 ? all.map((one) => [one]) : [split2(true), split2(false)];
  return parts.filter((part) => part.length > 0);
}
function selectCounts(statement, question, part) {
  const buckets = buildBuckets(question);
  const measures = buildMeasures(statement, question, part);
  const label = buildLabel(statement, question, part);
  const { bucket, columns } = buildBucket(statement, buckets);
  const states = measures.flatMap(({ states: states2 }) => states2);
  const values = measures.map(({ number: number2, merged }) => `(toUInt8(${number2}), ${merged})`);
  return `SELECT line.1 AS series, label, bucket, line.2 AS value FROM (
      SELECT label, bucket, [${values.join(", ")}] AS lines FROM (
        SELECT label, bucket, ${states.join(", ")} FROM (
          SELECT *, ${label.sql} AS label, toUInt32(${bucket}) AS bucket
          FROM ${selectEvents2(statement, question, part, { columns })} AS events
          ${label.where}
        ) GROUP BY label, bucket
      ) GROUP BY GROUPING SETS ((label, bucket), (label))
    ) ARRAY JOIN lines AS line`;
}
function selectRanked(statement, question, [one]) {
  const { breakdown: breakdown2, other } = question;
  const measure = buildMeasure(statement, question, one);
  const { number: number2, states, names, merged, total: total2 } = measure;
  const { bucket, columns } = buildBucket(statement, buildBuckets(question));
  const split2 = breakdown2.map((_, i) => `b${i}`).join(", ");
  const rows = selectEvents2(statement, question, [one], { columns, split: true });
  const counts = `SELECT ${split2}, toUInt32(${bucket}) AS bucket, ${states.join(", ")} FROM ${rows} AS events GROUP BY ${split2}, bucket`;
  const cell = (number3, cells2) => `(${[number3, ...cells2].join(", ")})`;
  const values = `SELECT ${formatValues(breakdown2, statement.context)} AS breakdown,
      groupArray(${cell("bucket", names.map((name) => `counts.${name}`))}) AS cells, ${total2.join(", ")}
      FROM (${counts}) AS counts GROUP BY breakdown`;
  const cells = `arrayPushFront(cells, ${cell("toUInt32(0)", names)}) AS cells`;
  const limit = statement.count(question.limit);
  const lines = other ? `SELECT if(row_number() OVER (${orderByValue(measure)}) <= ${limit}, breakdown, '') AS label, ${cells} FROM (${values})` : `SELECT breakdown AS label, ${cells} FROM (${values}) ${orderByValue(measure)} LIMIT ${limit}`;
  const taken = names.map((name, i) => `cell.${i + 2} AS ${name}`).join(", ");
  return `SELECT toUInt8(${number2}) AS series, label, bucket, ${merged} AS value FROM (
      SELECT label, cell.1 AS bucket, ${taken} FROM (${lines}) ARRAY JOIN cells AS cell
    ) GROUP BY label, bucket`;
}
function buildBucket(statement, buckets) {
  if (buckets === null) return { bucket: "1", columns: [] };
  if (areDays(buckets)) return { bucket: `${findBucketOfDay(statement, "day", buckets)} + 1`, columns: ["day"] };
  return { bucket: `${findBucketNumber(statement, "timestamp", buckets)} + 1`, columns: [] };
}
function selectEvents2(statement, question, part, { columns, split: split2 = false } = {}) {
  const definitions = part.map(({ definition: definition2 }) => definition2);
  const { breakdown: breakdown2 } = question;
  return selectMatchingEvents(statement, {
    definitions,
    where: question.where,
    timezone: question.timezone,
    ...breakdown2.length > 0 && (split2 ? { split: breakdown2 } : { breakdown: breakdown2 }),
    ...columns && { columns },
    values: listValueFields(definitions),
    ...parseRange(question),
    sessions: parseSessions(question),
    user: definitions.some(({ metric }) => OF_USERS.includes(metric)) ? "all" : "none"
  });
}
function listValueFields(definitions) {
  const byKey = definitions.flatMap(
    ({ property }) => property === void 0 ? [] : [[JSON.stringify(property), property]]
  );
  return [...new Map(byKey).values()];
}
function buildLabel(statement, question, part) {
  const { breakdown: breakdown2, other } = question;
  if (breakdown2.length === 0) return { sql: `'[]'`, where: "" };
  const isTop = `breakdown ${statement.global}IN (${selectTopValues(statement, question, part[0])})`;
  return other ? { sql: `if(${isTop}, breakdown, '')`, where: "" } : { sql: "breakdown", where: `WHERE ${isTop}` };
}
function selectTopValues(statement, question, one) {
  const measure = buildMeasure(statement, question, one);
  const byValue = groupByValue(statement, question, one, measure);
  return `SELECT breakdown FROM ${byValue} ${orderByValue(measure)} LIMIT ${statement.count(question.limit)}`;
}
function groupByValue(statement, question, one, { states }) {
  return `(SELECT breakdown, ${states.join(", ")} FROM ${selectEvents2(statement, question, [one])} AS events GROUP BY breakdown)`;
}
function orderByValue({ finished }) {
  return `ORDER BY ${finished} DESC NULLS LAST, breakdown`;
}
function users(question, { series: series2, breakdown: breakdown2, at }, statement) {
  const definition2 = question.series[series2];
  if (!definition2) throw new RangeError(`there is no series ${series2}`);
  const { where, timezone } = question;
  const isSplit = question.breakdown.length > 0;
  const split2 = isSplit && { breakdown: question.breakdown };
  const range2 = { ...parseRange(question), sessions: parseSessions(question), user: "known" };
  const events = selectMatchingEvents(statement, { definitions: [definition2], where, timezone, ...split2, ...range2 });
  const conditions = at === void 0 ? [] : [matchBucket(statement, question, at)];
  if (isSplit && question.other && breakdown2.length === 1 && breakdown2[0] === REST2) {
    conditions.push(
      `breakdown ${statement.global}NOT IN (${selectTopValues(statement, question, { definition: definition2, number: series2 })})`
    );
  } else if (isSplit) {
    conditions.push(`breakdown = ${statement.text(formatBreakdown(breakdown2))}`);
  }
  return `SELECT user FROM ${events} AS events ${conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : ""}`;
}
function matchBucket(statement, question, at) {
  const buckets = buildBuckets(question);
  if (!buckets) return "1";
  const first = parseInstant(at, question.timezone);
  const number2 = buckets.buckets.findIndex(({ from }) => from === first);
  return number2 < 0 ? "0" : `${findBucketNumber(statement, "timestamp", buckets)} = ${statement.number(number2)}`;
}
function createMeasure(number2, states, compute) {
  const split2 = states.map(({ name, aggregate, value, when: when2 }) => {
    const [, fn = aggregate, parameters = ""] = /^(\w+)(\(.*\))$/.exec(aggregate) ?? [];
    return { name, fn, parameters, operands: `${value}${value && ", "}${when2}` };
  });
  const finish = (values) => `CAST(${compute(...values)} AS Nullable(Float64))`;
  return {
    number: number2,
    states: split2.map(({ name, fn, parameters, operands }) => `${fn}IfState${parameters}(${operands}) AS ${name}`),
    names: split2.map(({ name }) => name),
    total: split2.map(({ name, fn, parameters }) => `${fn}IfMergeState${parameters}(counts.${name}) AS ${name}`),
    merged: finish(split2.map(({ name, fn, parameters }) => `${fn}IfMerge${parameters}(${name})`)),
    finished: finish(split2.map(({ name }) => `finalizeAggregation(${name})`))
  };
}
function buildMeasures(statement, question, part) {
  const fields = listValueFields(part.map(({ definition: definition2 }) => definition2)).map((field) => JSON.stringify(field));
  return part.map(({ definition: definition2, number: number2 }, bit) => {
    const position = fields.indexOf(JSON.stringify(definition2.property));
    return computeMeasure(statement, question, definition2, { number: number2, bit, position });
  });
}
function buildMeasure(statement, question, { definition: definition2, number: number2 }) {
  return computeMeasure(statement, question, definition2, { number: number2, bit: 0, position: 0 });
}
function computeMeasure(statement, { approximate }, { metric, p = 95 }, { number: number2, bit, position }) {
  const matches = `bitTest(mask, ${bit})`;
  const name = `m${number2}`;
  const count = approximate ? "uniqCombined64" : "uniqExact";
  const quantile = approximate ? "quantileTDigest" : "quantileExactInclusive";
  const one = (aggregate, value, when2, compute = (sql) => sql) => createMeasure(number2, [{ name, aggregate, value, when: when2 }], compute);
  const isNumber = `${matches} AND v${position} IS NOT NULL`;
  const measureNumbers = (aggregate) => one(aggregate, `assumeNotNull(v${position})`, isNumber, nanToNull);
  const percentile = (level) => (
    // Infinite numbers occur only in texts that need repair.
    statement.context.repairsTexts && !approximate ? one(
      "groupArray",
      `assumeNotNull(v${position})`,
      isNumber,
      (numbers) => nanToNull(computePercentile(numbers, level))
    ) : measureNumbers(`${quantile}(${level})`)
  );
  switch (metric) {
    case "events":
      return one("count", "", matches);
    case "users":
      return one(count, "user", `${matches} AND user != 0`);
    case "events_per_user": {
      const when2 = `${matches} AND user != 0`;
      const states = [
        { name: `${name}_events`, aggregate: "count", value: "", when: when2 },
        { name: `${name}_users`, aggregate: count, value: "user", when: when2 }
      ];
      return createMeasure(number2, states, (events, users3) => `if(${users3} = 0, 0, ${events} / ${users3})`);
    }
    case "sum":
      return one("sum", `assumeNotNull(v${position})`, isNumber);
    case "avg":
      return measureNumbers("avg");
    case "min":
    case "max":
      return one(`${metric}OrNull`, `v${position}`, matches);
    case "median":
      return percentile(statement.number(0.5));
    case "percentile":
      return percentile(statement.number(p / 100));
  }
}
function computePercentile(numbers, level) {
  const place = `(${level} * (length(sorted) - 1) + 1)`;
  const whole = `toUInt64(${place})`;
  const [below, above] = [`sorted[${whole}]`, `sorted[${whole} + 1]`];
  const between = `if(isInfinite(${below}), ${below} + ${above}, ${below} + (${above} - ${below}) * (${place} - ${whole}))`;
  const isExact = `${place} = ${whole} OR ${below} = ${above}`;
  return `arrayMap(sorted -> multiIf(empty(sorted), nan, ${isExact}, ${below}, ${between}), [arraySort(${numbers})])[1]`;
}
function nanToNull(sql) {
  return `if(isNaN(${sql}), NULL, ${sql})`;
}
function buildBuckets({ interval, timezone, week_start, ...range2 }) {
  return interval === "none" ? null : splitIntoBuckets(parseRange({ ...range2, timezone }), interval, timezone, week_start);
}
function answer(question, rows, { now }) {
  const lines = toLines(question, rows);
  const spans = listSpans(question);
  const results = lines.map(({ series: series2, label, total: total2, values }) => {
    const empty = getEmptyValue(question, series2);
    const points = spans.map(({ at, to }, i) => {
      const value = values.get(i + 1);
      return { at, value: value === void 0 ? empty : value, complete: to <= now };
    });
    return { series: series2, breakdown: label === "" ? [REST2] : JSON.parse(label), total: total2, points };
  });
  return { results, ...question.approximate && { approximate: true } };
}
function listSpans(question) {
  const buckets = buildBuckets(question);
  if (buckets) return buckets.buckets;
  const { from, to } = parseRange(question);
  return [{ at: formatInstant(from, question.timezone), to }];
}
function toLines(question, rows) {
  const lines = /* @__PURE__ */ new Map();
  for (const { series: series2, label, bucket, value } of rows) {
    const key = `${series2} ${label}`;
    const line = lines.get(key) ?? { series: series2, label, total: getEmptyValue(question, series2), values: /* @__PURE__ */ new Map() };
    lines.set(key, line);
    if (bucket === 0) line.total = readNumber(value);
    else line.values.set(bucket, readNumber(value));
  }
  if (question.breakdown.length === 0) {
    return question.series.map((_, series2) => {
      return lines.get(`${series2} []`) ?? { series: series2, label: "[]", total: getEmptyValue(question, series2), values: /* @__PURE__ */ new Map() };
    });
  }
  return [...lines.values()].sort((a, b) => {
    if (a.series !== b.series) return a.series - b.series;
    if (a.label === "" || b.label === "") return a.label === "" ? 1 : -1;
    return compareDescending(a.total, b.total) || Buffer.compare(Buffer.from(a.label), Buffer.from(b.label));
  });
}
function compareDescending(a, b) {
  if (a === b) return 0;
  if (a === null) return 1;
  return b === null || a > b ? -1 : 1;
}
function getEmptyValue({ series: series2 }, number2) {
  const metric = series2[number2]?.metric ?? "events";
  return ZERO.includes(metric) ? 0 : null;
}
var DENORMALS = {
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
  nan: null,
  "-nan": null
};
function readNumber(value) {
  return typeof value === "string" ? DENORMALS[value] ?? null : value;
}

// src/questions/users.ts
function usersKind(getKind2) {
  return {
    query({ of, cell, limit, page: page2 }, asked) {
      const statement = new Statement(asked, { namesUsers: true });
      const users3 = getKind2(of).users(of, cell, statement);
      const first = statement.number((page2 - 1) * limit + 1);
      const sql = `SELECT count() AS count, arraySlice(arraySort(groupArray(user)), toInt64(${first}), toInt64(${statement.number(limit)})) AS page
        FROM (SELECT DISTINCT user FROM (${users3}))`;
      return { sql, parameters: statement.parameters };
    },
    answer({ limit, page: page2 }, rows) {
      const [row] = rows;
      const count = Number(row?.count ?? 0);
      const results = { users: row?.page ?? [], count, page: page2, limit, hasMore: page2 * limit < count };
      return { results };
    }
  };
}

// src/questions/kinds.ts
var COUNTING2 = { funnel, paths, retention, series };
var users2 = usersKind((question) => COUNTING2[question.kind]);

// src/contract/read-fields.ts
import { Kind as Kind2, OptionalKind as OptionalKind2 } from "@sinclair/typebox";
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// src/lib/nearest.ts
var MAX_LENGTH = 100;
var MAX_DISTANCE = 3;
var CHARACTERS_PER_SLIP = 3;
var MIN_BEGINNING = 3;
function createNearestFinder(names) {
  const candidates = [...names].map((name) => ({ name, plain: normalizeName(name) }));
  return (given) => {
    const wanted = normalizeName(given);
    if (wanted === "") return void 0;
    const others = candidates.filter(({ name, plain }) => name !== given && plain !== "");
    const same = others.find(({ plain }) => plain === wanted);
    if (same || wanted.length > MAX_LENGTH) return same?.name;
    let limit = Math.min(MAX_DISTANCE, Math.floor(wanted.length / CHARACTERS_PER_SLIP));
    let near;
    for (const { name, plain } of others) {
      const distance = editDistance(wanted, plain, limit);
      if (distance === null || near !== void 0 && distance === limit) continue;
      near = name;
      limit = distance;
    }
    const isBeginning = wanted.length >= MIN_BEGINNING;
    return near ?? (isBeginning ? others.find(({ plain }) => plain.startsWith(wanted))?.name : void 0);
  };
}
function normalizeName(name) {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}
function editDistance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return null;
  let before = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let least = Math.min(last[j] ?? 0, row[j - 1] ?? 0) + 1;
      least = Math.min(least, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(isSwap ? Math.min(least, (before[j - 2] ?? 0) + 1) : least);
    }
    if (Math.min(...row) > limit && Math.min(...last) > limit) return null;
    before = last;
    last = row;
  }
  const distance = last[b.length] ?? 0;
  return distance <= limit ? distance : null;
}

// src/questions/known-values.ts
var NUMBERS2 = {
  has: (value) => typeof value === "number",
  description: "is a number",
  suggest: (value) => isNumeric(value) ? Number(value) : void 0
};
var NO_COUNTRIES = ["EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"];
var countries;
var COUNTRIES = {
  // Databases of addresses also have codes of regions, such as EU, and any two capital letters can be sent.
  has: (value) => typeof value === "string" && /^[A-Z]{2}$/.test(value),
  description: "is two capital letters, as in ISO 3166-1",
  suggest: suggestCountry
};
var KNOWN = {
  "page.channel": listed([...new Set(CHANNELS.values)].sort()),
  "context.device": listed(DEVICES),
  "context.country": COUNTRIES,
  "context.bot": { ...listed([true]), description: "is true or not set" },
  "session.bounced": listed([true, false]),
  "session.state": listed(["active", "completed"]),
  ...Object.fromEntries(
    ["start", "seconds", "events", "pages", "duration"].map((name) => [`session.${name}`, NUMBERS2])
  )
};
function listed(values) {
  const nearest = createNearestFinder(values.map(String));
  return {
    has: (value) => values.includes(value),
    description: `is ${values.map(String).join(", ").replace(/, ([^,]+)$/, " or $1")}`,
    suggest: (value) => {
      const text3 = values.map(String).find((one) => one === String(value)) ?? nearest(String(value));
      return values.find((one) => String(one) === text3);
    }
  };
}
function listCountries() {
  if (countries) return countries;
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
  const names = new Intl.DisplayNames("en", { type: "region", fallback: "none" });
  const codes = letters.flatMap((first) => letters.map((second) => `${first}${second}`));
  countries = new Map(
    codes.filter((code) => !NO_COUNTRIES.includes(code) && toCanonical(code) === code).flatMap((code) => {
      const name = names.of(code);
      return name === void 0 ? [] : [[code, name]];
    })
  );
  return countries;
}
function suggestCountry(value) {
  const text3 = String(value);
  if (/^[a-z]{2}$/i.test(text3)) {
    const code = toCanonical(text3);
    return listCountries().has(code) ? code : void 0;
  }
  const byName = new Map([...listCountries()].map(([code, name]) => [name, code]));
  return byName.get(text3) ?? byName.get(createNearestFinder(byName.keys())(text3) ?? "");
}
function toCanonical(code) {
  return new Intl.Locale(`und-${code}`).region ?? code;
}
function isNumeric(value) {
  return typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value));
}

// src/contract/filters.ts
var OPERATORS2 = {
  is: "values",
  is_not: "values",
  contains: "texts",
  not_contains: "texts",
  starts_with: "texts",
  ends_with: "texts",
  matches: "texts",
  gt: "order",
  gte: "order",
  lt: "order",
  lte: "order",
  set: "nothing",
  not_set: "nothing"
};

// src/questions/strict-reader.ts
import { Kind as Kind3, TypeRegistry as TypeRegistry2 } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";

// src/questions/filter-check.ts
var MAX_NESTING = 10;
var MAX_VALUES = 1e3;
var MAX_TEXT = 1e4;
var WITHIN = "is not possible in a filter that chooses the events of a session";
var SESSION_HAS = 'must be ["session_has", {"event": \u2026, "where": filter}]';
var OF_QUESTION = { of: "a question", most: 100 };
var FilterCheck = class {
  #fault;
  #limit;
  #filters = 0;
  /** how many filters around this one choose the events of a session, which know of no session themselves */
  #within = 0;
  /** @param fault called with each fault */
  constructor(fault, limit = OF_QUESTION) {
    this.#fault = fault;
    this.#limit = limit;
  }
  /** Checks a filter that chooses the events of a session. */
  checkWithin(filter, path, level = 1) {
    this.#within++;
    this.check(filter, path, level);
    this.#within--;
  }
  check(filter, path, level = 1) {
    const { of, most } = this.#limit;
    if (++this.#filters > most) {
      if (this.#filters === most + 1) this.#fault(path, `must be left out: ${of} has at most ${most} filters`);
      return;
    }
    if (!Array.isArray(filter) || typeof filter[0] !== "string") {
      this.#fault(path, 'must be a filter such as ["is", "properties.plan", ["pro"]]');
    } else if (filter[0] === "and" || filter[0] === "or" || filter[0] === "not") {
      this.#checkGroup(filter, path, level);
    } else if (filter[0] === "session_has") {
      this.#checkSessionHas(filter, path, level);
    } else {
      this.#checkComparison(filter, path);
    }
  }
  #checkGroup(filter, path, level) {
    const [operator, inner] = filter;
    if (level > MAX_NESTING) {
      this.#fault(path, `must not be nested more than ${MAX_NESTING} levels deep`);
    } else if (filter.length !== 2) {
      this.#fault(path, operator === "not" ? 'must be ["not", filter]' : `must be ["${operator}", [filters]]`);
    } else if (operator === "not") {
      this.check(inner, `${path}/1`, level + 1);
    } else if (Array.isArray(inner)) {
      for (const [i, one] of inner.entries()) this.check(one, `${path}/1/${i}`, level + 1);
    } else {
      this.#fault(`${path}/1`, "must be an array of filters");
    }
  }
  #checkSessionHas(filter, path, level) {
    const [, events] = filter;
    if (this.#within > 0) this.#fault(path, WITHIN);
    else if (filter.length !== 2 || !isObject(events)) this.#fault(path, SESSION_HAS);
    else this.#checkSessionEvents(events, path, level);
  }
  #checkSessionEvents({ event, where }, path, level) {
    const names = Array.isArray(event) ? event : [event];
    if (names.length === 0 || names.length > MAX_VALUES || !names.every(isName)) {
      this.#fault(`${path}/1/event`, 'must be the name of an event, an array of names, or "*" for all');
    }
    if (level > MAX_NESTING) this.#fault(path, `must not be nested more than ${MAX_NESTING} levels deep`);
    else if (where !== void 0 && where !== null) this.checkWithin(where, `${path}/1/where`, level + 1);
  }
  #checkComparison(filter, path) {
    const [operator, field, operand] = filter;
    if (!Object.hasOwn(OPERATORS2, operator)) {
      this.#fault(
        `${path}/0`,
        `must be one of ${[...Object.keys(OPERATORS2), "and", "or", "not", "session_has"].join(", ")}`
      );
      return;
    }
    const kind2 = OPERATORS2[operator];
    if (filter.length !== (kind2 === "nothing" ? 2 : 3)) {
      this.#fault(path, `must be ["${operator}", field${kind2 === "nothing" ? "" : ", value"}]`);
      return;
    }
    const isOfSession = this.#within > 0 && splitField(field)[0] === "session";
    const fieldFault = findFieldFault(field) ?? (isOfSession ? WITHIN : void 0);
    if (fieldFault !== void 0) this.#fault(`${path}/1`, fieldFault);
    const isTime = fieldFault === void 0 && splitField(field)[0] === "timestamp";
    const fault = findOperandFault(kind2, operand, isTime);
    if (fault !== void 0) this.#fault(`${path}/2`, fault);
  }
};
function findOperandFault(kind2, operand, isTime) {
  switch (kind2) {
    case "values":
      if (Array.isArray(operand) && operand.length <= MAX_VALUES && operand.every(isScalar)) return void 0;
      return `must be an array of at most ${MAX_VALUES} strings, numbers, booleans or nulls`;
    case "texts": {
      const all = Array.isArray(operand) ? operand : [operand];
      if (all.length <= MAX_VALUES && all.every(isText2)) return void 0;
      return `must be a string, or an array of at most ${MAX_VALUES} strings`;
    }
    case "order":
      if (typeof operand === "number") return void 0;
      if (!isText2(operand)) return "must be a number or a string";
      return isTime && parseInstant(operand, "UTC") === null ? "must be a number, a date or an ISO time" : void 0;
    case "nothing":
      return void 0;
  }
}
function isScalar(value) {
  return value === null || typeof value === "number" || typeof value === "boolean" || isText2(value);
}
function isText2(value) {
  return typeof value === "string" && value.length <= MAX_TEXT;
}

// src/questions/strict-reader.ts
var MAX_DURATION_MS = 366 * 864e5;
var MIN_GAP_MS = 6e4;
var MAX_GAP_MS = 864e5;
var CHECKS = {
  EventNames: (value) => [value].flat().every(isName) && (!Array.isArray(value) || isInside(value.length, 1, MAX_EVENTS)),
  Field: (value) => findFieldFault(value) === void 0,
  Time: (value) => (typeof value === "string" || typeof value === "number") && parseInstant(value, "UTC") !== null,
  TimeZone: isTimeZone,
  Duration: (value) => typeof value === "string" && isInside(parseDuration(value) ?? 0, 1, MAX_DURATION_MS),
  Sessions: (value) => value === "id" || isObject(value) && isGap(value.gap),
  Filter: (value) => {
    let isValid = true;
    new FilterCheck(() => {
      isValid = false;
    }).check(value, "");
    return isValid;
  }
};
for (const [kind2, check] of Object.entries(CHECKS)) TypeRegistry2.Set(kind2, (_, value) => check(value));
function isGap(value) {
  return typeof value === "string" && isInside(parseDuration(value) ?? 0, MIN_GAP_MS, MAX_GAP_MS);
}
function isInside(number2, least, most) {
  return number2 >= least && number2 <= most;
}

// src/questions/parse.ts
var KINDS2 = Object.keys(COUNTING);

// src/questions/repaired-projects.ts
var KEPT_MS = 60 * 6e4;

// src/questions/run.ts
var MAX_RESULT_BYTES = 128 * 1024 * 1024;
var NEEDLESS_REWRITES = [
  "optimize_and_compare_chain",
  "optimize_aggregators_of_group_by_keys",
  "optimize_group_by_function_keys",
  "optimize_injective_functions_in_group_by",
  "optimize_injective_functions_in_limit_by",
  "optimize_limit_by_function_keys",
  "optimize_redundant_functions_in_order_by",
  "optimize_truncate_order_by_after_group_by_keys",
  "query_plan_merge_expressions"
];

// <stdin>
var ch = new ClickHouse({ url: readFileSync("/tmp/fsp/url", "utf8").trim() });
var settings = Object.fromEntries(NEEDLESS_REWRITES.map((n) => [n, 0]));
var cpu = async () => Number((await ch.rows("SELECT value AS v FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'"))[0].v);
var text2 = readFileSync(process.argv[2], "utf8");
var vs = text2.split(/^-- /m).slice(1).map((b) => {
  const nl = b.indexOf("\n");
  const [name, ...st] = b.slice(0, nl).trim().split(" ");
  return { name, st: Object.fromEntries(st.map((x) => x.split("="))), sql: b.slice(nl + 1).trim().replace(/;$/, "") };
});
var best = /* @__PURE__ */ new Map();
for (let i = 0; i < Number(process.env.REPS ?? 15); i++) for (const { name, sql, st } of vs) {
  const a = await cpu(), b = performance.now();
  let r;
  try {
    r = await ch.rows(sql, {}, { ...settings, ...st });
  } catch (e) {
    console.log(name, String(e).slice(0, 300));
    process.exit(1);
  }
  const ms = performance.now() - b, c = await cpu() - a;
  const o = best.get(name);
  best.set(name, { ms: Math.min(ms, o?.ms ?? 1e9), cpu: Math.min(c, o?.cpu ?? 1e9), r });
}
var s = (r) => JSON.stringify(r.map((x) => JSON.stringify(x)).sort());
for (const [name, { ms, cpu: cpu2, r }] of best) console.log(name.padEnd(24), ms.toFixed(1).padStart(7), "ms  cpu", (cpu2 / 1e3).toFixed(1).padStart(7), r.length, s(r).length < 200 ? s(r) : (await import("node:crypto")).createHash("md5").update(s(r)).digest("hex").slice(0, 8));
await ch.close();
