// Pins what users and other programs rely on. A red pin asks "did you mean to change this?"; if yes, change the literal
// here and write a release note. The expected side is always a literal.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { runStatuses, stopReasons } from "../../src/core/run.ts";
import { createKeys } from "../../src/redis/keys.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** The names a file exports by list, types marked. A wildcard shows as "*", so that it breaks the pin. */
function exportsOf(path: string): string[] {
  const lists = read(path).matchAll(/^export\s+(?<type>type\s+)?(?:\{(?<names>[^}]*)\}|(?<wildcard>\*))/gm);
  return [...lists]
    .flatMap(({ groups }) =>
      (groups?.wildcard ?? groups?.names ?? "")
        .split(",")
        .map((name) => name.trim())
        .filter((name) => name !== "")
        .map((name) => `${groups?.type ? "type " : ""}${name}`),
    )
    .map((name) => name.replace(/^(type )?.* as /, "$1"))
    .sort();
}

/** The alternatives of a union type in the source: tags of objects, or plain literals. */
function unionOf(path: string, name: string): string[] {
  const [, rest = ""] = read(path).split(new RegExp(`^export type ${name} =`, "m"));
  const [body = ""] = rest.split(/^export /m);
  return [...body.matchAll(/^\s{2,4}\| (?:\(?\{\s*type: )?"(?<tag>\w+)"/gm)].map(({ groups }) => groups?.tag ?? "");
}

describe("public names", () => {
  test("drover", () => {
    expect(exportsOf("src/index.ts")).toEqual([
      "DroverError",
      "PermanentError",
      "RetryableError",
      "agentTool",
      "askPerson",
      "calculator",
      "createDrover",
      "currentTime",
      "defineAgent",
      "defineTool",
      "filePart",
      "httpFetch",
      "imagePart",
      "openai",
      "readFile",
      "runCommand",
      "textPart",
      "type Agent",
      "type AgentOptions",
      "type AgentToolOptions",
      "type AnsweredToolOptions",
      "type AskPersonOptions",
      "type AuditEntry",
      "type BreakerPolicy",
      "type Content",
      "type ContentPart",
      "type DescribedCall",
      "type Drover",
      "type DroverOptions",
      "type Durability",
      "type Effect",
      "type ErrorCode",
      "type FeedEntry",
      "type FilePartOptions",
      "type FleetLimits",
      "type FleetView",
      "type FollowOptions",
      "type HttpFetchOptions",
      "type ImagePartOptions",
      "type InputMessage",
      "type Limits",
      "type Logger",
      "type Message",
      "type MetricsOptions",
      "type ModelSpec",
      "type OpenAIOptions",
      "type OpenCallView",
      "type OperatorLimits",
      "type PartSource",
      "type PauseAllOptions",
      "type PausedFleet",
      "type Policy",
      "type PolicyRule",
      "type RateLimit",
      "type ReadFileOptions",
      "type RedactionOptions",
      "type Retention",
      "type RetryPolicy",
      "type RunCommandOptions",
      "type RunFeedEvent",
      "type RunHandle",
      "type RunList",
      "type RunResult",
      "type RunStatus",
      "type RunView",
      "type SessionHandle",
      "type StartOptions",
      "type StopReason",
      "type Tool",
      "type ToolCall",
      "type ToolContext",
      "type ToolOptions",
      "type ToolSpec",
      "type TurnPage",
      "type TurnView",
      "type Usage",
      "type WorkOptions",
      "type WorkerHandle",
      "type WorkerHealth",
      "type WriteFileOptions",
      "writeFile",
    ]);
  });

  test("drover/server", () => {
    expect(exportsOf("src/server.ts")).toEqual([
      "createDroverServer",
      "type DroverServer",
      "type DroverServerOptions",
      "type ListenOptions",
    ]);
  });

  test("drover/testing", () => {
    expect(exportsOf("src/testing/index.ts")).toEqual([
      "Crashed",
      "crashAt",
      "createFaults",
      "createMemoryDrover",
      "createMemoryGates",
      "createMemoryRunStore",
      "createMemorySignals",
      "createMemoryStepQueue",
      "manualClock",
      "recordEffect",
      "scriptedModel",
      "type CrashPoint",
      "type Faults",
      "type ManualClock",
      "type MemoryDroverOptions",
      "type MemoryStepQueue",
      "type ScriptedModel",
      "type ScriptedReply",
      "type ScriptedStep",
      "type ScriptedTurn",
    ]);
  });
});

describe("words that programs switch on", () => {
  test("error codes", () => {
    expect(unionOf("src/core/errors.ts", "ErrorCode")).toMatchInlineSnapshot(`
      [
        "invalid",
        "conflict",
        "not_found",
        "not_allowed",
        "too_large",
        "timeout",
        "queue_unavailable",
        "unsupported",
        "stopped",
      ]
    `);
  });

  test("run statuses", () => {
    expect([...runStatuses]).toMatchInlineSnapshot(`
      [
        "queued",
        "running",
        "waiting",
        "paused",
        "completed",
        "failed",
        "cancelled",
        "rejected",
      ]
    `);
  });

  test("stop reasons", () => {
    expect([...stopReasons]).toMatchInlineSnapshot(`
      [
        "answered",
        "max_turns",
        "repeated_calls",
        "token_budget",
        "byte_budget",
        "cost_budget",
        "deadline",
        "verify_failed",
        "bad_output",
        "model_error",
        "poison",
        "child_failed",
        "cancelled",
      ]
    `);
  });

  test("events", () => {
    expect(unionOf("src/core/event.ts", "RunEvent")).toMatchInlineSnapshot(`
      [
        "run_began",
        "model_answered",
        "model_failed",
        "summary_wanted",
        "summarised",
        "summary_taken",
        "window_shrunk",
        "answer_verified",
        "answer_refused",
        "verify_failed",
        "tool_started",
        "tool_finished",
        "tool_failed",
        "tool_lost",
        "tool_unknown",
        "child_started",
        "child_ended",
        "child_goes_on",
        "child_lost",
        "child_finished",
        "child_retried",
        "parent_told",
        "children_ended",
        "pause_requested",
        "resume_requested",
        "step_held",
        "step_admitted",
        "step_isolated",
        "step_crashed",
        "limit_reached",
        "time_came",
        "approved",
        "denied",
        "answered",
        "input_received",
        "session_joined",
        "session_queued",
        "session_entered",
        "session_refused",
        "session_passed",
        "cancel_requested",
        "retry_requested",
        "usage_reported",
      ]
    `);
  });

  test("feed entries", () => {
    expect(unionOf("src/core/feed-entry.ts", "FeedEntry")).toMatchInlineSnapshot(`
      [
        "run_created",
        "run_rejected",
        "run_began",
        "model_answered",
        "model_failed",
        "summarised",
        "window_shrunk",
        "answer_verified",
        "answer_refused",
        "verify_failed",
        "tool_started",
        "tool_finished",
        "tool_failed",
        "tool_lost",
        "policy_applied",
        "approval_asked",
        "approved",
        "denied",
        "approval_expired",
        "answer_asked",
        "answered",
        "answer_expired",
        "child_started",
        "child_ended",
        "child_lost",
        "run_paused",
        "run_resumed",
        "tool_described",
        "step_held",
        "step_crashed",
        "input_received",
        "messages_appended",
        "session_queued",
        "session_entered",
        "run_retried",
        "usage_reported",
        "run_ended",
      ]
    `);
  });
});

test("names in Redis", () => {
  const keys = createKeys();
  const { run, session, transcript, listByStatus, listByAgent, listBySession, listByTenant, ...others } = keys;
  const { countsOfTenant, definition, ended, gate, lease, webSession, response, ...fixed } = others;
  const made = {
    run: { ...run("RUN"), voided: run("RUN").voided("CLAIM") },
    session: session("SESSION"),
    transcripts: [transcript("RUN"), transcript("session:SESSION")],
    ofSession: listBySession("SESSION"),
    ofTenant: [listByTenant("TENANT"), countsOfTenant("TENANT")],
    status: listByStatus("STATUS"),
    endedWith: ended("STATUS"),
    agent: listByAgent("AGENT"),
    hash: definition("HASH"),
    gate: gate("KEY"),
    lease: lease("NAME"),
    web: webSession("HASH"),
    response: response("ID"),
  };
  expect({ ...fixed, ...made }).toMatchInlineSnapshot(`
    {
      "accessKeys": "{drover}:r:keys",
      "agent": "{drover}:r:list:agent:AGENT",
      "control": "{drover}:r:control",
      "counts": "{drover}:r:counts",
      "definitionsPut": "{drover}:r:definitions",
      "endedWith": "{drover}:r:ended:STATUS",
      "fleetPause": "{drover}:r:pause",
      "gate": {
        "all": [
          "{drover}:r:gate:KEY",
          "{drover}:r:gate:KEY:tickets",
          "{drover}:r:gate:KEY:leases",
          "{drover}:r:gate:KEY:line",
        ],
        "breaker": "{drover}:r:gate:KEY:breaker",
        "leases": "{drover}:r:gate:KEY:leases",
        "pause": "{drover}:r:gate:KEY:pause",
      },
      "hash": "{drover}:r:definition:HASH",
      "idleSessions": "{drover}:r:sessions:idle",
      "lease": "{drover}:r:lease:NAME",
      "listAll": "{drover}:r:list",
      "listsByStatus": [
        "{drover}:r:list:status:queued",
        "{drover}:r:list:status:running",
        "{drover}:r:list:status:waiting",
        "{drover}:r:list:status:paused",
        "{drover}:r:list:status:completed",
        "{drover}:r:list:status:failed",
        "{drover}:r:list:status:cancelled",
        "{drover}:r:list:status:rejected",
      ],
      "ofSession": "{drover}:r:list:session:SESSION",
      "ofTenant": [
        "{drover}:r:list:tenant:TENANT",
        "{drover}:r:counts:tenant:TENANT",
      ],
      "owing": "{drover}:r:owing",
      "prefix": "{drover}",
      "presence": {
        "agents": "{drover}:r:agents",
        "told": "{drover}:r:workers:told",
        "until": "{drover}:r:workers",
      },
      "queuePrefix": "{drover}:q",
      "response": {
        "events": "{drover}:r:response-events:ID",
        "head": "{drover}:r:response:ID",
      },
      "responses": "{drover}:r:responses",
      "run": {
        "channel": "{drover}:r:run:RUN:channel",
        "ended": "{drover}:r:run:RUN:ended",
        "feed": "{drover}:r:run:RUN:feed",
        "head": "{drover}:r:run:RUN",
        "live": "{drover}:r:run:RUN:live",
        "messages": "{drover}:r:run:RUN:messages",
        "outputs": "{drover}:r:run:RUN:outputs",
        "pointer": "{drover}:r:run:RUN:at",
        "results": "{drover}:r:run:RUN:results",
        "voided": "{drover}:r:run:RUN:void:CLAIM",
      },
      "session": {
        "inputs": "{drover}:r:session:SESSION:inputs",
        "line": "{drover}:r:session:SESSION:line",
        "messages": "{drover}:r:session:SESSION:messages",
      },
      "shards": "{drover}:r:shards",
      "status": "{drover}:r:list:status:STATUS",
      "transcripts": [
        "{drover}:r:run:RUN:messages",
        "{drover}:r:session:SESSION:messages",
      ],
      "web": "{drover}:r:web:HASH",
    }
  `);
});
