import { fleet, of, part, quantile, quantiles, type Row, rate, shown, sum } from "./queries.ts";

export const internals: Row = {
  title: "Internals",
  panels: [
    {
      title: "Overhead of a step",
      about: "Its time that is neither waiting nor the call itself.",
      unit: "s",
      queries: quantiles("stepOverhead"),
    },
    { title: "Wait for a worker", about: "Of steps that were committed.", unit: "s", queries: quantiles("queueWait") },
    {
      title: "Redeliveries and lost locks",
      about: "Redeliveries beyond lost locks are of lost workers.",
      unit: "reqps",
      queries: [
        { expr: sum(rate("redeliveries"), "queue"), legend: `redelivered ${shown("queue")}` },
        { expr: sum(rate("locksLost"), "queue"), legend: `lock lost ${shown("queue")}` },
      ],
    },
    {
      title: "Conflicts, repairs, crashes",
      about: "Conflicts are harmless. Repairs and crashes are not usual.",
      unit: "reqps",
      queries: [
        { expr: sum(rate("conflicts")), legend: "conflicts" },
        { expr: sum(rate("repairs")), legend: "repairs" },
        { expr: sum(rate("crashes")), legend: "crashes" },
      ],
    },
    {
      title: "Runs that owe a step",
      about: "Since when the oldest owes it. Beyond a minute while workers live: see the alert DroverRunsStuck.",
      unit: "s",
      queries: [{ expr: fleet("owingAge"), legend: "oldest" }],
    },
    {
      title: "Event loop delay",
      about: "Per process, p99. Near the lock's 3 s steps are lost.",
      unit: "s",
      queries: [{ expr: of("loopDelayP99"), legend: "{{instance}}" }],
    },
    {
      title: "Memory",
      about: "Per process.",
      unit: "bytes",
      queries: [{ expr: of("memory"), legend: "{{instance}}" }],
    },
    {
      title: "Processor",
      about: "Cores in use, per process.",
      unit: "short",
      queries: [{ expr: `sum by (instance) (rate(${of("cpu")}[$__rate_interval]))`, legend: "{{instance}}" }],
    },
  ],
};

export const http: Row = {
  title: "HTTP",
  panels: [
    {
      title: "Requests",
      about: "By status.",
      unit: "reqps",
      queries: [{ expr: sum(part("requestDuration", "count"), "statusCode"), legend: shown("statusCode") }],
    },
    {
      title: "Time to answer",
      about: "By route; of a stream until it begins.",
      unit: "s",
      queries: [
        {
          expr: quantile(0.99, "requestDuration", "", "method", "route"),
          legend: `p99 ${shown("method")} ${shown("route")}`,
        },
      ],
    },
    {
      title: "Watchers",
      about: "Clients that follow runs.",
      unit: "short",
      queries: [{ expr: `sum(${of("watchers")})`, legend: "watchers" }],
    },
    {
      title: "Rejected starts",
      about: "Starts that left a rejected record; `drover list --status rejected` shows why.",
      unit: "reqps",
      queries: [{ expr: sum(rate("runsRejected")), legend: "rejected" }],
    },
  ],
};
