import { expect, test } from "vitest";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { contentOf, planApproval, planEnd, planRoot, planStart, planStep } from "../../src/telemetry/spans.ts";
import { approval, aRun, ended, modelSpan, toolSpan } from "./fixtures.ts";

// Dashboards and alerts are built on these names: one that changes is a release note, and one that is not in the
// conventions must not begin with `gen_ai.`.

const run = aRun(createNoTelemetry(), { session: "cust-7" });
const everyRun = ["drover.run.id", "gen_ai.agent.name", "gen_ai.conversation.id"];
const everyStep = [
  "drover.attempt",
  "drover.commit_ms",
  "drover.load_ms",
  "drover.perform_ms",
  "drover.queue_wait_ms",
  "drover.step",
  "drover.turn",
];
const totals = [
  "drover.cost_usd",
  "drover.status",
  "drover.stop_reason",
  "drover.turns",
  "gen_ai.usage.input_tokens",
  "gen_ai.usage.output_tokens",
];

const keys = (plan: { attributes: object }): string[] => Object.keys(plan.attributes).sort();

test("every span of a dry run, and of no other, says so", () => {
  const dry = { ...run, dryRun: true };
  const plans = [planRoot(dry), planStart(dry), planStep(toolSpan(dry)), planStep(modelSpan(dry))];
  for (const plan of [...plans, planApproval(dry, approval), planEnd(dry)]) {
    expect(plan.attributes).toMatchObject({ "drover.dry_run": true });
  }
  expect(planRoot(run).attributes).not.toHaveProperty("drover.dry_run");
});

test("chat", () => {
  expect(keys(planStep(modelSpan(run), contentOf(modelSpan(run))))).toEqual(
    [
      ...everyRun,
      ...everyStep,
      "drover.usage.estimated",
      "gen_ai.input.messages",
      "gen_ai.operation.name",
      "gen_ai.output.messages",
      "gen_ai.output.type",
      "gen_ai.provider.name",
      "gen_ai.request.choice.count",
      "gen_ai.request.frequency_penalty",
      "gen_ai.request.max_tokens",
      "gen_ai.request.model",
      "gen_ai.request.presence_penalty",
      "gen_ai.request.reasoning.level",
      "gen_ai.request.seed",
      "gen_ai.request.stop_sequences",
      "gen_ai.request.stream",
      "gen_ai.request.temperature",
      "gen_ai.request.top_k",
      "gen_ai.request.top_p",
      "gen_ai.response.finish_reasons",
      "gen_ai.response.id",
      "gen_ai.response.model",
      "gen_ai.response.time_to_first_chunk",
      "gen_ai.system_instructions",
      "gen_ai.usage.cache_read.input_tokens",
      "gen_ai.usage.input_tokens",
      "gen_ai.usage.output_tokens",
      "server.address",
      "server.port",
    ].sort(),
  );
});

test("execute_tool", () => {
  expect(keys(planStep(toolSpan(run), contentOf(toolSpan(run))))).toEqual(
    [
      ...everyRun,
      ...everyStep,
      "drover.call.id",
      "drover.tool.effect",
      "gen_ai.operation.name",
      "gen_ai.tool.call.arguments",
      "gen_ai.tool.call.id",
      "gen_ai.tool.call.result",
      "gen_ai.tool.description",
      "gen_ai.tool.name",
      "gen_ai.tool.type",
    ].sort(),
  );
});

test("invoke_agent, at once and with its totals", () => {
  expect(keys(planRoot(run))).toEqual([...everyRun, "gen_ai.operation.name"].sort());
  expect(keys(planEnd(ended(run)))).toEqual([...everyRun, ...totals, "gen_ai.operation.name"].sort());
});

test("spans without a convention do not claim one", () => {
  expect(keys(planStart(run))).toEqual(everyRun);
  expect(keys(planApproval(run, approval))).toEqual(
    [...everyRun, "drover.approval.by", "drover.approval.decision", "drover.call.id", "gen_ai.tool.name"].sort(),
  );
  const answer = planApproval(run, { ...approval, decision: "answered", from: "person" });
  expect(answer.name).toBe("drover.answer");
  expect(keys(answer)).toEqual(
    [
      ...everyRun,
      ...["drover.answer.by", "drover.answer.from", "drover.answer.outcome", "drover.call.id", "gen_ai.tool.name"],
    ].sort(),
  );
  expect(keys(planEnd(ended(run, { retryLimits: {} })))).toEqual([...everyRun, ...totals].sort());
  expect(
    [planStart(run), planApproval(run, approval), planEnd(ended(run, { retryLimits: {} }))].map(({ name }) => name),
  ).toEqual(["drover.run.start", "drover.approval", "drover.run.end"]);
});
