import type { AddressInfo } from "node:net";
import { createServer, connect as open, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A way to Redis that can go dead without saying so, as a network does: connections stay open, nothing passes. */
export type SilentProxy = { url: string; silence(): void; speak(): void };

/** Starts it in front of `url`; it ends with the test. */
export async function startSilentProxy(url: string): Promise<SilentProxy> {
  const { hostname: host, port } = new URL(url);
  const sockets = new Set<Socket>();
  let silent = false;
  const hush = (socket: Socket): void => {
    sockets.add(socket);
    if (silent) socket.pause();
    socket.on("error", () => {}); // A worker that was killed.
    socket.on("close", () => sockets.delete(socket));
  };
  const server = createServer((near) => {
    const far = open({ host, port: Number(port) });
    hush(near);
    hush(far);
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => near.write(bytes));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    silence() {
      silent = true;
      for (const socket of sockets) socket.pause();
    },
    speak() {
      silent = false;
      for (const socket of sockets) socket.resume();
    },
  };
}
