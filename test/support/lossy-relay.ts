import { connect, createServer, type Socket } from "node:net";

export type LossyRelay = {
  url: string;
  /**
   * Lets the next request that holds `text` through, and cuts the connection instead of passing on the reply.
   *
   * @param how.alone what was sent before that command in one go is answered first; `how.times` default 1.
   */
  loseReplyTo(text: string, how?: { alone?: boolean; times?: number }): void;
  /**
   * Replaces bytes of requests by as many others, in so many of them (default: all that come); the returned function
   * ends it.
   */
  rewrite(from: RegExp, to: string, times?: number): () => void;
  /** How many replies were lost. */
  lost(): number;
  /** How many requests were rewritten. */
  rewritten(): number;
  /** From now on new connections go to this server; those that are open are cut, or kept. */
  moveTo(url: string, how?: { keep?: boolean }): void;
  /** Connections fall silent, in both directions, once they send a request that holds `text`. */
  silenceAfter(text: string): void;
  close(): Promise<void>;
};

type Loss = { text: string; alone: boolean; left: number };
type Rewriting = { from: RegExp; to: string; left: number };
type State = {
  host: string;
  port: number;
  loss: Loss | undefined;
  rewritings: Rewriting[];
  lost: number;
  rewritten: number;
  silencing: string | undefined;
};

/** A relay in front of Redis that loses replies: what a network does to a commit at the worst moment. */
export async function startLossyRelay(url: string): Promise<LossyRelay> {
  const sockets = new Set<Socket>();
  const state: State = {
    ...toAddress(url),
    loss: undefined,
    rewritings: [],
    lost: 0,
    rewritten: 0,
    silencing: undefined,
  };
  const server = createServer((client) => {
    const upstream = connect(state.port, state.host);
    const pair = [client, upstream];
    for (const socket of pair) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        for (const other of pair) other.destroy();
        sockets.delete(socket);
      });
    }
    relay(client, upstream, state);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address() as { port: number };
  return {
    url: `redis://127.0.0.1:${address.port}`,
    loseReplyTo(text, { alone = false, times = 1 } = {}) {
      state.loss = { text, alone, left: times };
    },
    rewrite(from, to, times = Number.POSITIVE_INFINITY) {
      const rewriting = { from, to, left: times };
      state.rewritings.push(rewriting);
      return () => {
        state.rewritings = state.rewritings.filter((other) => other !== rewriting);
      };
    },
    lost: () => state.lost,
    rewritten: () => state.rewritten,
    moveTo(other, { keep = false } = {}) {
      Object.assign(state, toAddress(other));
      if (!keep) for (const socket of sockets) socket.destroy();
    },
    silenceAfter(text) {
      state.silencing = text;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function toAddress(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

function relay(client: Socket, upstream: Socket, state: State): void {
  let cut = false;
  let silent = false;
  /** The request whose reply will be lost, kept until what came before it is answered. */
  let kept: Buffer | undefined;
  client.on("data", (given) => {
    const data = rewriteIn(given, state);
    silent ||= state.silencing !== undefined && data.includes(state.silencing);
    if (silent) return;
    if (kept) kept = Buffer.concat([kept, data]);
    else if (state.loss && data.includes(state.loss.text)) {
      const { text, alone } = state.loss;
      state.loss.left -= 1;
      if (state.loss.left === 0) state.loss = undefined;
      const at = alone ? startOfCommand(data, text) : 0;
      if (at === 0) {
        cut = true;
        upstream.write(data);
      } else {
        upstream.write(data.subarray(0, at));
        kept = data.subarray(at);
      }
    } else upstream.write(data);
  });
  upstream.on("data", (data) => {
    if (silent) return;
    if (cut) {
      state.lost += 1;
      client.destroy();
      return;
    }
    client.write(data);
    if (!kept) return;
    cut = true;
    upstream.write(kept);
    kept = undefined;
  });
}

/** Where the command that holds this text begins: `*<number of arguments>` at the beginning of a line. */
function startOfCommand(data: Buffer, text: string): number {
  const before = data.subarray(0, data.indexOf(text)).toString("latin1");
  const [last] = [...before.matchAll(/(?<=^|\r\n)\*\d+\r\n\$\d+\r\n[a-z]/gi)].slice(-1);
  return last?.index ?? 0;
}

function rewriteIn(data: Buffer, state: State): Buffer {
  let text = state.rewritings.length === 0 ? "" : data.toString("latin1");
  for (const rewriting of state.rewritings) {
    if (rewriting.left <= 0 || !rewriting.from.test(text)) continue;
    rewriting.left -= 1;
    state.rewritten += 1;
    text = text.replace(rewriting.from, rewriting.to);
  }
  if (text === "") return data;
  if (text.length !== data.length) throw new Error("a rewritten request must keep its length");
  return Buffer.from(text, "latin1");
}
