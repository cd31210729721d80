import { connect, type Socket } from "node:net";

/** What came back over a socket; a status of 0: the server closed without an answer. */
export type RawAnswer = { status: number; headers: Map<string, string>; head: string; body: string; all: string };

export type RawOptions = {
  port: number;
  /** Where from, of 127.0.0.0/8; default: as the system likes. */
  from?: string | undefined;
  /** How long the server may take until it closes, in ms; default 30,000. */
  timeoutMs?: number | undefined;
};

/** Sends bytes as they are and reads until the server closes the connection. */
export async function sendRaw(bytes: string | Buffer, options: RawOptions): Promise<RawAnswer> {
  const { port, from, timeoutMs = 30_000 } = options;
  const socket = connect({ port, host: "127.0.0.1", ...(from ? { localAddress: from } : {}) });
  const closed = collect(socket, timeoutMs);
  socket.on("connect", () => socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes));
  return parseAnswer(await closed);
}

/** Opens a connection and sends pieces at a pace; resolves with how long the server bore it, in ms, and its answer. */
export async function sendSlowly(
  pieces: Iterable<string>,
  paceMs: number,
  options: RawOptions,
): Promise<{ ms: number; answer: RawAnswer }> {
  const startedAt = performance.now();
  const socket = connect({ port: options.port, host: "127.0.0.1" });
  const closed = collect(socket, options.timeoutMs ?? 30_000);
  const rest = pieces[Symbol.iterator]();
  const timer = setInterval(() => {
    const next = rest.next();
    if (!next.done && !socket.destroyed) socket.write(next.value);
  }, paceMs);
  try {
    const all = await closed;
    return { ms: performance.now() - startedAt, answer: parseAnswer(all) };
  } finally {
    clearInterval(timer);
  }
}

function collect(socket: Socket, timeoutMs: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`not closed within ${timeoutMs} ms, so far: ${Buffer.concat(pieces).toString("latin1")}`));
    }, timeoutMs);
    socket.on("data", (piece) => pieces.push(piece));
    // Reset while we still write: what it answered before counts.
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(Buffer.concat(pieces));
    });
  });
}

/** The first answer among what came. Chunks are not put together: tests only look into them. */
function parseAnswer(bytes: Buffer): RawAnswer {
  const all = bytes.toString("latin1");
  const [head = "", ...rest] = all.split("\r\n\r\n");
  const [line = "", ...lines] = head.split("\r\n");
  const headers = new Map(
    lines.map((text) => [text.slice(0, text.indexOf(":")).toLowerCase(), text.slice(text.indexOf(":") + 1).trim()]),
  );
  return {
    status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1] ?? 0),
    headers,
    head,
    body: rest.join("\r\n\r\n"),
    all,
  };
}

/** A request as text. `Connection: close` is added, so that the answer ends with the connection. */
export function toRequestText(request: {
  method?: string | undefined;
  path: string;
  headers?: readonly string[] | undefined;
  body?: string | undefined;
  host?: string | undefined;
}): string {
  const { method = "GET", path, headers = [], body, host = "localhost" } = request;
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body, "latin1")}`];
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, "Connection: close", ...headers, ...length];
  return `${lines.join("\r\n")}\r\n\r\n${body ?? ""}`;
}
