/** What a client of Redis has that ending it for good needs; one of a cluster has it too. */
type Client = { status: string; connect(): Promise<unknown>; disconnect(): void };

/**
 * A client between two attempts to connect never says that it ended, and keeps its commands: it is sent into one first.
 * The attempt has its socket by the next turn of the event loop.
 */
export async function revive(client: Client): Promise<void> {
  if (client.status !== "reconnecting") return;
  client.connect().catch(() => undefined);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * For good: BullMQ, which was just about to get a lost connection back when its worker was closed, connects a client that
 * ended once more, and that would keep the process up for ever.
 */
export async function endClient(client: Client): Promise<void> {
  await revive(client);
  client.connect = () => Promise.reject(new Error("Connection is closed."));
  if (client.status !== "end") client.disconnect(); // one that ended would hold the process for a while
}
