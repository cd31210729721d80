// Whatever a model, a tool, a producer or a person wrote, on no page is it anything but text.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runStatuses } from "../../../src/core/run.ts";
import { renderApprovals } from "../../../src/http/pages/approvals-view.ts";
import { asksOf } from "../../../src/http/pages/asks.ts";
import { renderFleet } from "../../../src/http/pages/fleet-view.ts";
import type { Html } from "../../../src/http/pages/html.ts";
import { layout } from "../../../src/http/pages/layout.ts";
import { renderRun } from "../../../src/http/pages/run-view.ts";
import { renderRuns } from "../../../src/http/pages/runs-view.ts";
import { renderSession } from "../../../src/http/pages/session-view.ts";
import { renderWindow } from "../../../src/http/pages/turn-view.ts";
import { diffWindow } from "../../../src/http/pages/window-diff.ts";
import type { FleetView } from "../../../src/ports.ts";
import { at, caller, run, runData, turn } from "./fixtures.ts";

const fleet: FleetView = {
  at,
  redis: { version: "8", usedMemoryBytes: 1, clients: 1, roundTripMs: 1 },
  workers: [
    {
      id: "w",
      host: "h",
      pid: 1,
      version: "1",
      startedAt: 0,
      seenAt: at,
      queues: ["q"],
      concurrency: 1,
      running: 1,
      agents: ["a"],
    },
  ],
  agents: [{ name: "a", model: "m", tools: ["t"], version: "v", seenAt: at }],
  queues: [{ name: "q", waiting: 1, active: 0, delayed: 0, oldestAgeMs: 5, workers: 0 }],
  gates: [{ key: "k", kind: "tool", name: "t", inside: 1, waiting: 2 }],
  counts: { queued: 1, running: 1, waiting: 1, paused: 1, completed: 1, failed: 1, cancelled: 1, rejected: 1 },
  owing: { count: 1, oldestSince: 0 },
};

/** Words that choose how something is shown: they come from us. */
const ours: ReadonlySet<string> = new Set([
  ...[
    "status",
    "stopReason",
    "kind",
    "outcome",
    "role",
    "type",
    "state",
    "effect",
    "callId",
    "origin",
    "action",
    "from",
  ],
]);

/** Names that are bounded where they come in. */
const bounded: ReadonlySet<string> = new Set(["runId", "agent", "session", "tool", "name", "tenant", "behind", "by"]);

/** The same data with this text in every field that can hold one. */
function poisoned<T>(value: T, text: string, name = ""): T {
  if (typeof value === "string") return (ours.has(name) ? value : bounded.has(name) ? text.slice(0, 128) : text) as T;
  if (Array.isArray(value)) return value.map((item) => poisoned(item, text, name)) as T;
  if (typeof value !== "object" || value === null || value instanceof Set) return value;
  const fields = Object.entries(value).map(([key, field]) => [key, poisoned(field, text, key)]);
  return Object.fromEntries(fields) as T;
}

const counts = Object.fromEntries(runStatuses.map((status) => [status, 1])) as FleetView["counts"];
const fields = { status: "", agent: "", session: "", metadata: "", since: "", until: "", id: "", cursor: "" };

/** Every page, made of data that holds nothing but this text. */
function pagesOf(text: string): Record<string, Html> {
  const evil = <T>(value: T): T => poisoned(value, text);
  const view = evil(run);
  const short = text.slice(0, 500);
  const request = evil(turn.request);
  const rows = request ? diffWindow(request, evil(turn.input)) : [];
  const window = request && {
    runId: short,
    view: evil(turn),
    turns: 9,
    request,
    rows,
    first: 1,
    total: 9,
    pageSize: 60,
  };
  const list = { fields: poisoned(fields, short), problems: [text], counts, next: short, agents: [text], now: at };
  const pages: Record<string, Html> = {
    runs: renderRuns({
      ...list,
      rows: [{ run: view, goal: text }, { run: { ...view, status: "failed", waitingFor: undefined } }],
    }),
    "no runs": renderRuns({ ...list, rows: [], next: undefined }),
    run: renderRun(evil(runData)),
    "failed run": renderRun(
      evil({ ...runData, run: { ...run, status: "failed", ahead: undefined, openCalls: [], endedAt: at } }),
    ),
    approvals: renderApprovals({ asks: asksOf(view), caller: evil(caller), now: at, more: true }),
    session: renderSession({
      id: short,
      runs: [view],
      cursor: short,
      messages: evil(turn.input),
      first: 0,
      total: 9,
      pageSize: 3,
      now: at,
    }),
    fleet: renderFleet(evil(fleet), true),
    ...(window ? { window: renderWindow(window) } : {}),
  };
  return Object.fromEntries(
    Object.entries(pages).map(([name, main]) => [
      name,
      layout({ title: text, main, caller: { ...caller, name: text } }),
    ]),
  );
}

const attacks = {
  script: "<script>alert(1)</script>",
  "an attribute's end": `"'><img src=x onerror=alert(1)>`,
  "a comment": "<!--><svg onload=alert(1)>--!>",
  entities: "&lt;script&gt;&#60;b&#62;",
  "an address that runs": "javascript:alert(1)//",
  templates: "${alert(1)} {{7*7}} <%= 1 %>",
  "a terminal's escape": "\u001b[2J\u001b]0;owned\u0007\u0000\u009b31m",
  "turned writing": "\u202egpj.exe\u202c\u2066\u2069\u200b\ufeff",
};

const tags = /<\/?([a-zA-Z][^\s/>]*)([^>]*)>/g;
/** Elements that the pages are made of. */
const known = new Set(
  "html head meta title link script body a header img nav ul li main p div h1 h2 h3 span form input button label datalist option select textarea section article table thead tbody tr th td dl dt dd details summary pre code svg rect circle path time ol strong".split(
    " ",
  ),
);

/** What on a page is not as it was meant to be. */
function problemsOf(page: string): string[] {
  const found = (page.match(/<script/g) ?? []).length === 1 ? [] : ["a script"];
  for (const [tag, name = "", attributes = ""] of page.matchAll(tags)) {
    const names = attributes.replaceAll(/"[^"]*"/g, "");
    const isMeant = known.has(name) && !/\b(?:on\w+|style|srcdoc)\b|['"`]/i.test(names);
    if (!isMeant || /\s(?:href|src|action)="(?!\/|#|https:\/\/traces)/.test(attributes)) found.push(tag);
  }
  // What was told of it is its code point.
  if (/(?!\n)[\p{Cc}\u200b\u202a-\u202e\u2066-\u2069\ufeff]/u.test(page)) found.push("a character that hides");
  return found;
}

describe("hostile content is text on every page", () => {
  test.each(Object.entries(attacks))("%s", (_, text) => {
    for (const [name, page] of Object.entries(pagesOf(text)))
      expect([name, ...problemsOf(String(page))]).toEqual([name]);
  });

  test("any text", () => {
    const nasty = fc.array(fc.constantFrom(...Object.values(attacks), "<", ">", '"', "'", "`", "&", "\n", "a"), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(nasty, (pieces) => {
        for (const page of Object.values(pagesOf(pieces.join("")))) expect(problemsOf(String(page))).toEqual([]);
      }),
      { numRuns: 40 },
    );
  });

  test("a text of 1 MB in every field makes no page that a browser could not show", () => {
    const pages = pagesOf("<b>&".repeat(262_144));
    // Four characters that must be escaped take 16: this is 10 texts of the most that is shown of one.
    const tooLarge = Object.entries(pages).filter(([, page]) => String(page).length > 4_000_000);
    expect(tooLarge.map(([name]) => name)).toEqual([]);
  });
});
