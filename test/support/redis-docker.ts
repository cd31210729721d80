import { request } from "node:http";
import { baseArgs, type ControlledServer, freePort, type TestRedisOptions } from "./redis-server.ts";

const image = "redis:8-alpine";
const pingTimeoutMs = 500;

/** A Redis in a container, or undefined when Docker does not answer at once. */
export async function startDockerRedis(options: TestRedisOptions): Promise<ControlledServer | undefined> {
  if (!(await dockerAnswers())) return undefined;
  // Loaded late: the library is large, and of no use without Docker.
  const { GenericContainer, Wait, getContainerRuntimeClient } = await import("testcontainers");
  // A fixed port, since Docker would give another one at every start.
  const port = options.port ?? (await freePort());
  const setup = new GenericContainer(image)
    .withCommand(["redis-server", ...baseArgs, ...(options.args ?? [])])
    .withExposedPorts({ container: 6379, host: port })
    .withAutoRemove(false)
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/i));
  if (options.dir !== undefined) setup.withBindMounts([{ source: options.dir, target: "/data" }]);
  const container = await setup.start();
  const runtime = await getContainerRuntimeClient();
  const handle = runtime.container.getById(container.getId());
  const url = `redis://${container.getHost()}:${port}`;
  let up = true;
  const take = async (act: () => Promise<unknown>): Promise<void> => {
    if (up) await act();
    up = false;
  };
  return {
    url,
    async stop() {
      await take(() => handle.kill());
      await handle.remove({ force: true, v: true });
    },
    kill9: () => take(() => handle.kill({ signal: "SIGKILL" })),
    async restart() {
      await take(() => handle.stop());
      await handle.start();
      up = true;
    },
  };
}

/** Asks the engine for a ping, on the socket or the address that DOCKER_HOST names. */
function dockerAnswers(): Promise<boolean> {
  const host = process.env.DOCKER_HOST ?? "unix:///var/run/docker.sock";
  const url = URL.parse(host);
  if (!url) return Promise.resolve(false);
  const where = url.protocol === "unix:" ? { socketPath: url.pathname } : { host: url.hostname, port: url.port };
  return new Promise((resolve) => {
    const ping = request({ ...where, path: "/_ping", timeout: pingTimeoutMs }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.on("timeout", () => ping.destroy(new Error("no answer")));
    ping.on("error", () => resolve(false));
    ping.end();
  });
}
