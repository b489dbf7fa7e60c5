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
  async open(query, parameters, settings, signal) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(settings)) search.set(name, String(value));
    for (const [name, value] of Object.entries(parameters)) search.set(`param_${name}`, formatParameter(value));
    const answer = await this.#send(`/?${search}`, query, signal);
    const isError = answer.statusCode !== 200 || answer.headers["x-clickhouse-exception-code"] !== void 0;
    if (isError) throw parseError(await readErrorText(answer));
    try {
      assertIsFromClickHouse(answer.headers);
      assertHasEnd(answer.headers);
    } catch (error) {
      answer.destroy();
      throw error;
    }
    return answer;
  }
  #send(path, query, signal) {
    return new Promise((resolve, reject) => {
      const request = this.#request({ ...this.#address, path, signal });
      let answer = null;
      request.on("response", (response) => {
        answer = response;
        resolve(response);
      });
      request.on("error", reject);
      const onSilence = () => {
        if (answer?.complete) return;
        if (answer && answer.readableLength > 0) return answer.socket.setTimeout(this.#silentMs, onSilence);
        const silent = answer ?? request;
        silent.destroy(new Error(`ClickHouse sent nothing for ${this.#silentMs} ms`));
      };
      request.on("timeout", onSilence);
      request.end(query);
    });
  }
  /** Closes all connections, active ones too. Call it when no query is waiting for one. */
  close() {
    this.#agent.destroy();
  }
};
async function readErrorText(answer) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of answer) {
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
  constructor(url, settings = {}) {
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
        ...settings
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
  async rows(query) {
    const { abort_signal: signal } = query;
    const result = await this.client.query({ ...query, format: "JSONEachRow" });
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
function untilException(answer, tag, wrap) {
  return pipeline(answer, new ExceptionGuard(tag, wrap), () => void 0);
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
function isLongStatement(query, parameters) {
  if (Object.keys(parameters).length > MAX_FIELDS) throw tooLarge();
  if (Buffer.byteLength(query) <= MAX_FIELD_BYTES) return false;
  const fields = Object.entries(parameters).map(([name, value]) => {
    return [`param_${name}`, Array.isArray(value) ? JSON.stringify(value) : String(value)];
  });
  if (new URLSearchParams(fields).toString().length <= MAX_URL_BYTES) return true;
  throw tooLarge();
}
function tooLarge() {
  return new StatementTooLargeError("the statement and its parameters are too large for a request");
}
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
async function ask(connection, query) {
  const { database } = connection;
  return await connection.run(
    PROBE_LIMIT_MS,
    (abort_signal) => connection.rows({
      query: query.replaceAll("currentDatabase()", "{database:String}"),
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
  async command(query, parameters = {}, settings = {}, limitMs = QUERY_TIMEOUT_MS) {
    const run = async (paced) => {
      await this.#write(
        (connection) => connection.run(limitMs, async (abort_signal) => {
          const { response_headers } = await connection.client.command({
            query,
            query_params: parameters,
            clickhouse_settings: { ...paced, ...settings, wait_end_of_query: 1, max_query_size: MAX_QUERY_BYTES },
            abort_signal
          });
          assertIsFromClickHouse(response_headers);
        })
      );
    };
    if (this.#project === void 0) await run({});
    else await this.#paced({ project: this.#project }, run);
    const edited = this.hasReplicas ? EDIT.exec(query)?.[1] : void 0;
    if (edited) await this.#replicas.confirm(edited);
  }
  /** Runs a statement in the database `default`, to create ours. */
  async commandWithoutDatabase(query) {
    await this.command(query, {}, { database: "default" });
  }
  /**
   * The rows as objects; 64-bit integers are strings. Large parameters go in the body, or a long statement, but not
   * both. An abort cancels the query.
   * @throws StatementTooLargeError
   */
  async rows(query, parameters = {}, settings = {}, reading = {}) {
    const { project = this.#project, slot, ...rest } = reading;
    if (project === void 0) return await this.#rows(query, parameters, settings, rest);
    return await this.#paced({ project, slot, signal: reading.signal }, async (paced, onLeft) => {
      const all = { ...paced, ...this.#hidden(project), ...settings };
      return await this.#rows(query, parameters, all, { ...rest, onLeft });
    });
  }
  /** Runs a query of a project, within its slots and at its priority. */
  async #paced({ project, slot: held, signal }, run) {
    const slot = held ?? await this.#slots.take(project, signal).catch(throwUnreachable);
    const end = this.#begin(project);
    let left;
    try {
      const settings = { ...await this.#priority.settings(project), ...this.#threads(project) };
      return await run(settings, (ended) => {
        left = ended;
        slot.holdUntil(ended);
      });
    } finally {
      if (left) left.then(end, end);
      else end();
      if (!held) slot.release();
    }
  }
  async #rows(query, parameters, settings, {
    signal,
    limitMs = QUERY_TIMEOUT_MS,
    onLeft,
    end = (id) => this.endQuery(id)
  }) {
    const query_id = randomUUID();
    const isLong = isLongStatement(query, parameters);
    const long = isLong && { max_query_size: MAX_QUERY_BYTES };
    const all = {
      ...READ,
      ...settings,
      ...long,
      wait_end_of_query: 1,
      output_format_json_quote_64bit_integers: 1
    };
    const read = (connection, abort_signal) => connection.rows({
      query,
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
    const listed = "initial_query_id = {id:String}";
    const found = await this.rows(`SELECT 1 FROM system.processes WHERE ${listed} LIMIT 1`, { id: queryId }, {}, limits);
    if (found.length === 0) return false;
    await this.command(`KILL QUERY WHERE ${listed} ASYNC`, { id: queryId }, {}, PING_TIMEOUT_MS);
    return true;
  }
  /**
   * The bytes of the result in the query's format. The server completes the result before it sends the first byte
   * (using its disk if memory is short), so an error in the middle is thrown here and never truncates the stream. With
   * `wait_end_of_query: 0`, the server sends rows immediately, and such an error breaks the stream: it is complete if,
   * and only if, it ends. `limitMs` limits the time until the first byte. Unread bytes are buffered in memory within
   * limits; beyond them, the stream is aborted if another query needs its connection.
   */
  async bytes(query, parameters = {}, settings = {}, reading = {}) {
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
      ...settings
    };
    const open = (connection) => {
      const named = { ...all, query_id: queryId };
      return connection.run(limitMs, (abort) => connection.streams.open(query, parameters, named, abort), signal);
    };
    const answer = await this.#read(open, signal).catch((error) => {
      if (!(error instanceof StoreError)) slot.holdUntil(end(queryId));
      slot.release();
      throw error;
    });
    answer.once("end", () => slot.release());
    answer.once("close", () => {
      if (!answer.readableEnded) slot.holdUntil(end(queryId));
      slot.release();
    });
    const tag = answer.headers[EXCEPTION_TAG_HEADER_NAME];
    if (all.wait_end_of_query === 0 && typeof tag !== "string") {
      answer.destroy();
      return await this.bytes(query, parameters, { ...settings, wait_end_of_query: 1 }, reading);
    }
    const rows = all.wait_end_of_query === 0 ? untilException(answer, String(tag), toStoreError) : answer;
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
  async insert(query, values, settings, signal) {
    const insert = async (client, abort_signal) => {
      const { stream, response_headers } = await client.exec({
        query,
        values,
        clickhouse_settings: { ...settings, wait_end_of_query: 1 },
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
function nameShare(kind, project) {
  return `${kind}\0${project}`;
}
var ERASE = nameShare("erase", "");
function toOwner(name) {
  return name.slice(name.indexOf("\0") + 1);
}
function throwUnreachable(error) {
  throw new StoreUnreachableError(`The query was not sent to ClickHouse: ${error.message}`, { cause: error });
}

// src/contract/context.ts
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

// src/store/event-changes.ts
var SETTLED = 2;

// src/store/fact-points.ts
var CHANGES = "concat(toString(uniqExact(id)), ' ', toString(max(noted_at)))";
var isChecked = (generation) => `${generation} IN (SELECT generation FROM facts_checked)`;
async function readFactsPoint(clickhouse, projectId) {
  const [row] = await clickhouse.rows(
    // Each step reads one table once, so that all it says is of the same moment, and needs the step before it: ClickHouse
    // would choose the order otherwise. A change that is logged after the first step differs when the point is checked.
    `WITH
       (SELECT (${CHANGES}, uniqExact(id) - uniqExactIf(id, state = ${SETTLED}))
        FROM event_changes WHERE project_id = {project:String}) AS logged,
       (SELECT argMax((begun, generation), version) FROM facts_state WHERE logged.1 != '') AS state,
       (SELECT (max(step), countIf(project_id = {project:String}), argMaxIf(hi, step, project_id = {project:String}),
          maxIf(step, project_id = {project:String}))
        FROM facts_progress WHERE generation = state.2 AND ${isChecked("generation")}) AS progress
     SELECT logged.1 AS changes, logged.2 AS open, state.1 AS begun, state.2 AS valid, progress.1 AS done,
       progress.2 AS known, toString(progress.3) AS reached, progress.4 AS last, count() > 0 AS later
     FROM (SELECT 1 FROM events WHERE project_id = {project:String} AND toUInt128(event_id) > progress.3 LIMIT 1)`,
    { project: projectId }
  );
  if (!row) return { point: null, isOpen: false };
  const { begun, valid, done, known, reached, last, changes, open, later } = row;
  const point = {
    hi: BigInt(reached),
    step: Number(last),
    isStepping: Number(begun) > Number(done),
    begun: Number(begun),
    generation: Number(valid),
    changes,
    hasLater: later === 1
  };
  return { point: Number(known) > 0 ? point : null, isOpen: Number(open) > 0 };
}
async function compareWithPoint(clickhouse, projectId, point) {
  const [row] = await clickhouse.rows(
    `SELECT begun, generation, (SELECT ${CHANGES} FROM event_changes WHERE project_id = {project:String}) AS changes,
       ${isChecked("generation")} AS checked
     FROM facts_state ORDER BY version DESC LIMIT 1`,
    { project: projectId }
  );
  if (!row || row.checked === 0) return "other";
  if (Number(row.generation) !== point.generation || row.changes !== point.changes) return "other";
  return Number(row.begun) === point.begun ? "same" : "stepped";
}

// <stdin>
var ch = new ClickHouse({ url: readFileSync("/tmp/fsp/url", "utf8").trim() });
if (process.argv.includes("fill")) {
  await ch.command(`INSERT INTO facts_state (version, epoch, leader, is_leading, begun, generation, engine) SELECT number, 1, generateUUIDv4(), 1, number, 1, 'x' FROM numbers(100)`);
  await ch.command(`INSERT INTO event_changes (project_id, id, kind, scope, state) SELECT 'default', generateUUIDv4(), 'events', '', 2 FROM numbers(50)`);
}
var cpu = async () => Number((await ch.rows("SELECT value AS v FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'"))[0].v);
var m = async (name, f) => {
  let ms = 1e9, c = 1e9, r;
  for (let i = 0; i < 25; i++) {
    const a = await cpu(), b = performance.now();
    r = await f();
    ms = Math.min(ms, performance.now() - b);
    c = Math.min(c, await cpu() - a);
  }
  console.log(name.padEnd(30), ms.toFixed(2), "ms cpu", (c / 1e3).toFixed(2), JSON.stringify(r, (_, v) => typeof v === "bigint" ? String(v) : v).slice(0, 150));
};
var p = (await readFactsPoint(ch, "default")).point;
await m("select 1", () => ch.rows("SELECT 1"));
await m("point", () => readFactsPoint(ch, "default"));
await m("compare", () => compareWithPoint(ch, "default", p));
var hi = String(p.hi);
await m("tail", () => ch.rows(`SELECT 1 FROM events WHERE project_id = {p:String} AND toUInt128(event_id) > toUInt128({h:String}) LIMIT 1`, { p: "default", h: hi }));
await m("state", () => ch.rows(`SELECT begun, generation FROM facts_state ORDER BY version DESC LIMIT 1`));
await m("changes", () => ch.rows(`SELECT uniqExact(id), max(noted_at), countIf(state < 2) FROM event_changes WHERE project_id = 'default'`));
await ch.close();
