import { describe, expect, test } from "vitest";
import { parseStart } from "../../src/bullmq/start-contract.ts";
import { runIdSchema } from "../../src/core/new-run.ts";

const payload = { agent: "assistant", input: "hello" };

function rejection(job: Parameters<typeof parseStart>[0], options?: Parameters<typeof parseStart>[1]) {
  const parsed = parseStart(job, options);
  if (!("rejected" in parsed)) throw new Error("the job was taken");
  return parsed.rejected;
}

describe("start jobs", () => {
  test("a job that keeps the contract gives run id and payload", () => {
    expect(parseStart({ id: "order-42", name: "start", data: payload })).toEqual({ runId: "order-42", payload });
  });

  test.each([
    ["a missing field", { input: "hello" }, "agent: expected string, received nothing."],
    ["a wrong type", { agent: 7, input: "hello" }, "agent: expected string, received 7."],
    ["too short a text", { agent: "", input: "hello" }, 'agent: expected at least 1 characters, received "".'],
    ["an unknown field", { ...payload, prio: 1 }, 'data: expected no unknown field, received "prio".'],
    ["no object", "hello", 'data: expected object, received "hello".'],
    ["a list", [payload], "data: expected object, received a list of 1."],
    ["nothing", null, "data: expected object, received null."],
    ["an input of no known form", { agent: "a", input: 5 }, "input: expected string or array, received 5."],
    [
      "a message of a role that may not come in",
      { agent: "a", input: [{ role: "robot", content: "x" }] },
      'input.0.role: expected "system" or "developer" or "user" or "assistant" or "tool", received "robot".',
    ],
    [
      "a result of no call",
      { agent: "a", input: [{ role: "tool", toolCallId: "a", content: "x" }] },
      "input.0: expected the result of the call before it, received an object.",
    ],
    [
      "a limit out of bounds",
      { ...payload, limits: { maxTurns: 0 } },
      "limits.maxTurns: expected at least 1, received 0.",
    ],
    [
      "an interruption of no session",
      { ...payload, whenBusy: "inject" },
      "session: expected the id of a session, since whenBusy is given, received nothing.",
    ],
    [
      "a malformed trace context",
      { ...payload, traceparent: "00-xyz" },
      'traceparent: expected a W3C traceparent, received "00-xyz".',
    ],
  ])("%s is rejected with field, expected and received", (_name, data, reason) => {
    expect(rejection({ id: "run-a", name: "start", data })).toMatchObject({ runId: "run-a", reason });
  });

  test("all that is wrong is said at once", () => {
    const { reason } = rejection({ id: "17", name: "begin", data: { agent: 1, input: "x", extra: true } });
    for (const part of ["job name", "job id", "agent", '"extra"']) expect(reason).toContain(part);
  });

  test("the agent is told when it can be read", () => {
    expect(rejection({ id: "run-a", name: "start", data: { ...payload, input: 1 } }).agent).toBe("assistant");
    expect(rejection({ id: "run-a", name: "start", data: { agent: { a: 1 } } }).agent).toBeUndefined();
  });

  test("what was received is shown short, and no object's content", () => {
    const secret = "s3cret".repeat(1_000);
    const long = rejection({ id: "run-a", name: "start", data: { agent: secret, input: "x" } }).reason;
    expect(long.length).toBeLessThan(200);
    const hidden = rejection({ id: "run-a", name: "start", data: { agent: { key: "s3cret" }, input: "x" } }).reason;
    expect(hidden).toBe("agent: expected string, received an object.");
  });

  test.each([undefined, "", "17", "a b", "a/b", "ä", "x".repeat(500), "-"])(
    "the job id %j gets a record id of its own that is a run id",
    (id) => {
      const { runId, reason } = rejection({ id, name: "start", data: payload });
      expect(runIdSchema.safeParse(runId).success).toBe(true);
      expect(runId.startsWith("job-")).toBe(true);
      expect(reason).toContain("job id: expected 1 to 128 letters");
    },
  );

  test("ids that look alike when made safe stay apart", () => {
    const ids = ["a b", "a/b", "a-b?"].map((id) => rejection({ id, name: "start", data: payload }).runId);
    expect(new Set(ids).size).toBe(3);
  });

  test("the limit counts UTF-8 bytes of the JSON", () => {
    const data = { agent: "a", input: "ä".repeat(100) };
    const bytes = Buffer.byteLength(JSON.stringify(data));
    expect(bytes).toBeGreaterThan(JSON.stringify(data).length);
    expect("payload" in parseStart({ id: "run-a", name: "start", data }, { maxPayloadBytes: bytes })).toBe(true);
    const { reason, agent } = rejection({ id: "run-a", name: "start", data }, { maxPayloadBytes: bytes - 1 });
    expect(reason).toBe(`data: expected at most ${bytes - 1} bytes of JSON, received ${bytes} bytes.`);
    expect(agent).toBe("a");
  });

  test("one mebibyte is the limit when none is given", () => {
    const fits = { agent: "a", input: "x".repeat(1_048_576 - 25) };
    expect(Buffer.byteLength(JSON.stringify(fits))).toBeLessThanOrEqual(1_048_576);
    expect("payload" in parseStart({ id: "run-a", name: "start", data: fits })).toBe(true);
    const over = { agent: "a", input: "x".repeat(1_048_576) };
    expect(rejection({ id: "run-a", name: "start", data: over }).reason).toContain("1048576 bytes");
  });
});
