import type { StepView, TurnView } from "../../core/report.ts";
import { formatDuration } from "./format.ts";
import { type Html, html } from "./html.ts";
import { took } from "./parts.ts";

/** A stretch of a turn, in ms from its beginning. `lane`: of several at once. */
export type Segment = { kind: "queue" | "model" | "tool" | "check" | "person"; from: number; to: number; lane: number };

type Bar = { segments: Segment[]; lanes: number; lengthMs: number };

const kinds: Record<StepView["kind"], Segment["kind"]> = {
  model: "model",
  tool: "tool",
  summary: "check",
  verify: "check",
  approval: "person",
  answer: "person",
};

/** Where the time of a turn went. Steps that were under way at once lie in lanes of their own. */
export function barOf({ startedAt, endedAt, steps }: TurnView, now: number): Bar {
  const lengthMs = Math.max(1, (endedAt ?? now) - startedAt);
  const laneEnds: number[] = [];
  const segments: Segment[] = [];
  for (const step of steps) {
    const span = spanOf(step, startedAt, now);
    if (!span) continue;
    const [from, begun, to] = span.map((at) => Math.min(Math.max(at - startedAt, 0), lengthMs)) as [
      number,
      number,
      number,
    ];
    const free = laneEnds.findIndex((end) => end <= from + 1);
    const lane = free === -1 ? laneEnds.length : free;
    laneEnds[lane] = to;
    if (begun > from) segments.push({ kind: "queue", from, to: begun, lane });
    segments.push({ kind: kinds[step.kind], from: begun, to, lane });
  }
  return { segments, lanes: Math.max(1, laneEnds.length), lengthMs };
}

/** When it came into its queue, when it began, and when it was over. */
function spanOf(step: StepView, turnStartedAt: number, now: number): number[] | undefined {
  const { startedAt, endedAt, performMs, queueWaitMs = 0, outcome } = step;
  if (outcome === "held") return undefined;
  const to = endedAt ?? now;
  const known = endedAt === undefined ? (startedAt ?? turnStartedAt) : startedAt;
  const begun = performMs === undefined ? known : to - performMs;
  return begun === undefined ? undefined : [begun - queueWaitMs, begun, to];
}

/** Turns that took far longer than most have a scale of their own, or nothing could be seen of the others. */
export function scaleOf(lengths: readonly number[]): number {
  const sorted = lengths.toSorted((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] ?? 1;
  return sorted.findLast((length) => length <= 6 * middle) ?? middle;
}

const width = 1_000;
const height = 24;

function drawBar({ segments, lanes, lengthMs }: Bar, scaleMs: number): Html {
  const isLong = lengthMs > scaleMs;
  const perMs = width / Math.max(isLong ? lengthMs : scaleMs, 1);
  const laneHeight = height / lanes;
  const rects = segments.map(({ kind, from, to, lane }) => {
    const x = (from * perMs).toFixed(1);
    const size = Math.max((to - from) * perMs, 2).toFixed(1);
    return html`<rect class="seg-${kind}" x="${x}" y="${(lane * laneHeight).toFixed(2)}" width="${size}" height="${Math.max(laneHeight - 1, 1).toFixed(2)}"/>`;
  });
  const words = describe(segments);
  return html`<svg class="spans ${isLong ? "is-long" : ""}" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${words}"><title>${words}</title><rect class="seg-ground" width="${(Math.min(lengthMs, isLong ? lengthMs : scaleMs) * perMs).toFixed(1)}" height="${height}"/>${rects}</svg>`;
}

const words: Record<Segment["kind"], string> = {
  queue: "in queues",
  model: "model",
  tool: "tools",
  check: "summary and checks",
  person: "waiting for a person",
};

function describe(segments: readonly Segment[]): string {
  const sums = new Map<Segment["kind"], number>();
  for (const { kind, from, to } of segments) sums.set(kind, (sums.get(kind) ?? 0) + to - from);
  const parts = [...sums].map(([kind, ms]) => `${words[kind]} ${formatDuration(ms)}`);
  return parts.length === 0 ? "no times are known" : parts.join(", ");
}

/** One line per turn, with where its time went. */
export function renderTimeline(turns: readonly TurnView[], now: number, href: (turn: number) => string): Html {
  const bars = turns.map((turn) => barOf(turn, now));
  const scaleMs = scaleOf(bars.map(({ lengthMs }) => lengthMs));
  const used = new Set(bars.flatMap(({ segments }) => segments.map(({ kind }) => kind)));
  const rows = turns.map((turn, index) => {
    const bar = bars[index];
    return html`<li><a href="${href(turn.turn)}"><span class="unseen">Turn </span>${turn.turn}</a>${bar ? drawBar(bar, scaleMs) : ""}<span class="took">${took(turn.startedAt, turn.endedAt, now)}</span></li>`;
  });
  const legend = (Object.keys(words) as Segment["kind"][]).filter((kind) => used.has(kind));
  return html`<ol class="timeline">${rows}</ol>
<p class="legend">${legend.map((kind) => html`<span><svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class="seg-${kind}" width="10" height="10" rx="2"/></svg>${words[kind]}</span>`)}</p>`;
}
