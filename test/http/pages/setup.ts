import { expect } from "vitest";
import type { RunStatus } from "../../../src/core/run.ts";
import type { StartOptions } from "../../../src/engine/client.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestHttp, type TestHttp, type TestHttpOptions } from "../../support/http.ts";
import { pageAgents } from "../../support/page-agents.ts";

export const open = (options: Partial<TestHttpOptions> = {}): Promise<TestHttp> =>
  createTestHttp({ agents: pageAgents(), ...options });

/** Starts a run, and resolves when it is in that state. */
export async function start(
  http: TestHttp,
  [runId, input, until]: [runId: string, input: string, until: RunStatus],
  options: StartOptions = {},
): Promise<void> {
  await http.drover.start("tester", input, { runId, by: "test", ...options });
  await eventually(async () => (await http.drover.get(runId).status()).status === until || undefined);
}

export const html = { accept: "text/html" };
export const read = async (http: TestHttp, path: string): Promise<string> => {
  const response = await http.fetch(path, { headers: html });
  expect([path, response.status]).toEqual([path, 200]);
  expect(response.headers.get("content-type")).toContain("text/html");
  return response.text();
};

/** What a browser sends when somebody uses the form with this action. */
export async function submit(
  http: TestHttp,
  page: string,
  action: string,
  fields: Record<string, string> = {},
): Promise<Response> {
  const form = new RegExp(`<form[^>]*action="${RegExp.escape(action)}"[^>]*>([\\s\\S]*?)</form>`).exec(page)?.[1];
  if (form === undefined) throw new Error(`no form ${action}`);
  const hidden = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)];
  const body = new URLSearchParams([
    ...hidden.map(([, name = "", value = ""]): [string, string] => [name, value]),
    ...Object.entries(fields),
  ]);
  return http.fetch(action, { method: "POST", body, headers: { ...html, origin: "http://localhost" } });
}
