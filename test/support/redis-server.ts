import { type ChildProcess, spawn } from "node:child_process";
import { access, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

export type TestRedisOptions = {
  /** More arguments for redis-server, such as `["--maxmemory-policy", "allkeys-lru"]`. Implies a server of one's own. */
  args?: string[];
  /** Default: a free one. Implies a server of one's own. */
  port?: number;
  /** Where its data lies; default a new directory that goes with it. Implies a server of one's own. */
  dir?: string;
  /** A server of one's own, that can be stopped and killed, also when REDIS_URL names a shared one. */
  own?: boolean;
};

/** A server that can be started again on the same port and data. */
export type ControlledServer = {
  url: string;
  stop(): Promise<void>;
  kill9(): Promise<void>;
  restart(): Promise<void>;
};

/** One that can also be frozen: its connections stay and nothing answers. */
export type PrivateServer = ControlledServer & { freeze(): void; thaw(): void };

/** The arguments that every test server gets. */
export const baseArgs: string[] = ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"];

/** A free port of the loopback interface. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("the system gave no port");
  return address.port;
}

/** The first of these programs that is on PATH. */
async function findProgram(...names: string[]): Promise<string | undefined> {
  const candidates = names.flatMap((name) => (process.env.PATH ?? "").split(delimiter).map((dir) => join(dir, name)));
  for (const path of candidates) {
    const found = await access(path).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
}

/** A redis-server or valkey-server of our own on the loopback interface. */
export async function startPrivateRedis(options: TestRedisOptions): Promise<PrivateServer> {
  const program = await findProgram("redis-server", "valkey-server");
  if (!program) throw new Error("tests need Redis: set REDIS_URL, start Docker, or install redis-server");
  const port = options.port ?? (await freePort());
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "drover-redis-")));
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, ...baseArgs, ...(options.args ?? [])];
  const server = await control(program, args, port);
  return {
    ...server,
    async stop() {
      await server.stop();
      if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A sentinel by its configuration, which it rewrites. */
export async function startSentinel(configPath: string, port: number): Promise<PrivateServer> {
  const program = await findProgram("redis-server", "valkey-server");
  if (!program) throw new Error("tests of failovers need redis-server or valkey-server on PATH");
  return control(program, [configPath, "--sentinel"], port);
}

/** Starts a server that is stopped, killed and started again. */
async function control(program: string, args: string[], port: number): Promise<PrivateServer> {
  const url = `redis://127.0.0.1:${port}`;
  let child = await launch(program, args);
  const end = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await exited;
  };
  return {
    url,
    stop: () => end("SIGKILL"),
    kill9: () => end("SIGKILL"),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    async restart() {
      await end("SIGTERM");
      child = await launch(program, args);
    },
  };
}

const running = new Set<ChildProcess>();
// Nothing that a test forgets to stop outlives the test process.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Resolves when the server takes connections; its own log says so. */
function launch(program: string, args: string[]): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    let output = "";
    const onExit = (code: number | null): void => reject(new Error(`${program} ended with ${code}:\n${output}`));
    const onData = (data: Buffer): void => {
      output = (output + data.toString()).slice(-4_000);
      if (!/ready to accept connections|Sentinel ID is/i.test(output)) return;
      child.off("exit", onExit);
      child.stdout.off("data", onData);
      child.stdout.resume();
      resolve(child);
    };
    child.once("error", reject);
    child.once("exit", onExit);
    child.stdout.on("data", onData);
    child.stderr.resume();
    running.add(child);
    child.once("exit", () => running.delete(child));
  });
}
