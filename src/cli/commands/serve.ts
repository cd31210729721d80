import { type Command, InvalidArgumentError } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, findRedisUrl } from "../context.ts";
import { toInteger } from "../options.ts";
import { startServer } from "../run-server.ts";
import { listenForStop } from "../signals.ts";

type Options = { host?: string; port?: number };

/** `drover serve`. */
export function registerServe(program: Command, context: Context, exit: Exit): void {
  program
    .command("serve")
    .description("serve the HTTP API and the operators' pages until SIGTERM or SIGINT")
    .option("--host <host>", "address to listen on; beyond loopback it needs keys (default: DROVER_HTTP_HOST)", toHost)
    .option("--port <port>", "port to listen on, 0 for any (default: DROVER_HTTP_PORT)", toInteger(0, 65_535))
    .action((options: Options) => act(context, exit, {}, () => serve(context, options)));
}

async function serve(context: Context, options: Options): Promise<number> {
  const { output } = context;
  const stop = listenForStop();
  const { httpHost, httpPort } = context.config();
  const { host = httpHost, port = httpPort } = options;
  const server = await startServer(context, { redis: await findRedisUrl(context), host, port });
  output.line(`serving ${server.url} | ${server.description}`);
  await stop.requested;
  output.note("stopping: requests in hand may end, streams are ended; the same signal again ends at once");
  await server.stop();
  return 0;
}

function toHost(text: string): string {
  if (/^[A-Za-z0-9.:-]{1,253}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a host name or an address, without a port.");
}
