import { toOneLine } from "../format/text.ts";
import type { Output } from "../output.ts";
import type { CrewMember } from "./crew.ts";
import type { StageReport } from "./stage.ts";

/** What the demo saw of the kill: which call was held, by whom, and how long it took another worker to hold it again. */
export type Kill = { callId: string; victim: CrewMember; at: number; rescuer?: CrewMember; resumedAfterMs?: number };

export type Director = {
  /** Hears what a worker does: prints it, gives the word, and kills the first worker that holds a step of turn 2. */
  onReport(member: CrewMember, report: StageReport): void;
  kill(): Kill | undefined;
  /** How often a tool was about to have its effect, attempts that were killed included. */
  held(): number;
};

/** From this turn on the first call that is held costs its worker its life. */
const fatalTurn = 2;

export function createDirector(output: Output, runId: string): Director {
  const startedAt = performance.now();
  let kill: Kill | undefined;
  let held = 0;
  const tell = (text: string): void => {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(2);
    output.line(`  ${output.mark("dim", `${seconds.padStart(6)} s`)}  ${text}`);
  };
  const who = (member: CrewMember): string => output.mark("cyan", `worker ${member.name} (${member.pid})`);

  function onHolding(member: CrewMember, report: Extract<StageReport, { type: "holding" }>): void {
    const { callId, turn, tool, args } = report;
    held += 1;
    tell(`${who(member)}  ${tool} ${toOneLine(args, 80)} ${output.mark("dim", callId)}`);
    if (kill === undefined && turn >= fatalTurn) {
      kill = { callId, victim: member, at: performance.now() };
      member.kill();
      tell(output.mark("red", `kill -9 ${member.pid}: worker ${member.name} is dead in the middle of that step`));
      return;
    }
    if (kill?.callId === callId && kill.rescuer === undefined) {
      kill.rescuer = member;
      kill.resumedAfterMs = performance.now() - kill.at;
      const seconds = (kill.resumedAfterMs / 1000).toFixed(1);
      tell(output.mark("green", `worker ${member.name} holds the same step, ${seconds} s after the kill`));
    }
    member.send({ type: "go", runId, callId });
  }

  return {
    onReport(member, report) {
      // A run that an earlier demo left behind is let go on, quietly.
      if (report.type === "holding" && report.runId !== runId) {
        member.send({ type: "go", runId: report.runId, callId: report.callId });
      } else if (report.type === "holding") onHolding(member, report);
      else if (report.type === "model" && report.runId === runId) {
        tell(`${who(member)}  model call, turn ${report.turn}`);
      }
    },
    kill: () => kill,
    held: () => held,
  };
}
