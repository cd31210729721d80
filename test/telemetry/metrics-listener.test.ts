import { expect, onTestFinished, test } from "vitest";
import { serveMetrics } from "../../src/telemetry/metrics-listener.ts";

async function serve(render: () => Promise<string>): Promise<string> {
  const listener = await serveMetrics(render, { port: 0 });
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
  await expect(serveMetrics(async () => "", { port: Number(port) })).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringMatching(
      /^Metrics cannot be served on 127\.0\.0\.1:\d+: .*EADDRINUSE.*Choose another port\.$/,
    ),
  });
});
