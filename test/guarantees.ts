// What Drover promises, as data. A test proves a promise by beginning its title with the id in brackets, as in
// "[G3] the transcript ...", or with several. guarantees.test.ts holds both sides together; the README's table is made
// from this list.
import { readSources } from "./architecture/source.ts";

export type Guarantee = {
  /** G1 to G9 are the invariants of the design; D ids are figures promised to operators. */
  id: string;
  promise: string;
};

/** A test that cites a promise. */
export type Proof = { id: string; file: string; title: string };

export const guarantees: readonly Guarantee[] = [
  {
    id: "G1",
    promise:
      "An outcome is committed at most once: a repeated, late or superseded event changes nothing, and a commit whose reply was lost counts as done.",
  },
  {
    id: "G2",
    promise:
      "A step ends only after the steps that follow from it are queued; whatever a crash leaves unqueued is found again by redelivery or by the sweeper.",
  },
  {
    id: "G3",
    promise:
      "The transcript only grows and is valid at all times: every tool call has exactly one tool message, in call order, before the next model call.",
  },
  {
    id: "G4",
    promise:
      "A tool that may not run again is started at most once; if its outcome is not known, the model or a person is told so and nothing starts it again by itself.",
  },
  {
    id: "G5",
    promise:
      "A waiting run costs its record and at most one delayed job, holds nothing in any process, and goes on when its last open call is settled.",
  },
  {
    id: "G6",
    promise: "What the model was sent in any turn can be shown again from what is stored.",
  },
  {
    id: "G7",
    promise:
      "Bad input never kills a worker and never loses a task: a malformed job is kept as rejected with the reason, an unknown agent or tool parks the run until a worker knows it.",
  },
  {
    id: "G8",
    promise:
      "Losing a worker is not an error: it uses up no retry and fails no run; a step that keeps killing workers fails its own run alone, as poison.",
  },
  {
    id: "G9",
    promise: "A failed run can go on from the turn where it failed; nothing before that is done or paid for again.",
  },
  {
    id: "D1",
    promise:
      "After kill -9 of any worker at any point its runs go on within 5 s with default settings; none is lost, and nothing is done twice that must not be.",
  },
  {
    id: "D3",
    promise:
      "What Redis holds for a run is linear in new content: at most 1.3 times its messages and results plus 4 KB, live text apart.",
  },
  {
    id: "D5",
    promise:
      "Cancelling works from any process and aborts the model request or tool in flight within 100 ms; tokens already spent are counted.",
  },
  {
    id: "D7",
    promise:
      "The numbered feed of a run can be read during and after it, and a reader that comes back misses and repeats nothing.",
  },
  {
    id: "D8",
    promise:
      "Starting is idempotent over every way in: the same run id or idempotency key gives the same run, also through the endpoints for OpenAI's clients, whose numbered events never change once given.",
  },
  {
    id: "D11",
    promise:
      "A rolling restart loses no step: what a worker had in hand when it was told to end is finished, or handed back and delivered once more. A failover of Redis leaves no run stuck and loses at most what no replica had; with `durability`, nothing that was acknowledged.",
  },
  {
    id: "D16",
    promise:
      "A run is one trace over any number of processes: one root, right parents, no span twice, also after a kill.",
  },
  {
    id: "D18",
    promise:
      "`drover chaos` plays your own agents while processes die, freeze and lose replies at every commit, judges them by what their tools really did, and shrinks a failure to the faults that it takes.",
  },
];

/** Every citation in the tests, found in their source text. */
export function findProofs(): Proof[] {
  const tests = readSources("test").filter(({ path }) => /\.(test|contract)\.ts$/.test(path));
  return tests.flatMap(({ path, text }) =>
    [...text.matchAll(/(["'`])(?<ids>(?:\[[GD]\d+\]\s*)+)(?<title>.*?)\1/g)].flatMap(({ groups }) =>
      [...(groups?.ids ?? "").matchAll(/[GD]\d+/g)].map(([id]) => ({ id, file: path, title: groups?.title ?? "" })),
    ),
  );
}
