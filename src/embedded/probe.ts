import { connect } from "node:net";

/** What a socket answers: a server (perhaps still loading its data), or nothing that can be used. */
export type Probe = { type: "up"; pid: number } | { type: "loading" } | { type: "down" };

/** Asks the server at a unix socket who it is. Never rejects; anything but an answer within `timeoutMs` is "down". */
export function probe(socketPath: string, timeoutMs: number = 1000): Promise<Probe> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    let reply = "";
    const end = (result: Probe): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(result);
    };
    const timer = setTimeout(() => end({ type: "down" }), timeoutMs);
    socket.setEncoding("utf8");
    socket.on("connect", () => socket.write("PING\r\nINFO server\r\n"));
    socket.on("error", () => end({ type: "down" }));
    socket.on("close", () => end({ type: "down" }));
    socket.on("data", (chunk: string) => {
      reply += chunk;
      if (reply.startsWith("-LOADING")) end({ type: "loading" });
      else if (reply.startsWith("-")) end({ type: "down" });
      const pid = /^process_id:(\d+)\r$/m.exec(reply)?.[1];
      if (pid) end({ type: "up", pid: Number(pid) });
    });
  });
}

/** Tells the server at a unix socket to write its data and end. Resolves when the connection is closed, or in 10 s. */
export function shutdown(socketPath: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const timer = setTimeout(() => socket.destroy(), 10_000);
    socket.on("connect", () => socket.write("SHUTDOWN\r\n"));
    socket.on("error", () => {
      // Already gone; "close" follows.
    });
    socket.on("data", () => {
      // Read, so that the end is seen.
    });
    socket.on("close", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Whether a process with that id exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
