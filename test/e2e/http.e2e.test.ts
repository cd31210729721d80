// Catches: a client over a bad network that starts two runs, decides twice, or loses a part of what it watches.
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { turnOf } from "../support/fake-openai.ts";
import { json } from "../support/http.ts";
import { startHttpServer } from "../support/http-server.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { openSse, type SseEvent } from "../support/sse-client.ts";
import { makeWorld, type World } from "../support/world.ts";

type Client = {
  /** Asks, and asks again when the connection is lost, as a client does that names what it wants. */
  ask(path: string, init?: RequestInit): Promise<{ status: number; body: Record<string, unknown> }>;
  /** Loses the reply to the next request that holds this text. */
  loseReplyTo(text: string): void;
  lost(): number;
  url: string;
  headers: Record<string, string>;
};

async function connect(world: World): Promise<Client> {
  const { url, key } = await startHttpServer({ redis: world.options.redisUrl, prefix: world.prefix });
  const relay = await startLossyRelay(url);
  onTestFinished(() => relay.close());
  const base = relay.url.replace("redis:", "http:");
  const headers = { authorization: `Bearer ${key}`, connection: "close" };
  const ask: Client["ask"] = async (path, init = {}) => {
    try {
      const response = await fetch(`${base}${path}`, { ...init, headers: { ...headers, ...(init.headers as object) } });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    } catch {
      return ask(path, init);
    }
  };
  return { ask, loseReplyTo: relay.loseReplyTo, lost: relay.lost, url: base, headers };
}

/** Watches a run to its end, cut after so many events each time. */
async function watchInPieces(client: Client, runId: string, piece: number): Promise<SseEvent[]> {
  const all: SseEvent[] = [];
  while (all.at(-1)?.event !== "run_ended") {
    let count = 0;
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const stream = openSse(`${client.url}/runs/${runId}/events`, {
      after: all.at(-1)?.id,
      headers: client.headers,
      onEvent(event) {
        if (count >= piece) return;
        count += 1;
        all.push(event);
        if (count === piece) resolve();
      },
    });
    await Promise.race([enough, stream.ended]);
    stream.cut();
  }
  return all;
}

describe("a plain HTTP client whose replies get lost", () => {
  test("starts one run, watches it in pieces, decides once and reads the result", async () => {
    const world = await makeWorld({
      respond: ({ body }) =>
        turnOf(body) === 1
          ? {
              deltas: ["I will ", "pay ", "the bill ", "now."],
              chunkDelayMs: 30,
              toolCalls: [{ name: "pay", arguments: { note: "bill" } }],
            }
          : { deltas: ["Paid, ", "all ", "is ", "well."], chunkDelayMs: 30 },
    });
    await world.work();
    const client = await connect(world);
    client.loseReplyTo("POST /runs ");
    const key = { "idempotency-key": "pay-the-bill" };
    const started = await client.ask("/runs", json({ agent: "e2e", input: "pay" }, key));
    expect([started.status, client.lost()]).toEqual([200, 1]);
    const runId = String(started.body.runId);
    const watching = watchInPieces(client, runId, 3);
    const [call] = await eventually(async () => {
      const { body } = await client.ask(`/runs/${runId}`);
      const calls = body.openCalls as { callId: string; argumentsHash: string }[];
      return calls.length > 0 ? calls : undefined;
    });
    client.loseReplyTo("/approve ");
    const decision = { "idempotency-key": "yes-1" };
    const approved = await client.ask(
      `/runs/${runId}/calls/${call?.callId}/approve`,
      json({ argumentsHash: call?.argumentsHash }, decision),
    );
    expect([approved.status, client.lost()]).toEqual([200, 2]);
    const events = await watching;
    const { body: result } = await client.ask(`/runs/${runId}/result?waitMs=10000`);
    expect(result).toMatchObject({ status: "completed", output: "Paid, all is well." });
    const data = events.map((event) => JSON.parse(event.data) as { seq: number; text?: string; turn: number });
    const committed = data.filter((_, index) => !events[index]?.event.startsWith("text"));
    expect(committed.map(({ seq }) => seq)).toEqual(committed.map((_, index) => index + 1));
    const said = (turn: number): string =>
      data.map((event) => (event.turn === turn ? (event.text ?? "") : "")).join("");
    expect([said(1), said(2)]).toEqual(["I will pay the bill now.", "Paid, all is well."]);
    expect(world.ledger.entries()).toHaveLength(1);
    const { runs } = (await client.ask("/runs")).body as { runs: unknown[] };
    expect(runs).toHaveLength(1);
    const { entries } = (await client.ask(`/runs/${runId}/audit`)).body as {
      entries: { by: string; action: string }[];
    };
    expect(entries.filter(({ action }) => action === "approved")).toMatchObject([{ by: "ann" }]);
  });
});
