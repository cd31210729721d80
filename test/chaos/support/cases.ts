/** A way in which queues fail in production, and what has to come of it here. Tests of a case begin with its id. */
export type ChaosCase = { id: string; title: string; outcome: string };

const rows: readonly (readonly [title: string, outcome: string])[] = [
  [
    "a crash between saving state and queueing the next step",
    "The run goes on within 30 s; a committed step asks the model no second time, and the transcript has each step once.",
  ],
  [
    "the record says running, and the queue has nothing for it",
    "The sweeper queues the step within its interval, once, and says so in a counter and a log line with the run's id.",
  ],
  [
    "a job id that is kept blocks, and one that is gone is taken again",
    "A retried run goes on, a replayed step calls nothing, and a start sent again gives the run there is.",
  ],
  [
    "a job id in limbo: its data exists, and it is in no list",
    "The remnant is removed, the step queued again, and the run completes.",
  ],
  [
    "a reply is lost and the command sent again",
    "The winner knows itself by its token: one job per step, one run per start, usage equal to the server's own count.",
  ],
  [
    "Redis has forgotten its scripts",
    "No write is half applied and no run stuck: what is missing is sent again, and nothing rests on MULTI.",
  ],
  [
    "a blocked event loop loses its lock",
    "One commit wins; the loser calls nothing more, queues nothing, says one line, and its slot is free again.",
  ],
  [
    "a limit of stalls that beats the limit of attempts",
    "The run completes once a worker stays up, and a step that kills every worker ends it with a clear reason.",
  ],
  [
    "a lock is lost and the running code is not told",
    "Model calls and tools that may be repeated are aborted within a renewal period; the new owner alone commits.",
  ],
  [
    "a step that kills its worker every time",
    "After the limit of deaths its run alone ends, with the reason; all others finish.",
  ],
  [
    "waits that outlast every lock",
    "A parked run holds no job and asks no model; one approval lets it go on once, a second is refused.",
  ],
  [
    "a shutdown that never ends, or orphans its work",
    "Exit within the grace period and two seconds, Redis or not; steps are handed back and taken within 5 s.",
  ],
  [
    "a Redis that restarts, and workers that do not come back",
    "The first step is begun within 25 s, all runs finish, the CPU idles meanwhile and the log stays small.",
  ],
  [
    "alive, and consuming nothing",
    "The worker's health turns bad, with the reason, when work waits and none is begun; a restart recovers all runs.",
  ],
  [
    "a failover: the old primary answers READONLY",
    "Less than 20 log lines and a tenth of a core; after it all runs finish, and nothing irreversible runs twice.",
  ],
  [
    "client options that look harmless",
    "A start fails in time with a typed error, and unsafe options are refused by name.",
  ],
  [
    "a memory that is full",
    "No run fails: steps wait and go on, starts are refused with a clear error, the log stays small.",
  ],
  [
    "an eviction policy that eats locks",
    "Start-up refuses every policy but noeviction, a later change is noticed, and no durable key expires while its run lives.",
  ],
  [
    "a Redis that comes back empty",
    "What was acknowledged is there as far as persistence promises; workers go on serving, a lost run is not found.",
  ],
  [
    "an error event that nobody listens to",
    "No process ends, no rejection goes unhandled, and no log line holds a task's input.",
  ],
  [
    "a cluster, and keys in different slots",
    "With the hash tag everything works on several nodes; without, start-up names the setting.",
  ],
  [
    "finished jobs that are kept for ever",
    "Keys and memory stay flat after the retention window, and a removed id lets no step run again.",
  ],
  [
    "an event stream that holds every return value",
    "The stream is capped and holds markers; nothing of a deleted run remains.",
  ],
  [
    "payloads too large, stack traces without end",
    "Job data is of one size, input beyond the limit is refused, stored errors are bounded, late commits cost no more.",
  ],
  ["a listing that stops the server", "No slow command, no long pause, and all listings are paged with a maximum."],
  ["connections that leak", "Their number is constant, zero after close, and the process ends by itself."],
  [
    "a child that fails, and a parent that waits for ever",
    "The parent is told within 10 s under each policy, sees which child failed, and its cancel reaches waiting children.",
  ],
  [
    "a provider that says 429",
    "Calls to that model stop over the whole fleet and resume; no attempt is used up and other models are not touched.",
  ],
  [
    "hung calls that take all slots",
    "Each is cut at its deadline, its slot is free again, and normal runs finish in time.",
  ],
  [
    "priorities that starve",
    "Urgent work begins within a few step times, low work is not starved for ever, and every job has a priority.",
  ],
  ["delays, and clocks that disagree", "No delay is off by more than 10 s, and no step is skipped or doubled."],
  ["pause and resume", "No step begins while paused; after the resume all runs finish without a restart."],
  [
    "a rolling deployment, and workers of other makes",
    "An older worker hands back what it cannot read, without using attempts; nothing is lost forward and back.",
  ],
  [
    "telemetry that lies or kills",
    "Spans per trace are bounded and all ended, counters equal the ledger, no content by default, a dead collector slows nothing.",
  ],
];

/** The 34 known ways, Q01 to Q34. */
export const chaosCases: readonly ChaosCase[] = rows.map(([title, outcome], index) => ({
  id: `Q${String(index + 1).padStart(2, "0")}`,
  title,
  outcome,
}));
