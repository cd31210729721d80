import { http, internals } from "./panels-internals.ts";
import {
  by,
  chosen,
  errors,
  fleet,
  of,
  part,
  quantile,
  quantiles,
  type Row,
  rate,
  share,
  shown,
  sum,
} from "./queries.ts";

const health: Row = {
  title: "Health",
  panels: [
    {
      title: "Workers",
      about: "Worker processes that live.",
      unit: "short",
      stat: true,
      queries: [{ expr: fleet("workers") }],
    },
    {
      title: "Longest wait",
      about: "How long the step that waits longest could have been taken. Above a few seconds: add workers.",
      unit: "s",
      stat: true,
      queries: [{ expr: `max(${of("queueAge")})` }],
    },
    {
      title: "Runs by status",
      about: "Runs that are kept. Waiting ones wait for people, for a time, or for a limit.",
      unit: "short",
      stat: true,
      queries: [{ expr: `${fleet("runs", "status")} > 0`, legend: shown("status") }],
    },
    {
      title: "Redis memory",
      about: "Used, of what it may use. At the limit Redis refuses writes, and work stands still.",
      unit: "percentunit",
      stat: true,
      queries: [{ expr: `${fleet("redisMemory")} / ${fleet("redisMemoryLimit")}` }],
    },
    {
      title: "Age of the oldest step",
      about: "Per queue. What to scale by.",
      unit: "s",
      queries: [{ expr: fleet("queueAge", "queue"), legend: shown("queue") }],
    },
    {
      title: "Steps in queues",
      about: "Waiting for a worker, and being executed.",
      unit: "short",
      queries: [
        {
          expr: `max by (${by("queue", "queueState")}) (${of("queueSteps")}{${by("queueState")}!="delayed"})`,
          legend: `${shown("queue")} ${shown("queueState")}`,
        },
      ],
    },
    {
      title: "Workers per queue",
      about: "A queue without one stands still.",
      unit: "short",
      queries: [{ expr: fleet("queueWorkers", "queue"), legend: shown("queue") }],
    },
    {
      title: "Redis",
      about: "One round trip as the process that tells of the fleet measured it.",
      unit: "s",
      queries: [{ expr: fleet("redisRoundTrip"), legend: "round trip" }],
    },
  ],
};

const agents: Row = {
  title: "Agents",
  panels: [
    {
      title: "Runs started and ended",
      about: "Per second.",
      unit: "reqps",
      queries: [
        { expr: sum(rate("runsStarted", chosen)), legend: "started" },
        { expr: sum(rate("runsEnded", chosen), "status"), legend: shown("status") },
      ],
    },
    {
      title: "Why runs end",
      about: "All but answered ones need a look.",
      unit: "reqps",
      queries: [
        {
          expr: sum(rate("runsEnded", chosen), "agent", "stopReason"),
          legend: `${shown("agent")} ${shown("stopReason")}`,
        },
      ],
    },
    {
      title: "Time from start to end",
      about: "Waits for people included.",
      unit: "s",
      queries: quantiles("runDuration", chosen),
    },
    { title: "Model calls", about: "How long they took.", unit: "s", queries: quantiles("inferenceDuration", chosen) },
    {
      title: "Time to the first piece of an answer",
      about: "Of streamed calls.",
      unit: "s",
      queries: [{ expr: quantile(0.9, "timeToFirstChunk", chosen, "model"), legend: `p90 ${shown("model")}` }],
    },
    {
      title: "Failed model calls",
      about: "By what went wrong; most are tried again.",
      unit: "reqps",
      queries: [
        {
          expr: sum(part("inferenceDuration", "count", `${chosen},${errors}`), "model", "error"),
          legend: `${shown("model")} ${shown("error")}`,
        },
      ],
    },
    {
      title: "Tokens",
      about: "Per second, by agent and model.",
      unit: "short",
      queries: [
        { expr: sum(rate("inputTokens", chosen), "agent", "model"), legend: `in ${shown("agent")} ${shown("model")}` },
        {
          expr: sum(rate("outputTokens", chosen), "agent", "model"),
          legend: `out ${shown("agent")} ${shown("model")}`,
        },
        {
          expr: sum(rate("cachedTokens", chosen), "agent", "model"),
          legend: `cached ${shown("agent")} ${shown("model")}`,
        },
      ],
    },
    {
      title: "Cost per hour",
      about: "Where a price is known.",
      unit: "currencyUSD",
      queries: [
        {
          expr: `3600 * ${sum(rate("cost", chosen), "agent", "model")}`,
          legend: `${shown("agent")} ${shown("model")}`,
        },
      ],
    },
    {
      title: "Model calls per run",
      about: "Mean of the runs that ended.",
      unit: "short",
      queries: [
        {
          expr: `${sum(part("runCalls", "sum", chosen), "agent")} / ${sum(part("runCalls", "count", chosen), "agent")}`,
          legend: shown("agent"),
        },
      ],
    },
    {
      title: "Waits for people",
      about: "How long calls waited for a decision or an answer.",
      unit: "s",
      queries: [{ expr: quantile(0.9, "approvalDuration", "", "decision"), legend: `p90 ${shown("decision")}` }],
    },
  ],
};

const tools: Row = {
  title: "Tools",
  panels: [
    {
      title: "Success",
      about: "Share of executions without an error.",
      unit: "percentunit",
      queries: [
        {
          expr: `1 - (${share("toolDuration", errors, "tool", chosen)} or 0 * ${sum(part("toolDuration", "count", chosen), "tool")})`,
          legend: shown("tool"),
        },
      ],
    },
    {
      title: "Duration",
      about: "Of one execution.",
      unit: "s",
      queries: [{ expr: quantile(0.9, "toolDuration", chosen, "tool"), legend: `p90 ${shown("tool")}` }],
    },
    {
      title: "Executions",
      about: "Per second; with an error by what it was.",
      unit: "reqps",
      queries: [
        {
          expr: sum(part("toolDuration", "count", chosen), "tool", "error"),
          legend: `${shown("tool")} ${shown("error")}`,
        },
      ],
    },
    {
      title: "Switched off",
      about: "Tools that failed too often in a row; the model is told.",
      unit: "short",
      queries: [
        { expr: `${fleet("breakerOpen", "tool")} > 0`, legend: `${shown("tool")} is off` },
        {
          expr: `sum by (${by("tool")}) (increase(${of("breakerOpenings")}[$__rate_interval]))`,
          legend: `${shown("tool")} openings`,
        },
      ],
    },
    {
      title: "Under limits",
      about: "Calls inside a limit of the fleet, and waiting for a place.",
      unit: "short",
      queries: [{ expr: fleet("gateCalls", "gate", "gateState"), legend: `${shown("gate")} ${shown("gateState")}` }],
    },
    {
      title: "Steps held back",
      about: "By the reason. unknown_agent and unknown_tool: no worker knows it.",
      unit: "reqps",
      queries: [{ expr: sum(rate("held"), "reason"), legend: shown("reason") }],
    },
  ],
};

export const rows: readonly Row[] = [health, agents, tools, internals, http];
