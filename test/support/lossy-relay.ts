import { connect, createServer, type Socket } from "node:net";

export type LossyRelay = {
  url: string;
  /** Lets the next request that holds `text` through, and cuts the connection instead of passing on the reply. */
  loseReplyTo(text: string): void;
  /** How many replies were lost. */
  lost(): number;
  close(): Promise<void>;
};

/** A relay in front of Redis that loses replies: what a network does to a commit at the worst moment. */
export async function startLossyRelay(url: string): Promise<LossyRelay> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let target: string | undefined;
  let lost = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let cut = false;
    const pair = [client, upstream];
    for (const socket of pair) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        for (const other of pair) other.destroy();
        sockets.delete(socket);
      });
    }
    client.on("data", (data) => {
      if (target !== undefined && data.includes(target)) {
        target = undefined;
        cut = true;
      }
      upstream.write(data);
    });
    upstream.on("data", (data) => {
      if (!cut) return void client.write(data);
      lost += 1;
      client.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address() as { port: number };
  return {
    url: `redis://127.0.0.1:${address.port}`,
    loseReplyTo(text) {
      target = text;
    },
    lost: () => lost,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
