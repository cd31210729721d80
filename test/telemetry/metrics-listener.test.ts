import { expect, onTestFinished, test } from "vitest";
import { type Served, serveMetrics } from "../../src/telemetry/metrics-listener.ts";

const well: Served["health"] = async () => ({ live: true, ready: true });

async function serve(render: () => Promise<string>, health = well): Promise<string> {
  const listener = await serveMetrics({ render, health }, { port: 0 });
  onTestFinished(() => listener.close());
  return listener.url;
}

test("answers /metrics in Prometheus's type, and nothing else", async () => {
  const url = await serve(async () => "up 1\n");
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await answer.text()).toBe("up 1\n");
  expect((await fetch(new URL("/", url))).status).toBe(404);
  expect((await fetch(url, { method: "POST" })).status).toBe(405);
});

test("what cannot be read is 500, without a reason", async () => {
  const url = await serve(async () => {
    throw new Error("secret");
  });
  const answer = await fetch(url);
  expect([answer.status, await answer.text()]).toEqual([500, ""]);
});

test("a port that is taken is told in words", async () => {
  const { port } = new URL(await serve(async () => ""));
  await expect(serveMetrics({ render: async () => "", health: well }, { port: Number(port) })).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringMatching(
      /^Metrics cannot be served on 127\.0\.0\.1:\d+: .*EADDRINUSE.*Choose another port\.$/,
    ),
  });
});

test("tells a supervisor whether to start it again, and whether it can work, with the reason", async () => {
  const ask = async (url: string, path: string): Promise<[number, unknown]> => {
    const answer = await fetch(new URL(path, url));
    return [answer.status, await answer.json()];
  };
  const ok = [200, { status: "ok" }];
  const good = await serve(async () => "");
  expect([await ask(good, "/healthz"), await ask(good, "/readyz")]).toEqual([ok, ok]);
  const away = await serve(
    async () => "",
    async () => ({ live: true, ready: false, reason: "Redis is away" }),
  );
  const notReady = [503, { status: "not ready", reason: "Redis is away" }];
  expect([await ask(away, "/healthz"), await ask(away, "/readyz")]).toEqual([ok, notReady]);
  const stuck = await serve(
    async () => "",
    async () => ({ live: false, ready: false, reason: "it takes nothing" }),
  );
  expect(await ask(stuck, "/healthz")).toEqual([503, { status: "stuck", reason: "it takes nothing" }]);
});
