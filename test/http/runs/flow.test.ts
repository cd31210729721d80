// Catches: an API that starts, shows and tells of runs in another way than it says.
import { describe, expect, test } from "vitest";
import { defineAgent } from "../../../src/define-agent.ts";
import { scriptedModel } from "../../../src/testing/scripted-model.ts";
import { createTestHttp, json } from "../../support/http.ts";

const greeter = () => defineAgent({ name: "greeter", instructions: "Greet.", model: scriptedModel(["hello there"]) });

describe.each([{ redis: false }, { redis: true }])("over %o", ({ redis }) => {
  test("a run is started, watched to its end and shown", async () => {
    const http = await createTestHttp({ agents: [greeter()], redis });
    const started = await http.fetch("/runs", json({ agent: "greeter", input: "hi", runId: "r-1" }));
    expect(started.status).toBe(201);
    expect(started.headers.get("location")).toBe("/runs/r-1");
    const events = await http.fetch("/runs/r-1/events");
    expect(events.headers.get("content-type")).toContain("text/event-stream");
    const text = await events.text();
    const types = [...text.matchAll(/^event: (.+)$/gm)].map(([, type]) => type);
    expect(types).toEqual(["run_created", "run_began", "text", "model_answered", "run_ended"]);
    const shown = await http.fetch("/runs/r-1");
    expect(await shown.json()).toMatchObject({ runId: "r-1", status: "completed" });
  });
});
