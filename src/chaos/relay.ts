import { connect, createServer, type Socket } from "node:net";

/**
 * What is to happen to the next write that passes.
 * - `lose_write`: the connection is cut in its place; `lose_reply`: it reaches Redis and the connection is cut in place of the reply;
 * - `at_write`, `after_write`: calls back before the write leaves, or once Redis has answered it; either way the connection is cut.
 */
export type Ambush = { kind: "lose_write" | "lose_reply" | "at_write" | "after_write"; spring?: () => void };

/** Stands between one process and Redis. */
export type Relay = {
  /** `redis://127.0.0.1:PORT`. */
  url: string;
  /** Lies in wait for the next write. */
  lieInWait(ambush: Ambush): void;
  cut(): void;
  close(): Promise<void>;
};

/** Every change that Drover and BullMQ make is a script. */
const write = /evalsha|\beval\b/i;

/** Takes the ambush that lies in wait, if the data is what it waits for. */
type Lurking = { take(data: Buffer): Ambush | undefined; spring(ambush: Ambush): void };

/** @param target path of Redis's socket; undefined while it is away: connections are refused. */
export async function startRelay(target: () => string | undefined): Promise<Relay> {
  const sockets = new Set<Socket>();
  let ambush: Ambush | undefined;
  const lurking: Lurking = {
    take(data) {
      if (!ambush || !write.test(data.toString("latin1"))) return undefined;
      const taken = ambush;
      ambush = undefined;
      return taken;
    },
    spring: (taken) => taken.spring?.(),
  };
  const server = createServer((client) => {
    const path = target();
    if (path === undefined) client.destroy();
    else join(client, connect(path), { sockets, lurking });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    lieInWait(next) {
      ambush = next;
    },
    cut,
    close: () => {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Passes on what either says; both end together. */
function join(
  client: Socket,
  upstream: Socket,
  { sockets, lurking }: { sockets: Set<Socket>; lurking: Lurking },
): void {
  const pair = [client, upstream];
  const end = (): void => {
    for (const socket of pair) socket.destroy();
  };
  let awaited: Ambush | undefined;
  for (const socket of pair) {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => {
      end();
      for (const other of pair) sockets.delete(other);
    });
  }
  client.on("data", (data) => {
    const ambush = lurking.take(data);
    if (ambush?.kind === "lose_write" || ambush?.kind === "at_write") {
      lurking.spring(ambush);
      end();
      return;
    }
    awaited = ambush ?? awaited;
    upstream.write(data);
  });
  upstream.on("data", (data) => {
    if (!awaited) return void client.write(data);
    lurking.spring(awaited);
    end();
  });
}
