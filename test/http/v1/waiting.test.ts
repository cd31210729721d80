// Catches: an answer that is long in coming and taken for dead, and a client that goes away and takes its run with it.
import { expect, test } from "vitest";
import { json } from "../../support/http.ts";
import { createV1Test, gate, makeAgent } from "./support.ts";

const settings = { heartbeatMs: 10 };

test("an answer that is long in coming begins with blanks and ends as JSON", async () => {
  const held = gate();
  const { http } = await createV1Test({ agents: [makeAgent([held.before("Hello.")])], settings });
  const response = await http.fetch("/v1/responses", json({ model: "helper", input: "hi" }));
  expect(response.headers.get("content-type")).toContain("application/json");
  const reader = response.body?.getReader();
  expect(new TextDecoder().decode((await reader?.read())?.value)).toBe(" ");
  held.open();
  let text = "";
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    text += new TextDecoder().decode(piece.value);
  }
  expect(JSON.parse(text)).toMatchObject({ status: "completed", output: [{ content: [{ text: "Hello." }] }] });
});

test("a quiet stream is kept open by comments", async () => {
  const held = gate();
  const { http } = await createV1Test({ agents: [makeAgent([held.before("Hello.")])], settings });
  const response = await http.fetch("/v1/responses", json({ model: "helper", input: "hi", stream: true }));
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes(": ping")) text += (await reader?.read())?.value ?? "";
  held.open();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) text += piece.value;
  expect(text.replaceAll(": ping\n\n", "")).toMatch(/^event: response\.created\ndata: \{.*\}\n\n/);
  expect(text).toContain("event: response.completed");
});

test("whoever goes away stops nothing", async () => {
  const held = gate();
  const { http } = await createV1Test({ agents: [makeAgent([held.before("Hello.")])], settings });
  const gone = [{ stream: true }, {}].map(async (more) => {
    const response = await http.fetch("/v1/responses", json({ model: "helper", input: "hi", ...more }));
    await response.body?.cancel();
    return response.headers.get("x-drover-run-id") ?? "";
  });
  const ids = await Promise.all(gone);
  held.open();
  for (const id of ids) expect(await http.drover.get(id).result()).toMatchObject({ status: "completed" });
});
