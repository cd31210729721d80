import { breakerVerdict } from "../../core/breaker.ts";
import { type Pause, runStatuses } from "../../core/run.ts";
import type { FleetView, GateView } from "../../ports.ts";
import type { Caller } from "../types.ts";
import { formatAge, formatBytes, formatCount, formatDuration, formatNumber } from "./format.ts";
import { form } from "./forms.ts";
import { type Html, html, query } from "./html.ts";
import { age, ago, due, facts, statusBadge } from "./parts.ts";

/** The installation: who works, what waits, what holds it back. */
export function renderFleet(fleet: FleetView, board: boolean, acting?: Acting): Html {
  return html`<div class="page-head"><h1>Fleet</h1>${board ? html`<p class="head-links"><a href="/ui/queues">Raw queues</a></p>` : ""}</div>
${acting?.notice ?? ""}${acting ? pauseForm(fleet, acting.caller) : ""}
<div id="fleet" data-refresh="3000" class="stacked">
${fleet.paused ? pausedBy(fleet.paused, fleet) : ""}${overview(fleet)}
${section("Queues", queues(fleet))}
${section("Workers", workers(fleet))}
${section("Limits and breakers", gates(fleet))}
${section("Agents", agents(fleet))}
</div>`;
}

/** Who looks, and what came of what they did last. */
type Acting = { caller: Caller; notice?: Html | undefined };

function pausedBy({ by, reason, at: since }: Pause, { workers: all, at }: FleetView): Html {
  const taking = all.filter(({ paused }) => !paused).length;
  const rest =
    taking === 0
      ? ""
      : html` <strong class="tone-bad">${formatNumber(taking, "worker")} may still take steps.</strong>`;
  return html`<p class="notice tone-warn" role="status">The fleet is paused: no step begins. By ${by.slice(0, 100)} ${ago(since, at)}: ${reason.slice(0, 500)}.${rest}</p>`;
}

function pauseForm({ paused }: FleetView, caller: Caller): Html {
  const what = paused ? "resume" : "pause";
  const body = paused
    ? html`<p class="hint">Every worker goes on where it was. Runs that were paused one by one stay so.</p><button class="primary">Resume the fleet</button>`
    : html`<label for="pause-reason">Reason</label><input id="pause-reason" name="reason" maxlength="2000" autocomplete="off"><p class="hint">No step begins anywhere; what is under way may end. What is started or retried waits.</p><button class="danger">Pause the fleet</button>`;
  const inside = form({ caller, back: "/ui/fleet", action: `/ui/fleet/${what}`, body, class: "stack" });
  return html`<details class="act" id="act-${what}"><summary>${paused ? "Resume the fleet" : "Pause the fleet"}</summary>${inside}</details>`;
}

function section(name: string, body: Html): Html {
  const id = `${name.toLowerCase().replaceAll(" ", "-")}-name`;
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${name}</h2>${body}</section>`;
}

function overview({ redis, counts, owing, at, workers: all, queues: allQueues }: FleetView): Html {
  const running = all.reduce((sum, worker) => sum + worker.running, 0);
  const room = all.reduce((sum, worker) => sum + worker.concurrency, 0);
  const oldest = Math.max(-1, ...allQueues.map(({ oldestAgeMs }) => oldestAgeMs ?? -1));
  const used = redis.usedMemoryBytes === undefined ? "not told" : formatBytes(redis.usedMemoryBytes);
  const { usedMemoryBytes = 0, maxMemoryBytes } = redis;
  const memory =
    maxMemoryBytes === undefined
      ? used
      : `${used} of ${formatBytes(maxMemoryBytes)} (${Math.round((usedMemoryBytes / maxMemoryBytes) * 100)} %)`;
  return html`<div class="panels"><section class="panel" aria-label="Work">${facts([
    ["Workers", formatCount(all.length)],
    ["Steps under way", html`<span class="num">${formatCount(running)} of ${formatCount(room)}</span>`],
    ["Oldest waiting step", oldest < 0 ? "none waits" : formatDuration(oldest)],
    [
      "Runs that owe a step",
      html`<span class="num">${formatCount(owing.count)}</span>${owing.oldestSince === undefined ? "" : html`, oldest ${ago(owing.oldestSince, at)}`}`,
    ],
  ])}</section><section class="panel" aria-label="Redis">${facts([
    ["Redis", redis.version ?? "not told"],
    ["Memory", memory],
    ["Clients", redis.clients === undefined ? "not told" : formatCount(redis.clients)],
    ["Round trip", `${redis.roundTripMs.toFixed(1)} ms`],
  ])}</section><section class="panel" aria-label="Runs by status">${facts(
    runStatuses
      .filter((status) => counts[status] > 0)
      .map(
        (status) =>
          [
            html`<a href="/${query({ status })}">${statusBadge(status)}</a>`,
            html`<span class="num">${formatCount(counts[status])}</span>`,
          ] as never,
      ),
  )}</section></div>`;
}

function tableOf(name: string, heads: [label: string, isNumber?: boolean][], rows: Html[], none: string): Html {
  if (rows.length === 0) return html`<p class="empty">${none}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}"><table class="plain"><thead><tr>${heads.map(([label, isNumber]) => html`<th scope="col" class="${isNumber ? "right" : ""}">${label}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

const dash = html`<span class="none">–</span>`;
const number = (value: unknown): Html => html`<td class="right num">${value}</td>`;

function queues({ queues: all }: FleetView): Html {
  const rows = all.map(({ name, waiting, active, delayed, oldestAgeMs, paused, workers: serving }) => {
    const stuck = serving === 0 && waiting > 0;
    const held = paused ? html` <strong class="tone-bad">paused in BullMQ</strong>` : "";
    return html`<tr><th scope="row" class="mono">${name}${held}</th>${number(formatCount(waiting))}${number(oldestAgeMs === undefined ? dash : formatDuration(oldestAgeMs))}${number(formatCount(active))}${number(formatCount(delayed))}<td class="right num">${stuck ? html`<strong class="tone-bad">0, nobody serves it</strong>` : serving}</td></tr>`;
  });
  return tableOf(
    "Queues",
    [["Queue"], ["Waiting", true], ["Oldest", true], ["Active", true], ["Delayed", true], ["Workers", true]],
    rows,
    "No queue is known.",
  );
}

function workers({ workers: all, at }: FleetView): Html {
  const rows = all.map(
    ({ host, pid, version, startedAt, seenAt, queues: served, concurrency, running, agents: known }) =>
      html`<tr><th scope="row" class="mono">${host}<span class="hint">:${pid}</span></th><td class="right">${load(running, concurrency)}</td><td>${known.join(", ")}</td><td class="mono">${served.join(", ")}</td><td class="num">${version}</td>${number(age(startedAt, at))}${number(ago(seenAt, at))}</tr>`,
  );
  return tableOf(
    "Workers",
    [["Worker"], ["Running", true], ["Agents"], ["Queues"], ["Version"], ["Up for", true], ["Seen", true]],
    rows,
    "No worker has told of itself in the last seconds. Start one: drover worker agents.ts",
  );
}

function load(running: number, concurrency: number): Html {
  const share = concurrency === 0 ? 0 : Math.min(1, running / concurrency);
  return html`<span class="load"><svg viewBox="0 0 60 6" width="60" height="6" aria-hidden="true"><rect class="seg-ground" width="60" height="6" rx="3"/><rect class="seg-model" width="${(60 * share).toFixed(1)}" height="6" rx="3"/></svg><span class="num">${running} of ${concurrency}</span></span>`;
}

function gates({ gates: all, at }: FleetView): Html {
  const rows = all.map((gate) => {
    const { kind, name, rate, concurrency, inside, waiting } = gate;
    return html`<tr><th scope="row"><span class="hint">${kind}</span> <code>${name}</code></th><td class="num">${rate ? `${formatCount(rate.max)} per ${formatAge(rate.perMs).replace(/^1 /, "")}` : dash}</td>${number(concurrency === undefined ? html`${inside}` : `${inside} of ${concurrency}`)}${number(waiting)}<td>${gateState(gate, at)}</td></tr>`;
  });
  return tableOf(
    "Limits and breakers",
    [["Tool or model"], ["Rate"], ["Inside", true], ["Held back", true], ["State"]],
    rows,
    "No tool or model has a limit or a breaker.",
  );
}

function gateState({ breaker, pausedUntil }: GateView, at: number): Html {
  const paused =
    pausedUntil !== undefined && pausedUntil > at
      ? html`<span class="outcome tone-warn">provider asked to pause, goes on ${due(pausedUntil, at)}</span>`
      : "";
  const verdict = breakerVerdict(breaker, at);
  if (verdict.type === "open")
    return html`${paused} <span class="outcome tone-bad">switched off after ${breaker?.failures ?? 0} failures, tried again ${due(verdict.until, at)}</span>`;
  if (verdict.type === "half_open")
    return html`${paused} <span class="outcome tone-warn">the next call is a trial</span>`;
  const failures = breaker?.failures ?? 0;
  return html`${paused}${failures > 0 ? html`<span class="outcome tone-warn">${failures} failed in a row</span>` : paused === "" ? html`<span class="outcome tone-good">open to all</span>` : ""}`;
}

function agents({ agents: all, at, workers: serving }: FleetView): Html {
  const rows = all.map(({ name, model, tools, version, seenAt }) => {
    const count = serving.filter((worker) => worker.agents.includes(name)).length;
    return html`<tr><th scope="row"><a href="/${query({ agent: name })}">${name}</a></th><td class="mono">${model}</td><td>${tools.join(", ")}</td><td>${version ?? dash}</td><td class="right num">${count === 0 ? html`<strong class="tone-warn">0</strong>` : count}</td>${number(ago(seenAt, at))}</tr>`;
  });
  return tableOf(
    "Agents",
    [["Agent"], ["Model"], ["Tools"], ["Version"], ["Workers", true], ["Seen", true]],
    rows,
    "No worker has told of its agents yet.",
  );
}
