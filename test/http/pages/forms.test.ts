// What the forms of the pages do, without a script.
import { describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { html, open, read, start, submit } from "./setup.ts";

describe("forms", () => {
  test("approve lets the call run, bound to its arguments, once however often it is sent", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const inbox = await read(http, "/ui/approvals");
    expect(inbox).toContain("Pay 12 euros for the cat");
    const action = "/ui/runs/run-a/calls/call-1-1/approve";
    const response = await submit(http, inbox, action);
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toBe("/ui/approvals?notice=approved");
    await http.drover.get("run-a").result({ timeoutMs: 10_000 });
    expect((await submit(http, inbox, action)).status).toBe(303);
    expect(await http.drover.get("run-a").transcript()).toContainEqual(expect.objectContaining({ content: "paid 12" }));
    expect(await read(http, "/ui/approvals?notice=approved")).toContain("Approved. The call is on its way.");
  });

  test("a paused run's question is still among those that wait for somebody", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    await http.drover.get("run-a").pause({ by: "ben" });
    const inbox = await read(http, "/ui/approvals");
    expect(inbox).toContain("Pay 12 euros for the cat");
    expect((await submit(http, inbox, "/ui/runs/run-a/calls/call-1-1/approve")).status).toBe(303);
    await http.drover.get("run-a").resume({ by: "ben" });
    expect(await http.drover.get("run-a").result({ timeoutMs: 10_000 })).toMatchObject({ status: "completed" });
  });

  test("deny tells the model the reason", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const page = await read(http, "/ui/runs/run-a");
    const response = await submit(http, page, "/ui/runs/run-a/calls/call-1-1/deny", { reason: "too expensive" });
    expect(response.headers.get("location")).toBe("/ui/runs/run-a?notice=denied");
    await http.drover.get("run-a").result({ timeoutMs: 10_000 });
    expect(JSON.stringify(await http.drover.get("run-a").transcript())).toContain("too expensive");
  });

  test("whoever comes second is told who decided what", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const page = await read(http, "/ui/approvals");
    await http.drover.get("run-a").deny("call-1-1", { by: "ben", reason: "no" });
    const response = await submit(http, page, "/ui/runs/run-a/calls/call-1-1/approve");
    expect(response.status).toBe(409);
    const told = await response.text();
    expect(told).toContain("This was settled meanwhile");
    expect(told).toContain("ben denied it already");
    expect(told).toContain('href="/ui/approvals"');
  });

  test("an approval of other arguments is refused", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const page = await read(http, "/ui/approvals");
    const changed = page.replace(/name="argumentsHash" value="[^"]+"/, 'name="argumentsHash" value="0000"');
    expect((await submit(http, changed, "/ui/runs/run-a/calls/call-1-1/approve")).status).toBe(409);
    expect((await http.drover.get("run-a").status()).status).toBe("waiting");
  });

  test("a question is answered", async () => {
    const http = await open();
    await start(http, ["run-a", "ask", "waiting"]);
    const inbox = await read(http, "/ui/approvals");
    expect(inbox).toContain("Which address?");
    const response = await submit(http, inbox, "/ui/runs/run-a/calls/call-1-1/answer", { value: "the office" });
    expect(response.headers.get("location")).toBe("/ui/approvals?notice=answered");
    await http.drover.get("run-a").result({ timeoutMs: 10_000 });
    expect(JSON.stringify(await http.drover.get("run-a").transcript())).toContain("the office");
    const answer = (value: string): Promise<Response> =>
      submit(http, inbox, "/ui/runs/run-a/calls/call-1-1/answer", { value });
    expect((await answer("the office")).status).toBe(303);
    expect((await answer("at home")).status).toBe(409);
  });

  test("cancel ends a run with the reason; again, it is told that it had ended", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const page = await read(http, "/ui/runs/run-a");
    const cancel = (): Promise<Response> => submit(http, page, "/ui/runs/run-a/cancel", { reason: "not needed" });
    expect((await cancel()).headers.get("location")).toBe("/ui/runs/run-a?notice=cancelled");
    expect((await cancel()).headers.get("location")).toBe("/ui/runs/run-a?notice=ended-before");
    const ended = await read(http, "/ui/runs/run-a");
    expect(ended).toContain("not needed");
    expect(ended).not.toContain('action="/ui/runs/run-a/cancel"');
  });

  test("retry goes on with wider limits, and tells which of them is none", async () => {
    const http = await open();
    await start(http, ["run-a", "loop", "failed"], { limits: { maxTurns: 2 } });
    const page = await read(http, "/ui/runs/run-a");
    const wrong = await submit(http, page, "/ui/runs/run-a/retry", { maxTurns: "many" });
    expect(wrong.status).toBe(400);
    expect(await wrong.text()).toContain("Turns: expected a whole number above 0, got &quot;many&quot;");
    const response = await submit(http, page, "/ui/runs/run-a/retry", { maxTurns: "4", maxTokens: "" });
    expect(response.headers.get("location")).toBe("/ui/runs/run-a?notice=retried");
    await eventually(async () => (await http.drover.get("run-a").status()).turns === 4 || undefined);
    expect((await submit(http, page, "/ui/runs/run-a/retry", { maxTurns: "5" })).status).toBeLessThan(500);
  });

  test("input is sent once, however often the form is", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const page = await read(http, "/ui/runs/run-a");
    for (let time = 0; time < 2; time += 1) {
      const response = await submit(http, page, "/ui/runs/run-a/send", { text: "make it 13" });
      expect(response.headers.get("location")).toBe("/ui/runs/run-a?notice=sent");
    }
    // Other words from a page that was not loaded again are another input.
    await submit(http, page, "/ui/runs/run-a/send", { text: "no, 14" });
    await http.drover.get("run-a").deny("call-1-1");
    await http.drover.get("run-a").result({ timeoutMs: 10_000 });
    const messages = await http.drover.get("run-a").transcript();
    const sent = messages.map(({ content }) => content).filter((content) => /13|14/.test(String(content)));
    expect(sent).toEqual(["make it 13", "no, 14"]);
    const empty = await submit(http, page, "/ui/runs/run-a/send", { text: "  " });
    expect(empty.status).toBe(400);
  });

  test("what the run does not allow as it is is told", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const body = new URLSearchParams({ back: "/ui/runs/run-a" });
    const response = await http.fetch("/ui/runs/run-a/delete", { method: "POST", body, headers: html });
    expect(response.status).toBe(409);
    expect(await response.text()).toMatch(/Not as the run is now[\s\S]*cancel it before it is deleted/);
  });

  test("a run that has ended is deleted", async () => {
    const http = await open();
    await start(http, ["run-a", "plain", "completed"]);
    const response = await submit(http, await read(http, "/ui/runs/run-a"), "/ui/runs/run-a/delete");
    expect(response.headers.get("location")).toBe("/?notice=deleted");
    expect((await http.fetch("/ui/runs/run-a", { headers: html })).status).toBe(404);
  });

  test("no form leads away from these pages", async () => {
    const http = await open();
    const elsewhere = ["https://evil.example", "//evil.example", "/\\evil.example", "/ui/x?y", "/ui/a\nSet-Cookie: x"];
    for (const [index, back] of elsewhere.entries()) {
      await start(http, [`run-${index}`, "pay", "waiting"]);
      const body = new URLSearchParams({ back });
      const response = await http.fetch(`/ui/runs/run-${index}/cancel`, { method: "POST", body, headers: html });
      expect(response.headers.get("location")).toBe("/?notice=cancelled");
    }
  });
});

test("what is no form, or a broken one, is refused and does nothing", async () => {
  const http = await open();
  await start(http, ["run-a", "pay", "waiting"]);
  for (const [type, body] of [
    ["multipart/form-data; boundary=y", "--x"],
    ["multipart/form-data", "x"],
    ["application/json", "{}"],
    ["text/plain", "reason=x"],
  ] as const) {
    const headers = { ...html, "content-type": type, origin: "http://localhost" };
    const { status } = await http.fetch("/ui/runs/run-a/cancel", { method: "POST", headers, body });
    expect([type, status]).toEqual([type, 415]);
  }
  expect((await http.drover.get("run-a").status()).status).toBe("waiting");
});

test("a retry sent twice from a page is one, and with other limits another", async () => {
  const http = await open();
  await http.drover.start("tester", "loop", { runId: "run-a", limits: { maxTurns: 2 } });
  const end = (): Promise<{ turns: number }> => http.drover.get("run-a").result({ timeoutMs: 10_000 });
  await end();
  const page = await read(http, "/ui/runs/run-a");
  const turns: number[] = [];
  for (const maxTurns of ["3", "3", "5"]) {
    const response = await submit(http, page, "/ui/runs/run-a/retry", { maxTurns });
    expect(response.headers.get("location")).toBe("/ui/runs/run-a?notice=retried");
    turns.push((await end()).turns);
  }
  expect(turns).toEqual([3, 3, 5]);
  expect((await http.drover.get("run-a").audit()).filter(({ action }) => action === "retried")).toHaveLength(2);
});
