import { connect } from "node:net";
import { createInterface } from "node:readline";
import { cliOf } from "./redis.ts";

/** What a server was asked to do. `name` in lower case; `source`: `host:port` of the client, "lua" for what a script asks. */
export type SeenCommand = { name: string; args: string[]; source: string };

/**
 * Listens to all commands of a server (MONITOR), over a socket of its own: the usual client library takes a command of
 * others that comes right after the acknowledgement for an answer, and gives up.
 *
 * @param hear told of each command from the moment on at which this resolves
 */
export async function startMonitor(url: string, hear: (command: SeenCommand) => void): Promise<{ stop(): void }> {
  const { hostname, port, username, password } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port || 6379) });
  const { promise: acknowledged, resolve, reject } = Promise.withResolvers<void>();
  socket.on("error", reject);
  socket.on("close", () => reject(new Error("the server closed the connection of its monitor")));
  const secrets = [username, password].filter((part) => part !== "").map(decodeURIComponent);
  const auth = secrets.length === 0 ? [] : [["AUTH", ...secrets]];
  let answersToCome = auth.length + 1;
  createInterface({ input: socket }).on("line", (line) => {
    if (answersToCome === 0) return hear(parseLine(line));
    if (line !== "+OK") return reject(new Error(`the server does not let itself be monitored: ${line}`));
    answersToCome -= 1;
    if (answersToCome === 0) resolve();
  });
  for (const command of [...auth, ["MONITOR"]]) {
    const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
    socket.write(`*${command.length}\r\n${parts.join("")}`);
  }
  await acknowledged.catch((error: unknown) => {
    socket.destroy();
    throw error;
  });
  return { stop: () => void socket.destroy() };
}

/** All commands, those of scripts too, that name something under the prefix while `act` is under way. */
export async function commandsDuring(url: string, prefix: string, act: () => Promise<unknown>): Promise<SeenCommand[]> {
  const commands: SeenCommand[] = [];
  const last = `${prefix}:last`;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const monitor = await startMonitor(url, (command) => {
    if (command.args[0] === last) end();
    else if (command.args.join(" ").includes(prefix)) commands.push(command);
  });
  try {
    await act();
    await cliOf(url)("GET", last);
    await ended;
    return commands;
  } finally {
    monitor.stop();
  }
}

/** Such as `+1700000000.123456 [0 127.0.0.1:5000] "get" "a key"`; what cannot be printed is escaped. */
function parseLine(line: string): SeenCommand {
  const [, source = "", rest = ""] = /^\+[\d.]+ \[\d+ (.+?)\] (".*)$/.exec(line) ?? [];
  const [name, ...args] = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, quoted = ""]) => unescape(quoted));
  if (name === undefined) throw new Error(`a line of a monitor that cannot be read: ${line}`);
  return { name: name.toLowerCase(), args, source };
}

const letters: Record<string, string> = { n: "\n", r: "\r", t: "\t", a: "\x07", b: "\b" };

function unescape(quoted: string): string {
  const bytes = quoted.replaceAll(/\\(?:x([0-9a-f]{2})|(.))/g, (_, hex: string | undefined, letter: string) =>
    hex === undefined ? (letters[letter] ?? letter) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString();
}
